/* onnx_value.h: what a node of a model reads or gives while the model is imported: a constant, or a
 * tensor of the graph. Extents may be multiples of ONNX_BATCH, a number that no other extent has,
 * which stands for the batch: so arithmetic on shapes needs no symbols. Internal to the folder. */
#pragma once

#include "engine/onnx/onnx_model.h"

#include <limits.h>

#define ONNX_BATCH ((int64_t)1 << 40)
enum { ONNX_ATOMS_MAX = 16, ONNX_PARTS_MAX = 16 };
enum { ONNX_COMPUTED_MAX = 1 << 26 };     /* numbers of a constant that is computed */
enum { ONNX_ALL_COMPUTED_MAX = 1 << 28 }; /* of all of them, which live until the end: 2 GiB */
enum { ONNX_LISTED_MAX = 6 };             /* operators that one sentence names as missing */

/* How the axes of a value lie in a tensor of the graph, whose numbers are in the order of the
 * atoms. Atom 0 is the batch. Axis r of the value is made of the atoms order[first[r]] to before
 * order[first[r + 1]], the last of which changes fastest; of none if its extent is 1. So transposed
 * axes, and such that were cut or joined, need no copy. */
struct onnx_atoms {
    int count;
    int64_t extent[ONNX_ATOMS_MAX];
    int order[ONNX_ATOMS_MAX], first[ONNX_RANK_MAX + 1];
};

enum onnx_value_kind {
    ONNX_ABSENT, /* an input that is left out */
    ONNX_UNKNOWN /* what a missing operator would give */,
    ONNX_CONSTANT,
    ONNX_TENSOR,
    ONNX_SEQUENCE /* `parts` are its elements */
};

struct onnx_value {
    enum onnx_value_kind kind;
    enum onnx_type type;
    int rank;
    int64_t extent[ONNX_RANK_MAX];
    /* a constant: number (i, j, …) is number offset + i stride[0] + j stride[1] + … of the store */
    const struct onnx_store *store;
    int64_t offset, stride[ONNX_RANK_MAX];
    /* or, if part_count is not 0, constants one behind another along an axis */
    const struct onnx_value *parts;
    int part_count, part_axis;
    bool counts_samples; /* a constant of the number of samples in a batch, which is not known */
    /* a tensor of the graph; with `cut`, what that will be once it is cut out */
    int32_t tensor;
    struct onnx_atoms atoms;
    struct onnx_cut *cut;
    double factor; /* by which the tensor is to be multiplied still; 0: 1 */
    /* A tensor that is computed from constants alone, parameters among them, and so the same for
     * each sample. Its first axis is the batch, which the model does not give it. */
    bool alone;
    const struct onnx_scaled *scaled; /* such a one that is no tensor yet */
};

/* A parameter times numbers that are computed from parameters: weight norm, spectral norm. Layers
 * multiply by the parameter and then by the numbers. */
struct onnx_scaled {
    struct onnx_value weight; /* the parameter, a constant */
    struct onnx_value scale;  /* alone: [B,n], or [B] */
    int axis;                 /* of the weight that has n numbers; -1: there is one number */
};

/* A part of a tensor that is cut out when an operator needs it. Attention needs no queries, keys
 * and values that lie side by side. */
struct onnx_cut {
    int32_t whole;           /* a tensor whose rows are columns of `width` numbers */
    struct onnx_atoms atoms; /* of the whole */
    int64_t outer, width;    /* rows of a sample; numbers of one */
    int64_t first, count;    /* the columns that are cut out */
    int32_t tensor;          /* them, once they are cut out; else -1 */
    /* all parts of a Split, which are cut out together; NULL: this one alone */
    struct onnx_cut *parts;
    int part_count;
};

enum { ONNX_REPLACED_MAX = 32 }; /* inputs of a node that are given in another form */

/* The state of an import. */
struct onnx_import {
    struct onnx_model *model;
    struct graph *graph;
    bool keeps_weights;
    struct onnx_value *values;               /* per value of the model */
    struct onnx_value nowhere;               /* what an output that is left out gets */
    const struct onnx_node *node;            /* the present one */
    const struct onnx_operator_entry *entry; /* its operator; NULL: there is none */
    int node_index;
    bool alone; /* what it reads is constant or `alone`; axes are counted without the batch */
    struct onnx_value replaced[ONNX_REPLACED_MAX]; /* what it reads instead, unless ONNX_ABSENT */
    int constants;             /* computed ones that the present node has made tensors */
    bool *absorbed;            /* per node: a node before has done its work */
    struct onnx_block *blocks; /* memory that lives as long as the import */
    struct error error;        /* the first */
    char *missing;             /* operators that are missing, one a line; owned */
    int missing_count;
    int64_t computed; /* numbers of all constants that were computed */
};

/* ---- onnx_value.c ---- */

/* Zeroed memory until the end of the import; NULL with the error kept. */
void *onnx_allocate(struct onnx_import *import, size_t count, size_t bytes);
void onnx_blocks_release(struct onnx_import *import);
/* Keeps the error "node <name> (<operator>): <sentence>"; returns -EINVAL. */
int onnx_fail(struct onnx_import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* An extent for a sentence: a number, or the batch. */
struct onnx_extent_text {
    char text[48];
};
struct onnx_extent_text onnx_extent_text(int64_t extent);
/* Notes that this form of the present node is missing, and why; its results become unknown. Returns
 * 0. */
int onnx_missing(struct onnx_import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Input or output `index` of the present node; an input that is left out is ONNX_ABSENT. */
const struct onnx_value *onnx_input(const struct onnx_import *import, int index);
struct onnx_value *onnx_output(struct onnx_import *import, int index);
/* Whether an input is there. */
bool onnx_has_input(const struct onnx_import *import, int index);
/* Whether a node, or who runs the model, reads the numbers of an output. */
bool onnx_output_is_read(const struct onnx_import *import, int index);
/* Whether one of the outputs behind the first is read, such as the mask of a Dropout. */
bool onnx_more_is_read(const struct onnx_import *import);
int64_t onnx_attribute_int(const struct onnx_import *import, const char *name, int64_t fallback);
float onnx_attribute_float(const struct onnx_import *import, const char *name, float fallback);
const char *onnx_attribute_text(const struct onnx_import *import, const char *name,
                                const char *fallback, char *buffer, size_t size);
/* The list of whole numbers in attribute `name`, or in input `index` (-1: only the attribute).
 * Returns how many, -1 if there are none, and fails (kept) on more than `most`. */
int onnx_integers(struct onnx_import *import, const char *name, int index, int64_t *numbers,
                  int most);
/* An axis from the end if negative; -1 with the error kept if there is none such. */
int onnx_axis(struct onnx_import *import, int64_t axis, int rank);

/* ---- constants ---- */

/* A constant of new memory: whole numbers (int64) or others (double), which the caller fills in. */
struct onnx_value onnx_constant_new(struct onnx_import *import, enum onnx_type type, int rank,
                                    const int64_t *extent, void **numbers);
struct onnx_value onnx_constant_of(const struct onnx_initializer *initializer);
int64_t onnx_value_elements(const struct onnx_value *value);
/* A value that is alone, without the batch: for its shape. */
struct onnx_value onnx_without_batch(const struct onnx_value *value);
/* Number `index` in row-major order, converted; 0 if the value has no numbers. */
double onnx_number(const struct onnx_value *value, int64_t index);
int64_t onnx_integer(const struct onnx_value *value, int64_t index);
/* The number of `store` at `place`. */
double onnx_store_number(const struct onnx_store *store, int64_t place);
/* Whether it is a floating-point constant with this one number everywhere, of which no part
 * trains. */
bool onnx_is_uniform(const struct onnx_value *value, double *number);
/* Whether that number is 0. */
bool onnx_is_zero(const struct onnx_value *value);
/* The same of a constant that has no more numbers along any axis than `like`: beside it
 * the constant is that one number. */
bool onnx_is_number_beside(const struct onnx_value *value, const struct onnx_value *like,
                           double *number);
bool onnx_value_trains(const struct onnx_value *value);
/* The part of an axis: every `step`th from `first` on. */
int onnx_constant_slice(struct onnx_import *import, struct onnx_value *value, int axis,
                        int64_t first, int64_t count, int64_t step);
/* The same numbers in another shape, which has as many. */
int onnx_constant_reshape(struct onnx_import *import, struct onnx_value *value, int rank,
                          const int64_t *extent);
int onnx_constant_permute(struct onnx_import *import, struct onnx_value *value, const int *axes);
/* Makes parts one behind another a constant of their own; fails if they train. */
int onnx_constant_join(struct onnx_import *import, struct onnx_value *value);
/* A constant of the numbers of `value` at `places` (owned by the import), one for each number of
 * the shape. Of a parameter they stay its numbers, and train with it. */
struct onnx_value onnx_constant_picked(struct onnx_import *import, const struct onnx_value *value,
                                       int rank, const int64_t *extent, const int64_t *places);
/* Computes the present node from constants; -ENOTSUP: it is none that can be computed so. */
int onnx_fold(struct onnx_import *import);
/* Whether the operator can be computed from constants. */
bool onnx_fold_knows(const char *name);

/* ---- tensors (onnx_atoms.c, onnx_tensors.c) ---- */

/* Axes that each are an atom. */
struct onnx_atoms onnx_atoms_plain(int rank, const int64_t *extent);
bool onnx_atoms_are_plain(const struct onnx_atoms *atoms);
/* Takes the axes in another order. */
void onnx_atoms_permute(struct onnx_atoms *atoms, int rank, const int *axes);
/* Cuts and joins axes; false: they lie apart in the tensor, which has to be copied first. */
bool onnx_atoms_reshape(struct onnx_atoms *atoms, int rank, const int64_t *extent);
/* Drops atoms of extent 1. */
void onnx_atoms_drop(struct onnx_atoms *atoms, int rank);
/* Joins the atoms before and behind the batch, of a value that onnx_settle() has changed; its axes
 * are then to be set anew. */
void onnx_atoms_join(struct onnx_atoms *atoms);
/* Cuts both into the same atoms; false: their axes cannot be. */
bool onnx_atoms_match(struct onnx_atoms *a, struct onnx_atoms *b, int rank);

/* A value that is the graph's tensor, whose axes are each an atom in its order. */
struct onnx_value onnx_tensor_value(int32_t tensor, int rank, const int64_t *extent);
/* Gives an axis of a tensor another place; the others stay in their order. */
void onnx_axis_move(struct onnx_value *value, int from, int to);
/* The axis that has the batch; -1: none. */
int onnx_batch_axis(const struct onnx_value *value);

/* Makes the value a tensor whose numbers are in the order of its axes, the batch first. */
int onnx_settle(struct onnx_import *import, struct onnx_value *value);
/* Cuts out and multiplies what is to be. 0, or the error that the import or its graph keeps. */
int onnx_resolve(struct onnx_import *import, struct onnx_value *value);
/* The tensor as an image [B,C,H,W], of a value of that shape; -1 with the error kept. */
int32_t onnx_image(struct onnx_import *import, struct onnx_value *value);
/* The tensor as rows [B,D] or [B,T,D], D being the value's last axis; the value's atoms follow
 * it. */
int32_t onnx_rows(struct onnx_import *import, struct onnx_value *value);
/* Makes the last axis, of a value that onnx_rows() has changed, `features` wide. */
void onnx_rows_widen(struct onnx_value *value, int32_t tensor, int64_t features);
/* The tensor of a shape of the sample with as many numbers, in the order of the value's axes. */
int32_t onnx_shaped(struct onnx_import *import, struct onnx_value *value, int rank,
                    const int64_t *sample);

/* ---- values of parameters alone (onnx_computed.c) ---- */

/* Gives the present node what it reads in the form that its operator takes: parameters that are
 * repeated over the batch, or are computed from parameters, become tensors. `*done`: the node's
 * work is done, or it is missing. 0, or the error that the import or its graph keeps. */
int onnx_computed_prepare(struct onnx_import *import, bool *done);
/* Behind the node's operator: marks results that are alone. */
int onnx_computed_finish(struct onnx_import *import);

/* ---- rows by constant numbers (onnx_take.c) ---- */

/* Replaces the axes from `first` to before `end` by others, of a tensor none of whose axes there is
 * the batch: number i along the new ones is number rows[i] along the old ones, -1: 0. */
int onnx_take(struct onnx_import *import, struct onnx_value *value, int first, int end,
              const int64_t *rows, int rank, const int64_t *extent);
/* Repeats the axes of extent 1 that are wanted wider; the ranks are equal. */
int onnx_expand(struct onnx_import *import, struct onnx_value *value, const int64_t *extent);
/* The numbers of a parameter that onnx_constant_picked() has chosen, as a tensor [B, numbers]. */
int32_t onnx_picked_tensor(struct onnx_import *import, const struct onnx_value *value);
bool onnx_is_picked(const struct onnx_value *value);
/* The numbers of a constant or parameter, once for each sample: [B, numbers]. */
int32_t onnx_repeated_tensor(struct onnx_import *import, const struct onnx_value *value);
/* A settled value (onnx_settle()) whose axes but the batch are changed, with its new tensor. */
int onnx_resettled(struct onnx_import *import, struct onnx_value *value, int32_t tensor, int rank,
                   const int64_t *extent);

/* ---- the operators (the lists of onnx_tensors.h) ---- */

/* Appends the present node, some of whose inputs are tensors, to the graph. 0, or the error that
 * the import or its graph keeps. */
typedef int onnx_operator(struct onnx_import *import);
/* What an operator reads beside finished tensors. */
enum {
    ONNX_TAKES_PENDING = 1,  /* inputs that are to be cut out or multiplied still */
    ONNX_TAKES_CONSTANT = 2, /* a constant as the first input */
    ONNX_TAKES_LIST = 4      /* a list of tensors as the first input */
};
#define ONNX_ANY_NUMBER INT_MAX
struct onnx_operator_entry {
    const char *name;
    onnx_operator *append;
    int inputs;     /* that the standard knows; ONNX_ANY_NUMBER */
    unsigned takes; /* ONNX_TAKES_… */
};
