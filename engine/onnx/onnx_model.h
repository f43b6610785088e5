/* onnx_model.h: a file as it was read: its nodes, with numbers in place of the names of what they
 * read and give. Internal to the folder. */
#pragma once

#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx.pb-c.h"

#include <string.h>

/* Numbers of a tensor in the file, or computed while it is imported. */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_BFLOAT16 = 16
};
enum { ONNX_RANK_MAX = 8, ONNX_ENDS_MAX = 8 };

struct onnx_value;

struct onnx_store {
    enum onnx_type type;
    const void *data; /* little-endian, in the model's or another file's memory */
    int64_t count;
    const char *name; /* of the initialiser; NULL: computed */
    bool trains;      /* it is a parameter, not a constant */
    /* not NULL: number i is number places[i] of `source`, a parameter, and `data` has a copy */
    const struct onnx_value *source;
    const int64_t *places;
};

struct onnx_node {
    const Onnx__Node *proto;
    char name[GRAPH_NAME_MAX]; /* of its layer in the graph and in messages */
    int32_t *input, *output;   /* numbers of values; -1: left out */
    int input_count, output_count;
};

/* Whether its operator is of the standard; others may have the same names. */
static inline bool onnx_node_is_standard(const struct onnx_node *node)
{
    const char *domain = node->proto->domain;

    return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

/* Number of the value that the node reads or gives at a place; -1: there is none. */
static inline int32_t onnx_node_input(const struct onnx_node *node, int place)
{
    return place < node->input_count ? node->input[place] : -1;
}

static inline int32_t onnx_node_output(const struct onnx_node *node, int place)
{
    return place < node->output_count ? node->output[place] : -1;
}

struct onnx_initializer {
    struct onnx_store store;
    int rank;
    int64_t extent[ONNX_RANK_MAX];
    int32_t value; /* number of what it gives */
};

/* A file with the numbers of weights. */
struct onnx_external {
    char *path;
    void *content;
    size_t bytes;
};

/* First values of a parameter that are lent to graphs (onnx_parameters.c). */
struct onnx_lent;

struct onnx_model {
    Onnx__Model *proto;
    char *path, *directory; /* of the file */
    struct onnx_node *nodes;
    int node_count;
    int32_t *numbers; /* of all nodes' inputs and outputs */
    struct onnx_initializer *initializers;
    int initializer_count;
    const char **names; /* of the values, sorted */
    int32_t value_count;
    /* per value: nodes that read its numbers, the model's outputs counted twice */
    int32_t *readers;
    int32_t *reader;   /* per value: the last node that reads it, -1: none */
    int32_t *producer; /* per value: the node that gives it, -1: none */
    int32_t inputs[ONNX_ENDS_MAX], outputs[ONNX_ENDS_MAX];
    int input_count, output_count;
    struct onnx_interface interfaces[ONNX_ENDS_MAX]; /* what each input reads */
    int64_t fixed_batch; /* the first extent of the input; 0: the file leaves it open */
    struct onnx_external *externals;
    int external_count;
    void **numbers_made; /* buffers of initialisers that are no raw data */
    int numbers_made_count;
    struct onnx_lent *lent;
};

/* Numbers of a sample; -1: an extent is open, or impossible. */
int64_t onnx_interface_elements(const struct onnx_interface *interface);
/* Bytes of a number; 0: the type is none that traind reads. */
unsigned onnx_type_bytes(enum onnx_type type);
bool onnx_type_is_float(enum onnx_type type);
/* Whether a shape is possible: its numbers and strides can be counted, even along axes that have
 * none. */
bool onnx_shape_fits(int rank, const int64_t *extent);

/* Reads the numbers of a tensor message. A buffer that had to be made goes to `*made`, which the
 * caller frees; else they stay the model's. -EINVAL with a sentence. */
int onnx_tensor_read(struct onnx_model *model, const Onnx__Tensor *tensor,
                     struct onnx_initializer *result, void **made, struct error *error);
void onnx_externals_release(struct onnx_model *model);

const Onnx__Attribute *onnx_attribute(const struct onnx_node *node, const char *name);
/* The node that gives the value; NULL: none does. */
const struct onnx_node *onnx_producer(const struct onnx_model *model, int32_t value);
