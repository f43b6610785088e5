/* onnx_outputs.c: computes what models in the ONNX format give, for
 * tests/reference/check-onnx-nodes.
 *
 *   onnx_outputs BATCH
 *
 * takes its cases from standard input, one a line: a model, a file of float32 samples and one for
 * the outputs. It answers each with "ok" and the shape of the outputs, or with the sentence of the
 * refusal. */
#include "base/alignment.h"
#include "engine/graph/forward.h"
#include "engine/onnx/onnx.h"
#include "tests/support/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The samples of a file as what the model's input reads; NULL: there are not as many. */
static void *samples_read(const char *path, const struct graph_tensor *input)
{
    size_t count = (size_t)graph_shape_elements(&input->shape);
    float *samples = aligned_alloc(MEMORY_ALIGNMENT, align_up(count * 4, MEMORY_ALIGNMENT));
    FILE *file = fopen(path, "rb");
    size_t have = file && samples ? fread(samples, sizeof *samples, count, file) : 0;

    if (file)
        fclose(file);
    if (have == count)
        return samples;
    free(samples);
    return NULL;
}

static int outputs_write(const struct graph *graph, const char *samples_path, const char *path,
                         struct error *error)
{
    static const struct test_session_options options = {.threads = 1};
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    size_t count = (size_t)graph_shape_elements(&graph->tensors[graph->output].shape);
    float *samples = samples_read(samples_path, &graph->tensors[graph->input]);
    float *outputs = calloc(count, sizeof *outputs);
    FILE *file = fopen(path, "wb");
    struct test_session session;
    bool written = false;

    if (samples && outputs && file) {
        test_session_open(&session, graph, &options);
        test_session_initialize(&session, 1);
        test_session_input(&session, graph->input, samples);
        test_session_run(&session, PROGRAM_FORWARD, &scalars);
        test_session_read(&session, graph->output, outputs);
        test_session_close(&session);
        written = fwrite(outputs, sizeof *outputs, count, file) == count;
    }
    if (file && fclose(file))
        written = false;
    free(samples);
    free(outputs);
    return written ? 0 : error_set(error, -EIO, "files of samples or outputs fail");
}

static int model_compute(const char *path, const char *samples, const char *outputs,
                         struct graph *graph, struct error *error)
{
    struct onnx_model *model = NULL;
    int result = onnx_open(NULL, path, &model, error);
    struct onnx_interface interface;
    int32_t x, y = -1;

    if (result < 0)
        return result;
    interface = onnx_interface(model);
    x = graph_input(graph, interface.symbols ? TENSOR_INT32 : TENSOR_FLOAT32,
                    interface.sample_shape, interface.rank);
    if (x >= 0)
        result = onnx_build(model, true, graph, x, &y, error);
    if (result == 0 && !graph->error.code)
        graph->output = y;
    if (result == 0)
        result = graph_finish(graph, error);
    if (result == 0)
        result = outputs_write(graph, samples, outputs, error);
    onnx_close(model);
    return result;
}

int main(int argument_count, char **arguments)
{
    char line[2048], text[256];

    if (argument_count != 2) {
        fprintf(stderr, "usage: onnx_outputs BATCH\n");
        return 2;
    }
    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL, *model = strtok_r(line, " \n", &rest);
        char *samples = strtok_r(NULL, " \n", &rest), *outputs = strtok_r(NULL, " \n", &rest);
        struct error error = {0};
        struct graph graph;

        if (!outputs)
            return 2;
        graph_init(&graph, atoi(arguments[1]), false);
        if (model_compute(model, samples, outputs, &graph, &error) < 0)
            printf("%s\n", error.text);
        else
            printf("ok %s\n",
                   graph_shape_format(&graph.tensors[graph.output].shape, text, sizeof text));
        fflush(stdout);
        graph_release(&graph);
    }
    return 0;
}
