/* export.c: `trainctl export` downloads a checkpoint into a temporary file beside the destination
 * and checks its digest. Then traind-worker extracts the weights; with --full the whole file is
 * kept. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "client/connection/checkpoint_download.h"
#include "client/connection/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct model_export {
    struct checkpoint_download download;
    char *path;                   /* owned; removed unless it becomes the result */
    struct json_object *exported; /* the worker's description of its files; owned */
};

/* Reads the worker's output, a JSON object, and waits for its end. */
static enum exit_status worker_finish(struct model_export *model, const char *worker, pid_t child,
                                      int output)
{
    char text[8192];
    size_t used = 0;
    ssize_t size;
    int wait_status;
    struct error ignored;

    while ((size = read(output, text + used, sizeof text - used)) > 0 ||
           (size < 0 && errno == EINTR))
        used += size > 0 ? (size_t)size : 0;
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(wait_status))
        complain("%s was ended by signal %d", worker, WTERMSIG(wait_status));
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)
        return EXIT_STATUS_FAILED;
    (void)json_parse(text, used, &model->exported, &ignored); /* the files are there anyway */
    return EXIT_STATUS_DONE;
}

/* In the child: executes traind-worker export CHECKPOINT --output FILE --json --weights WHICH, with
 * --no-module or, if there is a specification, --spec FILE. */
static void worker_execute(const struct model_export *model, const char *worker, const char *output,
                           int specification)
{
    const char *weights = invocation_option(model->download.invocation, "weights");
    char path[32];
    const char *arguments[] = {worker, "export", model->path, "--output",
                               output, "--json", "--weights", weights ? weights : "evaluated",
                               NULL,   NULL,     NULL};

    snprintf(path, sizeof path, "/proc/self/fd/%d", specification);
    if (invocation_flag(model->download.invocation, "no-module")) {
        arguments[8] = "--no-module";
    } else if (specification >= 0) {
        arguments[8] = "--spec";
        arguments[9] = path;
    }
    execv(worker, (char *const *)arguments);
}

static enum exit_status weights_export(struct model_export *model, const char *output)
{
    AUTO_FREE char *worker = file_beside_program("traind-worker");
    AUTO_CLOSE int specification = -1;
    int results[2];
    enum exit_status status;
    pid_t child;

    if (!worker || access(worker, X_OK) != 0) {
        complain("%s is missing: install traind again, or use --full to keep the whole checkpoint",
                 worker ? worker : "traind-worker");
        return EXIT_STATUS_FAILED;
    }
    if (!invocation_flag(model->download.invocation, "no-module"))
        specification = specification_download(model->download.invocation, model->download.id);
    if (pipe2(results, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        complain("cannot start %s: %s", worker, strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    if (child == 0) {
        dup2(results[1], STDOUT_FILENO); /* errors go to standard error */
        worker_execute(model, worker, output, specification);
        _exit(127);
    }
    close(results[1]);
    status = worker_finish(model, worker, child, results[0]);
    close(results[0]);
    return status;
}

/* Gives the file the mode of the user's other files; mkostemp() makes it private. */
static void file_apply_umask(int descriptor)
{
    mode_t mask = umask(0);

    umask(mask);
    (void)fchmod(descriptor, 0666 & ~mask);
}

static enum exit_status export_finish(struct model_export *model, const char *output)
{
    if (!invocation_flag(model->download.invocation, "full"))
        return weights_export(model, output);
    file_apply_umask(model->download.descriptor);
    if (fsync(model->download.descriptor) == 0 && rename(model->path, output) == 0)
        return EXIT_STATUS_DONE;
    complain("cannot write %s: %s", output, strerror(errno));
    return EXIT_STATUS_FAILED;
}

static void result_print(const struct model_export *model, const char *output)
{
    const char *module = json_get_string(model->exported, "module", NULL);
    struct stat file;
    int64_t bytes = stat(output, &file) == 0 ? file.st_size : 0;

    if (model->download.invocation->json) {
        JSON_AUTO struct json_object *result = json_object_new_object();

        json_set_int(result, "id", model->download.id);
        json_set_int(result, "step", model->download.step);
        json_set_bool(result, "best", model->download.best);
        json_set_string(result, "file", output);
        json_set_int(result, "bytes", bytes);
        json_set_string(result, "module", module);
        json_print(result, stdout);
    } else {
        char size[32], escaped[4096];

        printf("%s: %s of job %" PRId64 " at step %" PRId64 "%s, %s\n",
               text_escape_controls(output, escaped, sizeof escaped),
               invocation_flag(model->download.invocation, "full") ? "checkpoint" : "weights",
               model->download.id, model->download.step,
               model->download.best ? ", the best checkpoint" : "",
               text_format_bytes((uint64_t)bytes, size, sizeof size));
        if (module)
            printf("%s: the same model in Python, with its preprocessing\n",
                   text_escape_controls(module, escaped, sizeof escaped));
    }
}

static const char *temporary_path; /* of the download, for the signal handler */

static void interrupted(int signal_number)
{
    unlink(temporary_path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    const char *output = invocation_option(invocation, "output");
    struct model_export model = {.download = {.invocation = invocation, .descriptor = -1}};
    enum exit_status status;
    struct error error = {0};

    if (!output || !*output) {
        complain("export needs --output=FILE: where to write the weights");
        return EXIT_STATUS_USAGE;
    }
    if (file_check_replaceable(output, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    status = connection_find_job(invocation, invocation->arguments[0], JOB_IS_ACTED_ON,
                                 &model.download.id);
    if (!status)
        status = connection_open(invocation);
    if (status)
        return status;
    if (asprintf(&model.path, "%s.XXXXXX", output) < 0) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    model.download.descriptor = mkostemp(model.path, O_CLOEXEC);
    if (model.download.descriptor < 0) {
        complain("cannot write beside %s: %s", output, strerror(errno));
        free(model.path);
        return EXIT_STATUS_USAGE;
    }
    temporary_path = model.path;
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    model.download.path = model.path;
    status = checkpoint_download_run(&model.download);
    if (!status)
        status = export_finish(&model, output);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    unlink(model.path); /* after --full it does not exist any more */
    close(model.download.descriptor);
    free(model.path);
    if (!status)
        result_print(&model, output);
    json_object_put(model.exported);
    return status;
}

static const struct command_option export_options[] = {
    {"output", 'o', "FILE", "Where to write it (required)", COMPLETE_FILES},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)",
     COMPLETE_NOTHING},
    {"weights", 0, "WHICH",
     "evaluated (the moving averages of train.ema, where kept; default) or trained",
     COMPLETE_NOTHING},
    {"full", 0, NULL, "Keep the training state too: a checkpoint to resume from", COMPLETE_NOTHING},
    {"no-module", 0, NULL, "Write no Python module beside the weights", COMPLETE_NOTHING},
    {0},
};

const struct command command_export = {
    .name = "export",
    .place = 320,
    .arguments = "JOB -o FILE",
    .summary = "Write a job's model for PyTorch: weights (safetensors) and a Python module",
    .details = "Tensors have PyTorch's names and layouts, so `load_state_dict` takes them. The "
               "module beside them, FILE with .py, has the network, the preprocessing of its "
               "training data and the names of its classes: `load()` of it gives the model, "
               "which takes raw samples.",
    .minimum = 1,
    .maximum = 1,
    .options = export_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
