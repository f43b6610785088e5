/* onednn_internal.h: shared by the files onednn*.c, the only ones that include oneDNN's header. */
#pragma once

#include "engine/backends/cpu/onednn.h"

#include <dnnl.h>
#include <stdbool.h>

enum { ONEDNN_CALL_ARGUMENTS_MAX = 6 };

struct onednn {
    dnnl_engine_t engine;
    int thread_count;
    dnnl_stream_t *streams;
};

struct onednn_call {
    const struct onednn *onednn;
    const_dnnl_primitive_t primitive;
    /* `source`: the index of the argument that onednn_call_set_source() changes */
    int count, source;
    dnnl_exec_arg_t arguments[ONEDNN_CALL_ARGUMENTS_MAX];
    void *packing; /* the result of onednn_packing.c */
    size_t packing_bytes;
};

/* error_set() with oneDNN's status; returns the errno for it. */
int onednn_fail(struct error *error, dnnl_status_t status, const char *what);
/* NULL: out of memory. Free with onednn_call_free(). */
struct onednn_call *onednn_call_create(struct onednn *onednn, const_dnnl_primitive_t primitive);
dnnl_status_t onednn_call_add(struct onednn_call *call, int name,
                              const dnnl_memory_desc_t *descriptor, const void *data);
/* Attributes for a scratchpad in the caller's memory, and for a sum with the old result and a ReLU
 * behind the primitive's own operation. */
dnnl_status_t onednn_attributes_create(bool sum, bool relu, dnnl_primitive_attr_t *attributes);
/* Whether oneDNN uses these instructions. Values of dnnl_cpu_isa_t are sets of bits: one for each
 * extension that an instruction set includes. */
bool onednn_has_instructions(dnnl_cpu_isa_t wanted);
/* The implementation that oneDNN chose, as "jit:avx512_core". */
const char *onednn_implementation(const_dnnl_primitive_desc_t descriptor);

/* The first implementation of a convolution that gives right results. `hint` is the forward part's
 * descriptor for a gradient, else NULL. The caller calls dnnl_primitive_desc_destroy(). */
dnnl_status_t onednn_descriptor_create(struct onednn *onednn,
                                       const dnnl_convolution_desc_t *operation,
                                       const_dnnl_primitive_attr_t attributes,
                                       const_dnnl_primitive_desc_t hint,
                                       dnnl_primitive_desc_t *descriptor);

/* ---- onednn_layout.c ------------------------------------------------------------------------- */

/* Describes a float32 tensor with the layout of the tag. */
dnnl_memory_desc_t onednn_layout_describe(int rank, const int64_t *extent, dnnl_format_tag_t tag);
const dnnl_memory_desc_t *onednn_layout_descriptor(const struct onednn_layout *layout);
void onednn_layout_set(struct onednn_layout *layout, const dnnl_memory_desc_t *descriptor);

/* ---- onednn_packing.c ------------------------------------------------------------------------ */

/* How many bytes the primitive, just created, packs its operands into; 0 for most primitives. */
size_t onednn_packing_bytes(struct onednn *onednn, const_dnnl_primitive_desc_t descriptor,
                            const_dnnl_primitive_t primitive);
/* Scratch of a primitive: its scratchpad (the descriptor may be NULL) and what it packs into. */
size_t onednn_scratch_bytes(const dnnl_memory_desc_t *scratchpad, size_t packing);
dnnl_status_t onednn_call_add_scratch(struct onednn_call *call,
                                      const dnnl_memory_desc_t *scratchpad, size_t packing,
                                      void *scratch);
