/* onnx_writer.h: what the files that write operators build a file of: values by name, nodes,
 * attributes, constants. Internal to the folder. Memory belongs to the writer until
 * onnx_writer_release(). */
#pragma once

#include "engine/onnx/onnx.pb-c.h"
#include "engine/onnx/onnx_export.h"
#include "engine/onnx/onnx_model.h"

/* A value in the file; "" stands for one that is left out. */
typedef const char *onnx_name;

struct onnx_writer {
    const struct onnx_export *config;
    const struct graph *graph;
    Onnx__Graph file;
    onnx_name *names;              /* of the graph's tensors; NULL: not written yet */
    const struct graph_node *node; /* that is being written, whose name its parts begin with */
    int serial;                    /* numbers the values that have no name in the graph */
    void **owned;
    size_t owned_count, owned_capacity;
    struct error *error;
    int result; /* the first failure */
};

/* Memory of the writer, of zeros. Never NULL. */
void *onnx_writer_memory(struct onnx_writer *writer, size_t bytes);
const char *onnx_writer_text(struct onnx_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void onnx_writer_release(struct onnx_writer *writer);

/* What the bias of a folded batch norm has behind the name of its node. */
#define ONNX_FOLDED_BIAS ".folded_bias"

/* What a parameter is called in the file: its name, with more behind it if the writer gives such
 * names to values. */
onnx_name onnx_parameter_name(struct onnx_writer *writer, int32_t tensor);
/* A tensor of the graph. A parameter is put into the file when it is first asked for, an int8 one
 * with the node that multiplies it by its factors. */
onnx_name onnx_value(struct onnx_writer *writer, int32_t tensor);
/* Input `place` of the present node; "" where it has none. */
onnx_name onnx_read(struct onnx_writer *writer, int place);
/* Says which value output `place` of the present node is. */
void onnx_give(struct onnx_writer *writer, int place, onnx_name value);
/* The numbers of a parameter; NULL after a failure. */
float *onnx_numbers(struct onnx_writer *writer, int32_t tensor);

/* Appends a node with one result, or with several: output[0] to before output[results]. */
Onnx__Node *onnx_append(struct onnx_writer *writer, const char *type, const onnx_name *inputs,
                        int count, int results);
/* The same with one result, which is returned; the inputs end with NULL. */
onnx_name onnx_apply(struct onnx_writer *writer, const char *type, ...)
    __attribute__((sentinel(0)));
/* The latest node, to give it attributes. */
Onnx__Node *onnx_latest(struct onnx_writer *writer);
void onnx_set_int(struct onnx_writer *writer, Onnx__Node *node, const char *name, int64_t value);
void onnx_set_ints(struct onnx_writer *writer, Onnx__Node *node, const char *name,
                   const int64_t *values, int count);
void onnx_set_float(struct onnx_writer *writer, Onnx__Node *node, const char *name, float value);
void onnx_set_text(struct onnx_writer *writer, Onnx__Node *node, const char *name,
                   const char *text);

/* Constants. The data are copied. */
onnx_name onnx_constant(struct onnx_writer *writer, const char *name, enum onnx_type type,
                        const int64_t *extents, int rank, const void *data, size_t bytes);
onnx_name onnx_ints(struct onnx_writer *writer, const int64_t *values, int count);
onnx_name onnx_floats(struct onnx_writer *writer, const float *values, const int64_t *extents,
                      int rank);
onnx_name onnx_float(struct onnx_writer *writer, float value);
/* 0, 1, … in int32, [1,count]. */
onnx_name onnx_range(struct onnx_writer *writer, int64_t count);

/* The value with other extents behind the batch, which stays. */
onnx_name onnx_reshape(struct onnx_writer *writer, onnx_name value, const int64_t *extents,
                       int count);
/* The value with the extents of a tensor of the graph. */
onnx_name onnx_reshape_as(struct onnx_writer *writer, onnx_name value,
                          const struct graph_shape *shape);
onnx_name onnx_transpose(struct onnx_writer *writer, onnx_name value, const int64_t *order,
                         int count);

/* Gives a convolution or a pool its window: the attributes of the present node. */
void onnx_set_window(struct onnx_writer *writer, Onnx__Node *node, bool dilates);

/* What writes the nodes of an operator. NULL in the tables: ONNX has no such operator. */
typedef void (*onnx_write_function)(struct onnx_writer *writer);
onnx_write_function onnx_int8_writer(enum graph_op op);     /* onnx_write_int8.c */
onnx_write_function onnx_layer_writer(enum graph_op op);    /* onnx_write_layers.c */
onnx_write_function onnx_move_writer(enum graph_op op);     /* onnx_write_moves.c */
onnx_write_function onnx_sequence_writer(enum graph_op op); /* onnx_write_sequences.c */
