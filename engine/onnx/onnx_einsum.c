/* onnx_einsum.c: Einsum of two operands, as products of matrices: axes that both operands and the
 * result have count the matrices, those that only the operands have are summed over. A weight is
 * repeated over the batch. */
#include "engine/onnx/onnx_computed.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { EQUATION_MAX = 64 };

/* "bhid,bhjd->bhij", taken apart. */
struct equation {
    char operand[2][ONNX_RANK_MAX + 1], result[ONNX_RANK_MAX + 1];
};

/* Appends a letter to a list of labels; false: it has it already, or too many. */
static bool label_add(char *labels, char letter)
{
    size_t length = strlen(labels);

    if (length == ONNX_RANK_MAX || strchr(labels, letter))
        return false;
    labels[length] = letter;
    return true;
}

static bool equation_read(const char *text, struct equation *equation)
{
    char *lists[3] = {equation->operand[0], equation->operand[1], equation->result};
    int list = 0;

    *equation = (struct equation){0};
    for (; *text; text++) {
        if (*text == ' ')
            continue;
        if (*text == ',' && list == 0) {
            list = 1;
        } else if (text[0] == '-' && text[1] == '>' && list == 1) {
            list = 2;
            text++;
        } else if (!isalpha((unsigned char)*text) || !label_add(lists[list], *text)) {
            return false;
        }
    }
    return list == 2;
}

/* The part that a label has: 0 both operands and the result, 1 one operand and the result, 2 both
 * operands; -1: another. */
static int part_of(const struct equation *equation, char label, int own)
{
    bool other = strchr(equation->operand[!own], label), stays = strchr(equation->result, label);

    return other && stays ? 0 : stays ? 1 : other ? 2 : -1;
}

/* Orders an operand's axes by the three `parts`; within them as the labels of `like` are. Gives how
 * many axes each part has, and the new labels. */
static int operand_order(struct onnx_import *import, const struct equation *equation, int own,
                         const int *parts, const char *like, struct onnx_value *value, int *counts,
                         char *labels)
{
    const char *have = equation->operand[own];
    struct onnx_value old = *value;
    int order[ONNX_RANK_MAX] = {0}, count = 0;

    if ((int)strlen(have) != value->rank)
        return onnx_fail(import, "its equation has %d axes of an operand that has %d",
                         (int)strlen(have), value->rank);
    memset(labels, 0, ONNX_RANK_MAX + 1);
    for (int i = 0; i < 3; i++) {
        counts[i] = 0;
        for (const char *label = parts[i] == 1 ? have : like; *label; label++) {
            const char *at = strchr(have, *label);

            if (!at || part_of(equation, *label, own) != parts[i])
                continue;
            labels[count] = *label;
            order[count++] = (int)(at - have);
            counts[i]++;
        }
    }
    if (count != value->rank)
        return onnx_missing(import, "that sums over axes of one operand"), -ENOTSUP;
    onnx_atoms_permute(&value->atoms, value->rank, order);
    for (int r = 0; r < value->rank; r++)
        value->extent[r] = old.extent[order[r]];
    return 0;
}

static int64_t product_of(const int64_t *extent, int count)
{
    int64_t product = 1;

    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(product, extent[i], &product))
            return INT64_MAX;
    return product;
}

/* Joins the last two parts of an operand to an axis each. */
static int operand_join(struct onnx_import *import, struct onnx_value *value, const int *counts)
{
    const int matrices = counts[0];
    int64_t extent[ONNX_RANK_MAX + 2];

    memcpy(extent, value->extent, sizeof value->extent);
    extent[matrices] = product_of(value->extent + matrices, counts[1]);
    extent[matrices + 1] = product_of(value->extent + matrices + counts[1], counts[2]);
    if (matrices + 2 > ONNX_RANK_MAX)
        return onnx_missing(import, "of too many axes"), -ENOTSUP;
    return onnx_reshape_to(import, value, matrices + 2, extent);
}

/* Gives the product its axes, in the order of the equation's result. */
static int result_give(struct onnx_import *import, const struct equation *equation,
                       const char *labels, int rank, const int64_t *extent)
{
    struct onnx_value y = *onnx_output(import, 0), *result;
    int order[ONNX_RANK_MAX];

    if (y.kind != ONNX_TENSOR || onnx_reshape_to(import, &y, rank, extent))
        return import->error.code;
    result = onnx_output(import, 0);
    if ((int)strlen(equation->result) != rank)
        return onnx_missing(import, "whose result has other axes");
    for (int r = 0; r < rank; r++) {
        order[r] = (int)(strchr(labels, equation->result[r]) - labels);
        result->extent[r] = y.extent[order[r]];
    }
    onnx_atoms_permute(&result->atoms, rank, order);
    return 0;
}

/* Repeats a weight over the batch, which the other operand has, and adds that axis to its
 * labels. */
static bool weight_repeat(struct onnx_import *import, struct equation *equation, int own,
                          struct onnx_value *weight, const struct onnx_value *samples)
{
    char *labels = equation->operand[own];
    int axis = onnx_batch_axis(samples);
    size_t length = strlen(labels);
    char label;

    if (weight->kind == ONNX_TENSOR && !weight->alone)
        return true;
    if ((weight->kind != ONNX_CONSTANT && !weight->alone) || axis < 0 ||
        (int)strlen(equation->operand[!own]) != samples->rank || length == ONNX_RANK_MAX)
        return false;
    label = equation->operand[!own][axis];
    if (strchr(labels, label) || !strchr(equation->result, label))
        return false;
    memmove(labels + 1, labels, length + 1);
    labels[0] = label;
    if (!weight->alone)
        *weight = onnx_alone_tensor(import, weight);
    weight->alone = false;
    return weight->kind == ONNX_TENSOR && weight->tensor >= 0;
}

static int append_einsum(struct onnx_import *import)
{
    static const int left_parts[] = {0, 1, 2}, right_parts[] = {0, 2, 1};
    const Onnx__Attribute *given = onnx_attribute(import->node, "equation");
    struct onnx_value a = *onnx_input(import, 0), b = *onnx_input(import, 1);
    char text[EQUATION_MAX], left[ONNX_RANK_MAX + 1], right[ONNX_RANK_MAX + 1];
    char labels[2 * ONNX_RANK_MAX + 1] = {0};
    int64_t extent[2 * ONNX_RANK_MAX];
    struct equation equation;
    int ours[3] = {0}, theirs[3] = {0}, rank;

    if (import->node->input_count != 2 || (given && given->s.len >= sizeof text) ||
        (a.kind != ONNX_TENSOR && b.kind != ONNX_TENSOR) ||
        !equation_read(onnx_attribute_text(import, "equation", "", text, sizeof text), &equation) ||
        !weight_repeat(import, &equation, 0, &a, &b) ||
        !weight_repeat(import, &equation, 1, &b, &a))
        return import->error.code || import->graph->error.code
                   ? import->error.code
                   : onnx_missing(import, "other than a product of samples, or of samples and a "
                                          "weight");
    if (operand_order(import, &equation, 0, left_parts, equation.operand[0], &a, ours, left) ||
        operand_order(import, &equation, 1, right_parts, equation.operand[0], &b, theirs, right))
        return import->error.code;
    rank = ours[0] + ours[1] + theirs[2];
    if (rank > ONNX_RANK_MAX || ours[0] < 1)
        return onnx_missing(import, "whose operands have no batch together");
    memcpy(labels, left, (size_t)ours[0] + (size_t)ours[1]);
    memcpy(extent, a.extent, ((size_t)ours[0] + (size_t)ours[1]) * sizeof *extent);
    for (int i = 0; i < theirs[2]; i++) {
        labels[ours[0] + ours[1] + i] = right[theirs[0] + theirs[1] + i];
        extent[ours[0] + ours[1] + i] = b.extent[theirs[0] + theirs[1] + i];
    }
    if (operand_join(import, &a, ours) || operand_join(import, &b, theirs))
        return import->error.code;
    if (onnx_batch_product(import, &a, &b) || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return import->error.code;
    return result_give(import, &equation, labels, rank, extent);
}

const struct onnx_operator_entry onnx_einsum_operators[] = {
    {"Einsum", append_einsum, ONNX_ANY_NUMBER, ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
