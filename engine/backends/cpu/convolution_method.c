/* convolution_method.c: reads the text that says by which method each convolution of a model is
 * computed (device_choose_convolutions() of backend.h). */
#include "engine/backends/cpu/convolution_method.h"

#include <errno.h>
#include <string.h>

/* by enum convolution_method */
static const char letters[] = "-dbnpqlcfu";

/* Old checkpoints have a digit for each dense 3x3 convolution: the sum of 1, 2 and 4 for the
 * directions that were computed directly. */
static const char digits[] = "01234567";

char convolution_choice_order(const char *choice)
{
    return *choice == CONVOLUTION_IN_BLOCKS || *choice == CONVOLUTION_CHANNELS_LAST ? *choice : 0;
}

int convolution_methods_check(const char *choice, struct error *error)
{
    size_t length = strlen(choice);

    choice += convolution_choice_order(choice) != 0;
    if (length >= CONVOLUTION_CHOICES_MAX)
        return error_set(error, -EINVAL,
                         "direct_convolutions has %zu letters; there is room for %d", length,
                         CONVOLUTION_CHOICES_MAX - 1);
    length = strlen(choice);
    if (strspn(choice, digits) == length)
        return 0;
    if (strspn(choice, letters) == length && length % ONEDNN_DIRECTIONS == 0)
        return 0;
    return error_set(
        error, -EINVAL,
        "direct_convolutions is \"%.40s\"; it must be B or L or neither, and then three "
        "of the letters %s for each convolution, or digits from 0 to 7",
        choice, letters);
}

/* The weights that the node reads, or whose gradient it computes. */
static int32_t weights_of(const struct graph *graph, const struct graph_node *node)
{
    int32_t weights = node->op == OP_CONV2D_BACKWARD_WEIGHTS ? node->output[0] : node->input[1];
    int32_t gradient_of = graph->tensors[weights].parameter;

    return gradient_of >= 0 ? gradient_of : weights;
}

static enum onednn_direction direction_of(const struct graph_node *node)
{
    return node->op == OP_CONV2D                 ? ONEDNN_FORWARD
           : node->op == OP_CONV2D_BACKWARD_DATA ? ONEDNN_BACKWARD_DATA
                                                 : ONEDNN_BACKWARD_WEIGHTS;
}

bool convolution_can_unfold(const struct graph *graph, const struct graph_node *node)
{
    const int32_t lanes_max = 16; /* one channel takes as many */
    int64_t most = 0;

    for (int i = 0; i < node->input_count + node->output_count; i++) {
        int32_t tensor =
            i < node->input_count ? node->input[i] : node->output[i - node->input_count];
        int64_t elements = tensor < 0 ? 0 : graph_shape_elements(&graph->tensors[tensor].shape);

        most = elements > most ? elements : most;
    }
    return node->attributes.conv.groups == 1 && most <= INT32_MAX / lanes_max;
}

/* The method of a letter, for the node. */
static enum convolution_method method_of(const struct graph *graph, const struct graph_node *node,
                                         char letter)
{
    enum convolution_method method = (enum convolution_method)(strchr(letters, letter) - letters);

    return method == CONVOLUTION_UNFOLDED && !convolution_can_unfold(graph, node)
               ? CONVOLUTION_BY_DEVICE
               : method;
}

enum convolution_method convolution_method_of(const struct graph *graph, const char *choice,
                                              const struct graph_node *node)
{
    enum onednn_direction direction = direction_of(node);
    int32_t weights = weights_of(graph, node);
    bool old;

    choice += convolution_choice_order(choice) != 0;
    old = *choice && strchr(digits, *choice);
    for (int32_t i = 0; i < graph->node_count && *choice; i++) {
        const struct graph_node *layer = &graph->nodes[i];

        if (layer->op != OP_CONV2D || layer->phase != GRAPH_FORWARD ||
            (old && !graph_node_is_dense_3x3(layer)))
            continue;
        if (layer->input[1] == weights && old)
            return (*choice - '0') >> direction & 1 ? CONVOLUTION_DIRECT : CONVOLUTION_BY_DEVICE;
        if (layer->input[1] == weights)
            return method_of(graph, node, choice[direction]);
        choice += old ? 1 : ONEDNN_DIRECTIONS;
    }
    return CONVOLUTION_BY_DEVICE;
}
