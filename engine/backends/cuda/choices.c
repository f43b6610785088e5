/* choices.c: see choices.h. */
#include "engine/backends/cuda/choices.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINALISTS_MAX = 4,
    FIRST_RUNS = 3, /* of each way; then FINAL_RUNS of the fastest ones */
    FINAL_RUNS = 10
};

struct choices {
    cudaStream_t stream;
    struct choice_table *table;
    struct {
        void *at;
        size_t bytes;
    } memory[CHOICES_PLACES];
};

bool choices_name_file(const char *folder, const char *kind, const char *model, size_t version,
                       char path[PATH_MAX])
{
    int driver = 0, start, length;

    if (!folder)
        return false;
    cudaDriverGetVersion(&driver);
    start = snprintf(path, PATH_MAX, "%s/", folder);
    length = snprintf(path, PATH_MAX, "%s/%s-%s-%d-%zu.txt", folder, kind, model, driver, version);
    for (char *c = path + start; start < length && length < PATH_MAX && *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '-';
    return length < PATH_MAX;
}

/* ---- what is known --------------------------------------------------------------------------- */

const char *choices_find(const struct choices *choices, const char *key)
{
    return choice_table_find(choices->table, key);
}

const char *choices_add(struct choices *choices, const char *key, const char *text)
{
    return choice_table_add(choices->table, key, text);
}

int choices_open(cudaStream_t stream, const char *file, struct choices **result,
                 struct error *error)
{
    struct choices *choices = calloc(1, sizeof *choices);

    if (!choices)
        return error_no_memory(error, "the choice of algorithms");
    choices->stream = stream;
    *result = choices;
    return choice_table_open(file, &choices->table, error);
}

void choices_keep(struct choices *choices, const char *file)
{
    choice_table_keep(choices->table, file);
}

void choices_close(struct choices *choices)
{
    if (!choices)
        return;
    choices_trim(choices);
    choice_table_close(choices->table);
    free(choices);
}

/* ---- measurements ---------------------------------------------------------------------------- */

static int capture_runs(choices_launch *launch, void *context, cudaStream_t stream, int runs,
                        cudaGraphExec_t *executable, struct error *error)
{
    cudaGraph_t graph = NULL;
    int r = 0;

    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return error_set(error, -EIO, "what is to be timed cannot be captured");
    for (int i = 0; i < runs && r == 0; i++)
        r = launch(context, error);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess && r == 0)
        r = error_set(error, -EIO, "what is to be timed cannot be captured");
    if (r == 0 && cudaGraphInstantiate(executable, graph, 0) != cudaSuccess)
        r = error_set(error, -EIO, "what is to be timed cannot be made a CUDA graph");
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError(); /* clears the error, which has been reported */
    return r;
}

int choices_time(cudaStream_t stream, choices_launch *launch, void *context, int runs,
                 double *microseconds, struct error *error)
{
    cudaGraphExec_t executable = NULL;
    cudaEvent_t begin = NULL, end = NULL;
    float milliseconds = 0;
    int r = launch(context, error); /* the first launch loads the kernel's code */

    if (r == 0)
        r = capture_runs(launch, context, stream, runs, &executable, error);
    if (r < 0)
        return r;
    if (cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess ||
        cudaGraphLaunch(executable, stream) != cudaSuccess ||
        cudaEventRecord(begin, stream) != cudaSuccess ||
        cudaGraphLaunch(executable, stream) != cudaSuccess ||
        cudaEventRecord(end, stream) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess)
        r = error_set(error, -EIO, "what was to be timed failed: %s",
                      cudaGetErrorString(cudaGetLastError()));
    *microseconds = milliseconds * 1e3 / runs;
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
    return r;
}

void *choices_memory(struct choices *choices, int which, size_t bytes)
{
    if (choices->memory[which].bytes >= bytes)
        return choices->memory[which].at;
    cudaFree(choices->memory[which].at);
    choices->memory[which].at = NULL;
    choices->memory[which].bytes = 0;
    if (cudaMalloc(&choices->memory[which].at, bytes) != cudaSuccess) {
        cudaGetLastError();
        choices->memory[which].at = NULL;
        return NULL;
    }
    choices->memory[which].bytes = bytes;
    return cudaMemsetAsync(choices->memory[which].at, 0x3c, bytes, choices->stream) == cudaSuccess
               ? choices->memory[which].at
               : NULL;
}

void choices_trim(struct choices *choices)
{
    for (int i = 0; i < CHOICES_PLACES; i++) {
        cudaFree(choices->memory[i].at);
        choices->memory[i].at = NULL;
        choices->memory[i].bytes = 0;
    }
}

/* Whether fewer than `most` ways are faster than way i. */
static bool is_finalist(const double *microseconds, int count, int i, int most)
{
    int faster = 0;

    for (int k = 0; k < count; k++)
        faster +=
            microseconds[k] < microseconds[i] || (microseconds[k] == microseconds[i] && k < i);
    return isfinite(microseconds[i]) && faster < most;
}

/* Runs a way for the first time, which loads its code. Receives the microseconds from then on until
 * the run has ended: it takes no less. */
static int run_first(cudaStream_t stream, choices_launch *launch, void *context,
                     double *microseconds)
{
    struct error ignored;
    double launched;
    int r = launch(context, &ignored);

    launched = clock_monotonic();
    if (r == 0 && cudaStreamSynchronize(stream) != cudaSuccess)
        r = -EIO;
    *microseconds = (clock_monotonic() - launched) * 1e6;
    return r;
}

/* Times a single run with its launch, unless the first run takes more than `most` microseconds
 * already. */
static int look_at(cudaStream_t stream, choices_launch *launch, void *context, double most,
                   double *microseconds)
{
    cudaEvent_t begin = NULL, end = NULL;
    struct error ignored;
    float milliseconds = 0;
    int r = run_first(stream, launch, context, microseconds);

    if (r == 0 && *microseconds > most)
        return 0;
    if (r == 0 && (cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess ||
                   cudaEventRecord(begin, stream) != cudaSuccess || launch(context, &ignored) < 0 ||
                   cudaEventRecord(end, stream) != cudaSuccess ||
                   cudaStreamSynchronize(stream) != cudaSuccess ||
                   cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess))
        r = -EIO;
    cudaGetLastError();
    *microseconds = milliseconds * 1e3;
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    return r;
}

int choices_fastest(struct choices *choices, choices_launch *launch, void *const *contexts,
                    int count, double limit, double *microseconds)
{
    /* a way is left out if it takes `slow` times as long as the best, and `host` µs more */
    const double slow = 2, host = 50;
    double final[CHOICES_WAYS_MAX], least = limit;
    struct error ignored;
    int best = -1;

    for (int i = 0; i < count; i++) {
        const double most = slow * least + host;

        if (look_at(choices->stream, launch, contexts[i], most, &microseconds[i]) < 0 ||
            microseconds[i] > most ||
            choices_time(choices->stream, launch, contexts[i], FIRST_RUNS, &microseconds[i],
                         &ignored) < 0)
            microseconds[i] = INFINITY;
        least = microseconds[i] < least ? microseconds[i] : least;
    }
    for (int i = 0; i < count; i++)
        if (!is_finalist(microseconds, count, i, FINALISTS_MAX) || microseconds[i] > slow * least ||
            choices_time(choices->stream, launch, contexts[i], FINAL_RUNS, &final[i], &ignored) < 0)
            final[i] = INFINITY;
    for (int i = 0; i < count; i++) {
        microseconds[i] = isfinite(final[i]) ? final[i] : microseconds[i];
        if (final[i] < limit && (best < 0 || final[i] < final[best]))
            best = i;
    }
    return best;
}
