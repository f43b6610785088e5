/* made_model.h: models in the ONNX format that a test makes of a few nodes. Every failure ends the
 * test with a sentence. Texts and numbers must outlive the model. */
#pragma once

#include "engine/graph/graph.h"
#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx.pb-c.h"

enum {
    MADE_NODES_MAX = 12,
    MADE_CONSTANTS_MAX = 12,
    MADE_NAMES_MAX = 8,
    MADE_ATTRIBUTES_MAX = 4,
    MADE_RANK_MAX = 4
};
enum { MADE_FLOAT = 1, MADE_INT64 = 7, MADE_BOOL = 9 }; /* types of the ONNX standard */
enum { MADE_BATCH = 2, MADE_SAMPLE_MAX = 64 };

/* A model that is being made; all of its parts lie in it. */
struct made_model {
    Onnx__Model model;
    Onnx__OperatorSet set, *sets[1];
    Onnx__Graph graph;
    Onnx__ValueInfo ends[2], *input[1], *output[1];
    Onnx__Type type;
    Onnx__TensorType tensor_type;
    Onnx__Shape shape;
    Onnx__Dimension dimension[MADE_RANK_MAX], *dimensions[MADE_RANK_MAX];
    Onnx__Node node[MADE_NODES_MAX], *nodes[MADE_NODES_MAX];
    Onnx__Tensor constant[MADE_CONSTANTS_MAX], *constants[MADE_CONSTANTS_MAX];
    char *inputs[MADE_NODES_MAX][MADE_NAMES_MAX], *outputs[MADE_NODES_MAX][2];
    Onnx__Attribute attribute[MADE_NODES_MAX][MADE_ATTRIBUTES_MAX],
        *attributes[MADE_NODES_MAX][MADE_ATTRIBUTES_MAX];
    int rank;
    int64_t extent[MADE_RANK_MAX]; /* of a sample */
};

/* ---- making a model ---- */

/* Its input x has samples of this shape, its output is y. They are numbers; made->tensor_type may
 * say MADE_INT64 for symbols before made_refuse(). */
void made_begin(struct made_model *made, int rank, const int64_t *extent);
void made_floats(struct made_model *made, const char *name, int rank, const int64_t *extent,
                 const float *numbers, size_t count);
void made_float(struct made_model *made, const char *name, const float *number);
void made_integers(struct made_model *made, const char *name, const int64_t *numbers,
                   const int64_t *count);
/* Adds a node and returns its number. Inputs end with NULL; the output "" is left out. */
int made_node(struct made_model *made, const char *type, const char *output, ...);
Onnx__Attribute *made_attribute(struct made_model *made, int node, const char *name);
void made_int(struct made_model *made, int node, const char *name, int64_t number);
void made_ints(struct made_model *made, int node, const char *name, const int64_t *numbers,
               size_t count);
void made_text(struct made_model *made, int node, const char *name, const char *text);

/* ---- using it ---- */

/* Writes model.onnx into the temporary folder. */
void made_write(const struct made_model *made);
/* Expects a refusal whose sentence has these words; "": any, or none. */
void made_refuse(const struct made_model *made, const char *words);
/* Computes y for samples x, MADE_BATCH times as many numbers as a sample has. Returns how many y
 * has. */
int64_t made_compute(const struct made_model *made, const float *x,
                     float y[MADE_BATCH * MADE_SAMPLE_MAX]);
/* Expects a number within so much of another one, relative to that from 0.5 on. */
void made_expect_near(double found, double expected, double tolerance);
