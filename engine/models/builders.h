/* builders.h: shared by the files of engine/models/ that build models: each family of models
 * appends its layers between the graph's input and the loss. Internal to the folder. */
#pragma once

#include "engine/models/models.h"

/* A growing list of layers, with room for as many as the model may have. */
struct layer_list {
    struct model_layer *layers;
    int count;
};

/* The descriptor of a model, defined in the file of its family. A model is a chain (`append`) or is
 * built (`build`). */
struct model {
    /* Appends the layers of a chain. */
    void (*append)(struct layer_list *list, const struct model_config *config,
                   const struct model_data *data);
    /* Appends the model's layers behind `x`. `*result` becomes the last layer's result; its shape
     * is not checked. 0 or a negative errno with a sentence; errors that the graph keeps are
     * reported later. */
    int (*build)(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error);
    /* Reads sequences [steps, features]. Images of one channel are such, row by row. */
    bool reads_steps;
    struct model_python python; /* of a model that is built (models.h) */
};

/* One for each line of MODEL_KINDS: models_mlp, … */
#define DECLARE_MODEL(upper, lower, ...) extern const struct model models_##lower;
MODEL_KINDS(DECLARE_MODEL)
#undef DECLARE_MODEL
const struct model *model_of(enum model_kind kind);

/* Lines of Python that import or define RMSNorm, for exports that use it. */
#define PYTHON_RMS_NORM                                                            \
    "try:\n"                                                                       \
    "    from torch.nn import RMSNorm\n"                                           \
    "except ImportError:  # PyTorch before 2.4\n"                                  \
    "    class RMSNorm(nn.Module):\n"                                              \
    "        def __init__(self, width, eps):\n"                                    \
    "            super().__init__()\n"                                             \
    "            self.weight, self.eps = nn.Parameter(torch.ones(width)), eps\n\n" \
    "        def forward(self, x):\n"                                              \
    "            return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight\n"

/* A chain of layers, fitted to the data (chain.c). */
int chain_build(const struct model_config *config, const struct model_data *data,
                struct graph *graph, int32_t x, int32_t *result, struct error *error);

/* Appends the layers of a list behind tensor `x` (layer_graph.c). Their names begin with
 * `prefix`. */
int layer_list_build(const struct model_layer_list *list, const char *prefix,
                     const struct model_data *data, struct graph *graph, int32_t x, int32_t *result,
                     struct error *error);

/* Appends a layer that reads one tensor and has no lists (layers.c); returns its result. */
int32_t model_layer_build(struct graph *graph, const struct model_layer *layer, const char *name,
                          int32_t x);
/* Whether the layer reads any number of tensors: add, concat. */
bool model_layer_joins(enum model_layer_kind kind);
/* Joins tensors: their sum ("add"), or side by side along the axis ("concat"). */
int32_t model_layers_join(struct graph *graph, const int32_t *inputs, int count, const char *join,
                          int64_t axis, const char *name);
