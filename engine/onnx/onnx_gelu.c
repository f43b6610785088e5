/* onnx_gelu.c: GELU, as an operator and as the nodes that exporters write for it. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <math.h>
#include <string.h>

static int append_gelu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    char text[16];
    const char *how = onnx_attribute_text(import, "approximate", "none", text, sizeof text);

    x.tensor = graph_activation(import->graph, x.tensor, import->node->name,
                                strcmp(how, "tanh") == 0 ? ACTIVATION_GELU_TANH : ACTIVATION_GELU);
    return onnx_done(import, x);
}

/* By which factor the value is x, or will be where a node further down multiplies x by a number; 0:
 * it is something else. */
static double multiple_of(const struct onnx_import *import, const struct onnx_value *x,
                          int32_t value)
{
    const struct onnx_value *have = value >= 0 ? &import->values[value] : NULL;
    const struct onnx_node *node;
    double number;
    bool divides;

    if (!have)
        return 0;
    if (have->kind == ONNX_TENSOR)
        return have->tensor != x->tensor || have->cut != x->cut ? 0
               : have->factor != 0                              ? have->factor
                                                                : 1;
    node = have->kind == ONNX_ABSENT ? onnx_producer(import->model, value) : NULL;
    divides = node && strcmp(node->proto->op_type, "Div") == 0;
    if (!node || (!divides && strcmp(node->proto->op_type, "Mul") != 0) || node->input_count != 2)
        return 0;
    for (int k = 0; k < (divides ? 1 : 2); k++)
        if (node->input[k] >= 0 && node->input[!k] >= 0 &&
            import->values[node->input[k]].kind == ONNX_TENSOR &&
            onnx_is_number_beside(&import->values[node->input[!k]], x, &number) && number != 0)
            return multiple_of(import, x, node->input[k]) * (divides ? 1 / number : number);
    return 0;
}

/* The input of a node that is not `one`. */
static int32_t other_input(const struct onnx_node *node, int32_t one)
{
    return node->input_count == 2 ? node->input[node->input[0] == one] : -1;
}

/* Opsets before 20 write GELU as x (1 + erf(x / sqrt 2)) / 2, in different orders. Does the work of
 * these nodes, as far as x is known; returns whether they are such. */
static bool absorb_gelu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    const struct onnx_node *sum = onnx_only_reader(import, import->node, "Add"), *product, *half;
    int32_t one = sum ? other_input(sum, import->node->output[0]) : -1, other = -1;
    double number = 0, factor = 0, outer = 1;

    product = half = sum ? onnx_only_reader(import, sum, "Mul") : NULL;
    if (product) {
        other = other_input(product, sum->output[0]);
        if (other >= 0 && onnx_is_number_beside(&import->values[other], &x, &outer)) {
            product = onnx_only_reader(import, half, "Mul");
            other = product ? other_input(product, half->output[0]) : -1;
        } else {
            outer = 1;
        }
    }
    if (product && one >= 0 && onnx_is_number_beside(&import->values[one], &x, &number) &&
        number == 1 && outer != 0 && fabs(x.factor - M_SQRT1_2) < 1e-6)
        factor = multiple_of(import, &x, other);
    if (factor == 0)
        return false;
    x.factor = 0;
    if (onnx_resolve(import, &x))
        return true;
    *onnx_output(import, 0) = x; /* its shape may be asked for */
    x.tensor = graph_activation(import->graph, x.tensor, import->node->name, ACTIVATION_GELU);
    x.factor = 2 * outer * factor;
    onnx_absorb(import, sum, &x);
    onnx_absorb(import, half, &x);
    onnx_absorb(import, product, &x);
    return true;
}

static int append_erf(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    if (absorb_gelu(import) || onnx_resolve(import, &x))
        return import->graph->error.code;
    x.tensor =
        graph_function(import->graph, x.tensor, &(struct function_attributes){.kind = FUNCTION_ERF},
                       import->node->name);
    return onnx_done(import, x);
}

const struct onnx_operator_entry onnx_gelu_operators[] = {
    {"Gelu", append_gelu, 1, 0},
    {"Erf", append_erf, 1, ONNX_TAKES_PENDING},
    {NULL, NULL, 0, 0},
};
