/* export.c: `trainctl export` downloads a checkpoint into a temporary file beside the destination
 * and checks its digest. Then traind-worker extracts the weights; with --full the whole file is
 * kept. */
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "client/connection/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct download {
    struct invocation *invocation;
    int64_t id;
    char *path; /* owned; removed unless it becomes the result */
    int descriptor;
    int64_t step, received;
    bool best;                    /* it is the best checkpoint */
    struct json_object *exported; /* the worker's description of its files; owned */
    struct sha256 hash;
};

/* Appends one piece of the file. */
static int download_add(struct download *download, struct json_object *parameters,
                        struct error *error)
{
    const char *data = json_get_string(parameters, "data", "");
    int64_t offset = json_get_int(parameters, "offset", 0);
    AUTO_FREE void *bytes = NULL;
    size_t size;
    int result = base64_decode(data, strlen(data), &bytes, &size, error);

    if (result < 0)
        return result;
    if (offset != download->received)
        return error_set(error, -EPROTO,
                         "the daemon sent byte %" PRId64 " of the checkpoint where %" PRId64
                         " was due",
                         offset, download->received);
    result = file_write_all(download->descriptor, bytes, size);
    if (result < 0)
        return error_set_errno(error, result, "cannot write %s", download->path);
    sha256_add(&download->hash, bytes, size);
    download->received += (int64_t)size;
    download->step = json_get_int(parameters, "step", 0);
    return 0;
}

/* Receives the whole stream. */
static enum exit_status download_run(struct download *download)
{
    struct json_object *parameters = json_object_new_object();
    struct varlink_client *client = download->invocation->client;
    enum exit_status status = EXIT_STATUS_DONE;
    bool continues = true;
    struct error error = {0};
    int64_t bytes = 0, step = -1;
    int result;

    if (invocation_option(download->invocation, "step"))
        status = invocation_option_integer(download->invocation, "step", 0, &step);
    json_set_int(parameters, "id", download->id);
    if (step >= 0)
        json_set_int(parameters, "step", step);
    if (status) {
        json_object_put(parameters);
        return status;
    }
    result = varlink_client_send(client, "io.traind.ReadCheckpoint", parameters, true, &error);
    while (result == 0 && continues) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};

        result = varlink_client_receive(client, -1, &reply, &error);
        if (result < 0) {
            complain("the connection broke after %" PRId64 " bytes: %s", download->received,
                     error.text);
            return EXIT_STATUS_UNREACHABLE;
        }
        if (reply.error)
            return connection_refused(&reply);
        continues = reply.continues;
        bytes = json_get_int(reply.parameters, "bytes", 0);
        result = download_add(download, reply.parameters, &error);
    }
    if (result == 0 && download->received != bytes)
        result = error_set(&error, -EPROTO,
                           "the daemon sent %" PRId64 " of the checkpoint's %" PRId64 " bytes",
                           download->received, bytes);
    if (result < 0)
        complain("%s", error.text);
    return result < 0 ? EXIT_STATUS_FAILED : EXIT_STATUS_DONE;
}

/* Compares the received file with the digest that the daemon stored. */
static enum exit_status download_verify(struct download *download)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *checkpoints;
    char digest[SHA256_HEX_SIZE];
    enum exit_status status;

    sha256_end(&download->hash, digest);
    json_set_int(parameters, "id", download->id);
    status = connection_call(download->invocation, "Checkpoints", parameters, &reply);
    if (status)
        return status;
    checkpoints = json_get(reply.parameters, "checkpoints");
    for (size_t i = 0; i < json_object_array_length(checkpoints); i++) {
        struct json_object *checkpoint = json_object_array_get_idx(checkpoints, i);

        if (json_get_int(checkpoint, "step", -1) != download->step)
            continue;
        download->best = json_get_bool(checkpoint, "best", false);
        if (strcmp(json_get_string(checkpoint, "digest", ""), digest) == 0)
            return EXIT_STATUS_DONE;
        if (i + 1 < json_object_array_length(checkpoints) &&
            json_get_int(json_object_array_get_idx(checkpoints, i + 1), "step", -1) ==
                download->step)
            continue; /* the step has two checkpoints */
        complain("the checkpoint of step %" PRId64
                 " arrived damaged: its SHA-256 is %s, not the one that was stored. "
                 "Try again, or another --step",
                 download->step, digest);
        return EXIT_STATUS_FAILED;
    }
    return EXIT_STATUS_DONE; /* retention removed its row meanwhile */
}

/* Reads the worker's output, a JSON object, and waits for its end. */
static enum exit_status worker_finish(struct download *download, const char *worker, pid_t child,
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
    (void)json_parse(text, used, &download->exported, &ignored); /* the files are there anyway */
    return EXIT_STATUS_DONE;
}

/* Writes the job's specification to an unnamed file that children inherit; checkpoints of earlier
 * versions do not describe their model. -1: not available. */
static int specification_file(const struct download *download)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    const char *text;
    size_t length;
    int file;

    json_set_int(parameters, "id", download->id);
    if (connection_call(download->invocation, "Show", parameters, &reply))
        return -1;
    text = json_text(json_get(reply.parameters, "spec"), &length);
    file = memfd_create("specification", 0);
    if (file >= 0 && file_write_all(file, text, length) == 0)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

/* In the child: executes traind-worker export CHECKPOINT --output FILE --json --weights WHICH, with
 * --no-module or, if there is a specification, --spec FILE. */
static void worker_execute(const struct download *download, const char *worker, const char *output,
                           int specification)
{
    const char *weights = invocation_option(download->invocation, "weights");
    char path[32];
    const char *arguments[] = {worker,
                               "export",
                               download->path,
                               "--output",
                               output,
                               "--json",
                               "--weights",
                               weights ? weights : "evaluated",
                               NULL,
                               NULL,
                               NULL};

    snprintf(path, sizeof path, "/proc/self/fd/%d", specification);
    if (invocation_flag(download->invocation, "no-module")) {
        arguments[8] = "--no-module";
    } else if (specification >= 0) {
        arguments[8] = "--spec";
        arguments[9] = path;
    }
    execv(worker, (char *const *)arguments);
}

static enum exit_status weights_export(struct download *download, const char *output)
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
    if (!invocation_flag(download->invocation, "no-module"))
        specification = specification_file(download);
    if (pipe2(results, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        complain("cannot start %s: %s", worker, strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    if (child == 0) {
        dup2(results[1], STDOUT_FILENO); /* errors go to standard error */
        worker_execute(download, worker, output, specification);
        _exit(127);
    }
    close(results[1]);
    status = worker_finish(download, worker, child, results[0]);
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

static enum exit_status download_finish(struct download *download, const char *output)
{
    if (!invocation_flag(download->invocation, "full"))
        return weights_export(download, output);
    file_apply_umask(download->descriptor);
    if (fsync(download->descriptor) == 0 && rename(download->path, output) == 0)
        return EXIT_STATUS_DONE;
    complain("cannot write %s: %s", output, strerror(errno));
    return EXIT_STATUS_FAILED;
}

static void result_print(const struct download *download, const char *output)
{
    const char *module = json_get_string(download->exported, "module", NULL);
    struct stat file;
    int64_t bytes = stat(output, &file) == 0 ? file.st_size : 0;

    if (download->invocation->json) {
        JSON_AUTO struct json_object *result = json_object_new_object();

        json_set_int(result, "id", download->id);
        json_set_int(result, "step", download->step);
        json_set_bool(result, "best", download->best);
        json_set_string(result, "file", output);
        json_set_int(result, "bytes", bytes);
        json_set_string(result, "module", module);
        json_print(result, stdout);
    } else {
        char size[32], escaped[4096];

        printf("%s: %s of job %" PRId64 " at step %" PRId64 "%s, %s\n",
               text_escape_controls(output, escaped, sizeof escaped),
               invocation_flag(download->invocation, "full") ? "checkpoint" : "weights",
               download->id, download->step, download->best ? ", the best checkpoint" : "",
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
    struct download download = {.invocation = invocation, .descriptor = -1};
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
    status =
        connection_find_job(invocation, invocation->arguments[0], JOB_IS_ACTED_ON, &download.id);
    if (!status)
        status = connection_open(invocation);
    if (status)
        return status;
    if (asprintf(&download.path, "%s.XXXXXX", output) < 0) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    download.descriptor = mkostemp(download.path, O_CLOEXEC);
    if (download.descriptor < 0) {
        complain("cannot write beside %s: %s", output, strerror(errno));
        free(download.path);
        return EXIT_STATUS_USAGE;
    }
    temporary_path = download.path;
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    sha256_begin(&download.hash);
    status = download_run(&download);
    if (!status)
        status = download_verify(&download);
    if (!status)
        status = download_finish(&download, output);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    unlink(download.path); /* after --full it does not exist any more */
    close(download.descriptor);
    free(download.path);
    if (!status)
        result_print(&download, output);
    json_object_put(download.exported);
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
