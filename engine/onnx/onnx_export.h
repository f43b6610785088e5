/* onnx_export.h: writes a graph for evaluation as a file in the ONNX format, opset 17. The batch is
 * open: a graph of any batch gives the same file. */
#pragma once

#include "engine/graph/graph.h"

#include <stddef.h>

struct onnx_export {
    const struct graph *graph; /* finished, float32, for evaluation */
    /* Writes the float32 numbers of a parameter or statistic: of one of the type int8 those that
     * its integers and factors stand for. 0 or a negative errno with a sentence. */
    int (*read)(void *context, const struct graph_tensor *tensor, float *values,
                struct error *error);
    /* Writes the integers of one of the type int8. */
    int (*read_int8)(void *context, const struct graph_tensor *tensor, int8_t *values,
                     struct error *error);
    void *context;
    /* The network reads (sample - mean[g]) factor[g]; g is the channel of an image (rank 4 with the
     * batch), else the last axis. groups 0: it reads samples as they are. The file does that,
     * too. */
    const float *mean, *factor;
    int64_t groups;
    /* A result stands for result / target_factor[i] + target_mean[i]; 0: for itself. */
    const float *target_mean, *target_factor;
    int64_t target_groups;
    /* Pairs of a name and a text that the file keeps; a name NULL ends them. */
    const char *const (*metadata)[2];
};

enum { ONNX_EXPORT_OPSET = 17 };

/* Writes the file at `path`, whole or not at all. -ERROR_UNSUPPORTED with a sentence that names all
 * layers whose operators ONNX has not; -EFBIG beyond the 2 GiB that the format allows. */
int onnx_export_write(const struct onnx_export *config, const char *path, uint64_t *bytes,
                      struct error *error);
