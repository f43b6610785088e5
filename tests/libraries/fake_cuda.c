/* fake_cuda.c: a stand-in for plugins of GPUs (build/tests/libraries/fake_cuda.so), for tests on
 * machines without a GPU. It computes with the CPU backend, in a memory of its own, and is told
 * what else to do by the file <its own path>.control, read when the device is opened; a test loads
 * it by a link in a folder of its own. A fact to a line:
 *
 *   memory BYTES          of the GPU, default 8 GiB
 *   refuse SENTENCE       the device cannot be opened: -ERROR_DEVICE_LOST
 *   version TEXT          its own, default 1.0
 *   missing OPERATOR      "max_pool2d": the backend does not have it
 *   precisions            it has all that a CPU can emulate
 *   fail KIND UPDATES     after so many updates a run fails: illegal_access, ecc, lost, memory,
 *                         launch; or the process ends: crash
 *   when FILE             fails so only once the file is there
 *   shared                fails so only as a client of MPS
 *   wait FILE             the device is opened once the file is there
 *   found ID TYPE BYTES BUDGET  a device that devices_find() lists, with its only heap
 *   mute                        devices_find() ends the process, and reports as a failure does
 *   deaf                  a client of MPS never has its device opened
 *   report FILE STATE     when a run fails, what the driver says of it: FILE takes STATE's place
 */
#include "engine/backends/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct backend *traind_backend(void);
void omp_set_num_threads(int count); /* of libgomp, which oneDNN uses */

enum { FOUND_MAX = 4 };

static struct {
    struct backend_found_device found[FOUND_MAX];
    int found_count;
    uint64_t memory;
    char refusal[256], missing[64], failure[32], version[32];
    char report[512], state[512], when[512], awaited[512];
    long long failure_after;
    long long updates;
    char name[32];
    bool precisions, deaf, mute, shared;
} control;

static void take_found(const char *line)
{
    struct backend_found_device *found = &control.found[control.found_count];
    struct backend_heap *heap = &found->heaps[0];

    if (control.found_count == FOUND_MAX)
        return;
    *found = (struct backend_found_device){.index = control.found_count, .heap_count = 1};
    if (sscanf(line, "found %63s %15s %" SCNu64 " %" SCNu64, found->id, found->type, &heap->bytes,
               &heap->budget) != 4)
        return;
    heap->on_device = true;
    found->shares_memory = strcmp(found->type, "integrated") == 0;
    snprintf(found->model, sizeof found->model, "Fake GPU");
    snprintf(found->driver, sizeof found->driver, "stand-in 1.0");
    snprintf(found->features, sizeof found->features, "vulkan-1.3");
    control.found_count++;
}

static void control_read(void)
{
    Dl_info own;
    char path[4096], line[512];
    FILE *file;

    control.memory = 8ull << 30;
    snprintf(control.version, sizeof control.version, "1.0");
    if (!dladdr(&control, &own))
        return;
    snprintf(path, sizeof path, "%s.control", own.dli_fname);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        take_found(line);
        sscanf(line, "memory %" SCNu64, &control.memory);
        sscanf(line, "version %31s", control.version);
        sscanf(line, "refuse %255[^\n]", control.refusal);
        control.precisions |= strncmp(line, "precisions", 10) == 0;
        control.shared |= strncmp(line, "shared", 6) == 0;
        control.mute |= strncmp(line, "mute", 4) == 0;
        control.deaf |= strncmp(line, "deaf", 4) == 0;
        sscanf(line, "missing %63s", control.missing);
        sscanf(line, "fail %31s %lld", control.failure, &control.failure_after);
        sscanf(line, "when %511s", control.when);
        sscanf(line, "wait %511s", control.awaited);
        sscanf(line, "report %511s %511s", control.report, control.state);
    }
    if (file)
        fclose(file);
}

static int devices_find(struct backend_found_device *devices, int limit, struct error *error)
{
    (void)error;
    control_read();
    if (control.mute && control.report[0])
        rename(control.report, control.state);
    if (control.mute)
        abort();
    for (int i = 0; i < control.found_count && i < limit; i++)
        devices[i] = control.found[i];
    return control.found_count < limit ? control.found_count : limit;
}

static double no_seconds(const void *context, const struct graph *graph, int32_t node,
                         const struct node_description *description)
{
    (void)context;
    (void)graph;
    (void)node;
    (void)description;
    return 0;
}

static int device_open(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error)
{
    struct simulated_device_config simulated = {.name = control.name, .node_seconds = no_seconds};
    struct backend_device_config own = *config;

    control_read();
    if (control.shared && !getenv("CUDA_MPS_PIPE_DIRECTORY"))
        control.failure[0] = '\0';
    while (control.awaited[0] && access(control.awaited, F_OK) != 0)
        usleep(1000);
    while (control.deaf && getenv("CUDA_MPS_PIPE_DIRECTORY"))
        pause();
    if (control.refusal[0])
        return error_set(error, -ERROR_DEVICE_LOST, "%s", control.refusal);
    snprintf(control.name, sizeof control.name, "%s", config->name ? config->name : "cuda:0");
    simulated.memory_bytes = control.memory;
    own.simulated = &simulated;
    own.index = 0;
    own.emulate_precision |= control.precisions;
    return backend_simulated()->device_open(&own, device, error);
}

/* The CPU backend relies on the thread that opened it to have set this for itself. */
static int device_enter(struct backend_device *device, const char *cache_folder,
                        struct error *error)
{
    (void)device;
    (void)cache_folder;
    (void)error;
    omp_set_num_threads(1);
    return 0;
}

static void device_describe(struct backend_device *device, struct backend_device_info *info)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");

    if (getenv("TRAIND_VULKAN_DEVICES"))
        visible = getenv("TRAIND_VULKAN_DEVICES");
    backend_simulated()->device_describe(device, info);
    snprintf(info->model, sizeof info->model, "Fake GPU");
    snprintf(info->features, sizeof info->features, "sm_90");
    /* the version carries what a test checks of the environment */
    snprintf(info->versions, sizeof info->versions, "stand-in %s, visible %.64s, mps %.128s",
             control.version, visible ? visible : "all", mps ? mps : "no");
}

static bool supports(struct backend_device *device, const struct graph *graph,
                     const struct graph_node *node, char *reason)
{
    (void)device;
    (void)graph;
    if (strcmp(graph_op_to_string(node->op), control.missing) != 0)
        return true;
    snprintf(reason, 256, "the operator is missing");
    return false;
}

static int fail(struct error *error)
{
    static const struct {
        const char *kind;
        int code;
    } kinds[] = {{"illegal_access", -ERROR_DEVICE_ACCESS},
                 {"ecc", -ERROR_DEVICE_CORRUPTION},
                 {"lost", -ERROR_DEVICE_LOST},
                 {"memory", -ERROR_DEVICE_MEMORY},
                 {"launch", -ERROR_DEVICE_FAILURE}};

    if (control.report[0])
        rename(control.report, control.state);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, control.failure) == 0)
            return error_set(error, kinds[i].code, "the stand-in was told to fail: %s",
                             control.failure);
    abort();
}

static int program_run(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error)
{
    if (control.failure[0] && control.updates >= control.failure_after &&
        (!control.when[0] || access(control.when, F_OK) == 0))
        return fail(error);
    control.updates += (phases & PROGRAM_UPDATE) != 0;
    return backend_simulated()->program_run(program, phases, scalars, error);
}

__attribute__((visibility("default"))) const struct backend *traind_backend(void)
{
    static struct backend backend;

    backend = *backend_simulated();
    backend.name = "cuda";
    backend.devices_find = devices_find;
    backend.device_open = device_open;
    backend.device_enter = device_enter;
    backend.device_describe = device_describe;
    backend.device_seconds = NULL; /* the wall's clock */
    backend.device_profile = NULL; /* as with the plugin, nodes are not timed one by one */
    backend.supports = supports;
    backend.program_run = program_run;
    return &backend;
}
