/* export_model.c: see export_jobs.h. A checkpoint is downloaded into a temporary file beside the
 * destination, and its digest is checked. Then traind-worker extracts the weights; with --full the
 * whole file is kept. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "client/connection/checkpoint_download.h"
#include "client/connection/connection.h"
#include "client/exports/export_jobs.h"
#include "client/exports/replacement_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct model_export {
    struct checkpoint_download download;
    const char *option;           /* of traind-worker export, for the file; borrowed */
    const char *path;             /* of the checkpoint; borrowed */
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

static bool writes_weights(const struct model_export *model)
{
    return strcmp(model->option, "output") == 0;
}

/* In the child: executes traind-worker export CHECKPOINT --OPTION FILE --json, for weights with
 * --weights WHICH and --no-module, and if there is a specification with --spec FILE. */
static void worker_execute(const struct model_export *model, const char *worker, const char *output,
                           int specification)
{
    const char *weights = invocation_option(model->download.invocation, "weights");
    bool no_module = invocation_flag(model->download.invocation, "no-module");
    char path[32], option[32];
    const char *arguments[11] = {worker, "export", model->path, option, output, "--json"};
    int count = 6;

    snprintf(path, sizeof path, "/proc/self/fd/%d", specification);
    snprintf(option, sizeof option, "--%s", model->option);
    if (writes_weights(model)) {
        arguments[count++] = "--weights";
        arguments[count++] = weights ? weights : "evaluated";
    }
    if (no_module) {
        arguments[count++] = "--no-module";
    } else if (specification >= 0) {
        arguments[count++] = "--spec";
        arguments[count++] = path;
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
               invocation_flag(model->download.invocation, "full") ? "checkpoint"
               : writes_weights(model)                             ? "weights"
                                                                   : "model",
               model->download.id, model->download.step,
               model->download.best ? ", the best checkpoint" : "",
               text_format_bytes((uint64_t)bytes, size, sizeof size));
        if (module)
            printf("%s: the same model in Python, with its preprocessing\n",
                   text_escape_controls(module, escaped, sizeof escaped));
    }
}

enum exit_status export_model(struct invocation *invocation, const char *option, const char *output)
{
    struct model_export model = {.download = {.invocation = invocation, .descriptor = -1},
                                 .option = option};
    struct replacement_file file = {0};
    enum exit_status status = connection_find_job(invocation, invocation->arguments[0],
                                                  JOB_IS_ACTED_ON, &model.download.id);

    if (!status)
        status = connection_open(invocation);
    if (!status)
        status = replacement_file_open(&file, output);
    if (status)
        return status;
    model.download.descriptor = file.descriptor;
    model.download.path = model.path = file.temporary;
    status = checkpoint_download_run(&model.download);
    if (!status)
        status = invocation_flag(invocation, "full") ? replacement_file_finish(&file)
                                                     : weights_export(&model, output);
    replacement_file_close(&file);
    if (!status)
        result_print(&model, output);
    json_object_put(model.exported);
    return status;
}
