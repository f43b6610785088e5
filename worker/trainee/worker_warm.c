/* worker_warm.c: `traind-worker warm` opens its device, and runs a sample model to load the
 * libraries, before there is a job. Then it waits on ATTEMPT_HANDOVER_DESCRIPTOR until its shim
 * hands over a job, becomes that job's trainee as a forked process would, and trains. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/graph/forward.h"
#include "engine/train/session.h"
#include "worker/attempt/attempt_handover.h"
#include "worker/attempt/attempt_identity.h"
#include "worker/trainee/worker_device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- warming up ---- */

enum { WARM_BATCH = 16, WARM_SIDE = 8, WARM_CLASSES = 10 };

/* Builds a sample of the operators that models use. */
static int build_sample(void *context, struct graph *graph, struct error *error)
{
    static const struct conv_attributes window = {
        .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    const bool *convolutions = context;
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){1, WARM_SIDE, WARM_SIDE}, 3);

    if (*convolutions) {
        x = graph_conv2d(graph, x, "convolution", 16, &window, false);
        x = graph_batch_norm(graph, x, "norm", 1e-5f, 0.1f);
        x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    }
    x = graph_flatten(graph, x, "flat");
    x = graph_linear(graph, x, "hidden", 64, true);
    x = graph_activation(graph, x, "active", ACTIVATION_RELU);
    x = graph_linear(graph, x, "output", WARM_CLASSES, true);
    graph_cross_entropy(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* Runs one step with zeros as input. */
static int run_sample(const struct worker_device *device, bool convolutions, enum tensor_type type,
                      struct error *error)
{
    static const struct step_scalars scalars = {
        .step = 1, .batch = 1, .gradient_scale = 1, .momentum_product = 0.9};
    enum { SAMPLES = WARM_BATCH * WARM_SIDE * WARM_SIDE * sizeof(float) };
    struct session_config config = {
        .backend = device->backend,
        .device = device->device,
        .build = build_sample,
        .build_context = &convolutions,
        .optimizer = {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .compute_type = type,
        .training_batches = {WARM_BATCH},
        .staging_bytes = 2 * SAMPLES};
    struct session *session = NULL;
    struct step_metrics ignored;
    int r = session_prepare(&config, &session, error);

    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0) {
        char *staging = session_staging(session);
        struct session_batch batch = {
            .count = WARM_BATCH, .samples = staging, .targets = staging + SAMPLES};

        memset(staging, 0, 2 * SAMPLES);
        r = session_step(session, &batch, PROGRAM_STEP, &scalars, error);
        session_read_metrics(session, true, &ignored); /* waits for the step */
    }
    session_free(session);
    return r;
}

static void warm_up(const struct worker_device *device)
{
    struct error error;

    for (int type = 0; type < TENSOR_INT32; type++)
        for (int convolutions = 0; convolutions < 2; convolutions++)
            if (device->info.compute_types >> type & 1 &&
                run_sample(device, convolutions, (enum tensor_type)type, &error) < 0)
                log_warning("%s, while warming up in %s: %s", device->info.name,
                            tensor_type_to_string((enum tensor_type)type), error.text);
}

/* ---- becoming the trainee ---- */

/* Writes the attempt's folder into the first entry of this process's initial environment
 * (shim_warm.c), where a daemon looks for processes of an attempt. */
static void mark_environment(const char *folder)
{
    static const char name[] = "TRAIND_ATTEMPT_DIRECTORY=";
    char *first = environ[0];

    if (first && strncmp(first, name, sizeof name - 1) == 0)
        strncpy(first + sizeof name - 1, folder, strlen(first + sizeof name - 1));
}

/* Does what a shim's child does between fork and exec, in the same order (shim_trainee.c). */
static int become_trainee(const char *folder, const int *descriptors, struct attempt_config *config,
                          struct error *error)
{
    pid_t shim = getppid();
    int r;

    if (chdir(folder) < 0)
        return error_set_errno(error, -errno, "cannot enter the attempt's folder %s", folder);
    r = attempt_config_read_file(config, descriptors[0], error);
    if (r < 0)
        return r;
    if (descriptors[2] >= 0 && write(descriptors[2], "0", 1) < 0)
        return error_set_errno(error, -errno, "cannot enter the cgroup %s", config->cgroup);
    mark_environment(folder);
    attempt_identity_adjust_oom_score(config);
    attempt_identity_limit_descriptors(config);
    r = attempt_identity_assume(config, error);
    if (r == 0)
        r = attempt_identity_drop(config, error);
    if (r < 0)
        return r;
    /* changing users cleared it; then no process, not even this one, could read its /proc/PID */
    prctl(PR_SET_DUMPABLE, 1);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != shim)
        return error_set(error, -ESRCH, "the shim has gone");
    if (chdir(config->directory) < 0)
        return error_set_errno(error, -errno, "cannot change to the job's directory %s as user %s",
                               config->directory, config->user);
    if (dup2(descriptors[1], STDOUT_FILENO) < 0 || dup2(descriptors[1], STDERR_FILENO) < 0)
        return error_set_errno(error, -errno, "cannot write to the log");
    if (config->cpus)
        sched_setaffinity(0, sizeof *config->cpus, config->cpus);
    umask(022);
    environ = config->environment;
    return 0;
}

/* Trains with the job's own command line and the open device. */
static int train(const struct worker_options *own, const struct attempt_config *config,
                 const struct worker_device *device, struct worker_options *options,
                 struct error *error)
{
    const struct worker_command *command = NULL;
    int count = 0;

    while (config->arguments[count])
        count++;
    for (int i = 0; i < worker_command_count; i++)
        if (count > 1 && strcmp(worker_commands[i].name, config->arguments[1]) == 0 &&
            worker_commands[i].run == worker_train)
            command = &worker_commands[i];
    if (!command)
        return error_set(error, -EINVAL, "a warm worker trains, and does nothing else");
    if (worker_options_parse(command, count, config->arguments, options, error) < 0)
        return error->code;
    if (!options->device || strcmp(options->device, own->device) != 0)
        return error_set(error, -EINVAL, "the job is for %s, and this worker has %s",
                         options->device ? options->device : "another device", own->device);
    options->warm = device;
    return 0;
}

/* Waits for a job; 0: none came. */
static int take_job(const struct worker_options *own, const struct worker_device *device,
                    struct attempt_config *config, struct worker_options *options,
                    struct error *error)
{
    int descriptors[ATTEMPT_HANDOVER_DESCRIPTORS], r;
    char folder[PATH_MAX];
    double taken_at;

    r = attempt_handover_send(ATTEMPT_HANDOVER_DESCRIPTOR, ATTEMPT_HANDOVER_READY,
                              strlen(ATTEMPT_HANDOVER_READY), NULL, 0);
    if (r > 0)
        r = attempt_handover_receive(ATTEMPT_HANDOVER_DESCRIPTOR, folder, sizeof folder,
                                     descriptors, ATTEMPT_HANDOVER_DESCRIPTORS);
    if (r <= 0)
        return 0; /* the shim has ended */
    taken_at = clock_monotonic();
    r = become_trainee(folder, descriptors, config, error);
    if (r == 0)
        r = train(own, config, device, options, error);
    options->taken_at = taken_at;
    for (int i = 0; i < ATTEMPT_HANDOVER_DESCRIPTORS; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    attempt_handover_send(ATTEMPT_HANDOVER_DESCRIPTOR,
                          r == 0 ? ATTEMPT_HANDOVER_READY : error->text,
                          r == 0 ? strlen(ATTEMPT_HANDOVER_READY) : strlen(error->text), NULL, 0);
    close(ATTEMPT_HANDOVER_DESCRIPTOR);
    return r < 0 ? r : 1;
}

int worker_warm(const struct worker_options *own)
{
    struct worker_simulation none = {0};
    struct worker_device device = {0};
    struct attempt_config config = {0};
    struct worker_options options;
    struct error error = {0};
    int r;

    fcntl(ATTEMPT_HANDOVER_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    r = worker_device_open(own, own->device, own->threads, &none, &device, &error);
    if (r == 0) {
        warm_up(&device);
        r = take_job(own, &device, &config, &options, &error);
    }
    if (r <= 0) {
        if (r < 0)
            log_error("%s", error.text);
        if (device.device)
            device.backend->device_close(device.device);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    r = worker_train(&options); /* closes the device */
    attempt_config_release(&config);
    return r;
}
