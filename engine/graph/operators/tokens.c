/* tokens.c: what stands around the blocks of a transformer: positions that are added to tokens,
 * images as tokens, and a token put before them. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

/* Checks that the tensor is a parameter with so many elements. */
static int check_parameter(struct graph *graph, const char *name, enum graph_op op,
                           int32_t parameter, int64_t elements)
{
    char text[SHAPE_TEXT_MAX];

    if (parameter < 0 || parameter >= graph->tensor_count ||
        graph->tensors[parameter].role != TENSOR_PARAMETER)
        return layer_fail(graph, name, op, "there is no parameter %d", parameter);
    if (graph_shape_elements(&graph->tensors[parameter].shape) != elements)
        return layer_fail(graph, name, op, "the parameter is %s, but %lld numbers are needed",
                          graph_shape_format(&graph->tensors[parameter].shape, text, sizeof text),
                          (long long)elements);
    return 0;
}

int32_t graph_parameter(struct graph *graph, const char *name, const struct graph_shape *shape,
                        struct initializer initializer)
{
    int32_t id =
        graph_append_tensor(graph, TENSOR_PARAMETER, TENSOR_FLOAT32, shape, false, "%s", name);

    if (id >= 0)
        graph->tensors[id].initializer = initializer;
    return id;
}

static double flops_each(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

/* ---- positions ---- */

int32_t graph_add_positions(struct graph *graph, int32_t input, const char *name, int32_t positions)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_ADD_POSITIONS);
    const int32_t inputs[2] = {input, positions};
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    if (check_parameter(graph, name, OP_ADD_POSITIONS, positions,
                        shape.extent[1] * shape.extent[2]))
        return graph->error.code;
    layer_append_node(graph, OP_ADD_POSITIONS, name, inputs, 2,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static void differentiate_positions(struct differentiation *differentiation,
                                    const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_ADD_POSITIONS_BACKWARD, &dy, 1,
                           &node->input[1], 1);
    if (differentiation_needs(differentiation, node->input[0]))
        differentiation_give(differentiation, node->input[0], dy);
}

const struct graph_operator operator_add_positions = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops_each,
    .differentiate = differentiate_positions,
};

const struct graph_operator operator_add_positions_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops_each,
};

/* ---- images ---- */

int32_t graph_image_tokens(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_IMAGE_TOKENS);
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    shape = (struct graph_shape){
        .rank = 3,
        .extent = {graph->batch, x->shape.extent[2] * x->shape.extent[3], x->shape.extent[1]}};
    layer_append_node(graph, OP_IMAGE_TOKENS, name, &input, 1,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_token_image(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_TOKEN_IMAGE);

    return x ? graph_tokens_to_image(graph, input, name, 1, x->shape.extent[1]) : graph->error.code;
}

int32_t graph_tokens_to_image(struct graph *graph, int32_t input, const char *name, int64_t height,
                              int64_t width)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_TOKEN_IMAGE);
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    if (height < 1 || width < 1 || height > x->shape.extent[1] ||
        height * width != x->shape.extent[1])
        return layer_fail(graph, name, OP_TOKEN_IMAGE, "%lld steps are no %lldx%lld pixels",
                          (long long)x->shape.extent[1], (long long)height, (long long)width);
    shape = (struct graph_shape){.rank = 4,
                                 .extent = {graph->batch, x->shape.extent[2], height, width}};
    layer_append_node(graph, OP_TOKEN_IMAGE, name, &input, 1,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

/* Each is the gradient of the other. */
static void differentiate_tokens(struct differentiation *differentiation,
                                 const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_TOKEN_IMAGE, &dy, 1, node->input, 1);
}

static void differentiate_image(struct differentiation *differentiation,
                                const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_IMAGE_TOKENS, &dy, 1, node->input, 1);
}

const struct graph_operator operator_image_tokens = {
    .cost_class = COST_ELEMENTWISE,
    .is_view = true,
    .is_cheap = true,
    .differentiate = differentiate_tokens,
};

const struct graph_operator operator_token_image = {
    .cost_class = COST_ELEMENTWISE,
    .is_view = true,
    .is_cheap = true,
    .differentiate = differentiate_image,
};

/* ---- a token before the others ---- */

int32_t graph_prepend_token(struct graph *graph, int32_t input, const char *name, int32_t token)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_PREPEND_TOKEN);
    const int32_t inputs[2] = {input, token};
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    if (check_parameter(graph, name, OP_PREPEND_TOKEN, token, shape.extent[2]))
        return graph->error.code;
    shape.extent[1]++;
    layer_append_node(graph, OP_PREPEND_TOKEN, name, inputs, 2,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static void differentiate_prepended(struct differentiation *differentiation,
                                    const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_PREPEND_TOKEN_BACKWARD, &dy, 1, node->input,
                           2);
}

const struct graph_operator operator_prepend_token = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .differentiate = differentiate_prepended,
};

const struct graph_operator operator_prepend_token_backward = {
    .cost_class = COST_ELEMENTWISE,
};
