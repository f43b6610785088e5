/* tiles.c: decides which programs keep their images in tiles (kernels/tiles.h), and where the tiles
 * lie. Either all images of a program are in tiles or none, so that no layer converts them. */
#include "engine/backends/cpu/program.h"

static bool is_image(const struct graph *graph, int32_t tensor)
{
    const struct graph_tensor *t = tensor < 0 ? NULL : &graph->tensors[tensor];

    return t && t->batched && t->shape.rank == 4 && t->shape.extent[2] * t->shape.extent[3] > 1;
}

/* Whether the tensor is the samples, or these rounded. Their few channels do not fill tiles, but
 * the taps of the first convolution do. */
static bool is_sample(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;

    return tensor == graph->input || (producer >= 0 && graph->nodes[producer].op == OP_CAST &&
                                      graph->nodes[producer].input[0] == graph->input);
}

static bool fills_tiles(const struct graph *graph, int32_t tensor)
{
    return is_image(graph, tensor) && graph->tensors[tensor].shape.extent[1] % TILE_CHANNELS == 0;
}

/* Whether all images that the operator reads and writes fill tiles; samples do not count. */
static bool images_fill_tiles(const struct graph *graph, const struct graph_node *node)
{
    for (int i = 0; i < node->input_count; i++)
        if (is_image(graph, node->input[i]) && !fills_tiles(graph, node->input[i]) &&
            !is_sample(graph, node->input[i]))
            return false;
    for (int i = 0; i < node->output_count; i++)
        if (is_image(graph, node->output[i]) && !fills_tiles(graph, node->output[i]) &&
            !is_sample(graph, node->output[i]))
            return false;
    return true;
}

static bool reads_samples(const struct graph *graph, const struct graph_node *node)
{
    for (int i = 0; i < node->input_count; i++)
        if (is_image(graph, node->input[i]) && is_sample(graph, node->input[i]))
            return true;
    return false;
}

static bool touches_images(const struct graph *graph, const struct graph_node *node)
{
    for (int i = 0; i < node->input_count; i++)
        if (is_image(graph, node->input[i]))
            return true;
    for (int i = 0; i < node->output_count; i++)
        if (is_image(graph, node->output[i]))
            return true;
    return false;
}

bool tiles_suit_convolution(const struct graph *graph, const struct graph_node *node)
{
    const struct conv_attributes *a = &node->attributes.conv;
    struct convolution_tensors tensors = convolution_tensors(node);
    int64_t depth = graph->tensors[tensors.x].shape.extent[1] * a->kernel[0] * a->kernel[1];

    return a->groups == 1 && fills_tiles(graph, tensors.y) &&
           (is_sample(graph, tensors.x)
                ? tensors.direction != ONEDNN_BACKWARD_DATA && depth <= TILE_UNFOLDED_MAX
                : fills_tiles(graph, tensors.x));
}

bool tiles_suit_all(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    (void)node;
    return true;
}

bool tiles_suit_images(const struct graph *graph, const struct graph_node *node)
{
    return !reads_samples(graph, node);
}

bool tiles_suit_relu(const struct graph *graph, const struct graph_node *node)
{
    return !reads_samples(graph, node) && node->attributes.activation == ACTIVATION_RELU;
}

bool tiles_suit_average(const struct graph *graph, const struct graph_node *node)
{
    bool backward = node->op == OP_AVERAGE_POOL2D_BACKWARD;
    const struct graph_tensor *x = &graph->tensors[backward ? node->output[0] : node->input[0]];
    const struct conv_attributes *a = &node->attributes.conv;

    return !reads_samples(graph, node) && a->kernel[0] == x->shape.extent[2] &&
           a->kernel[1] == x->shape.extent[3] && a->padding[0] == 0 && a->padding[1] == 0;
}

static bool operator_suits(const struct operator_table *table, const struct graph *graph,
                           const struct graph_node *node)
{
    const struct operator_functions *functions = operator_functions_of(table, graph, node);

    return functions->suits_tiles && functions->suits_tiles(graph, node);
}

/* Whether the samples can be unfolded. This is done once, so all convolutions that read them must
 * be of one kind. */
static bool samples_unfold(const struct graph *graph)
{
    const struct conv_attributes *first = NULL;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const struct conv_attributes *a = &node->attributes.conv;

        if (!reads_samples(graph, node) || node->op == OP_CAST)
            continue;
        first = first ? first : a;
        for (int d = 0; d < 2; d++)
            if (a->kernel[d] != first->kernel[d] || a->stride[d] != first->stride[d] ||
                a->padding[d] != first->padding[d] || a->dilation[d] != first->dilation[d])
                return false;
    }
    return true;
}

bool tiles_suit_graph(const struct operator_table *table, const struct graph *graph)
{
    bool convolutions = false;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (!touches_images(graph, node))
            continue;
        if (!operator_suits(table, graph, node) || !images_fill_tiles(graph, node))
            return false;
        convolutions |= node->op == OP_CONV2D;
    }
    return convolutions && samples_unfold(graph);
}

bool program_is_tiled(const struct backend_program *program, int32_t tensor)
{
    return program->tiled && is_image(program->graph, tensor) &&
           program_tensor(program, tensor)->role != TENSOR_INPUT;
}

bool program_is_unfolded(const struct backend_program *program, int32_t tensor)
{
    return program_is_tiled(program, tensor) && is_sample(program->graph, tensor);
}

bool tiles_absorb_cast(const struct backend_program *program, const struct graph_node *node)
{
    const struct graph *graph = program->graph;

    if (!program->tiled || node->op != OP_CAST)
        return false;
    if (is_image(graph, node->output[0]))
        return !is_sample(graph, node->output[0]);
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].input_count > 1 && graph->nodes[i].input[1] == node->output[0] &&
            (graph->nodes[i].op == OP_CONV2D || graph->nodes[i].op == OP_CONV2D_BACKWARD_DATA) &&
            touches_images(graph, &graph->nodes[i]))
            return true;
    return false;
}

struct tile_images program_tile_images(const struct backend_program *program, int32_t tensor,
                                       int64_t samples)
{
    const int64_t *extent = program_tensor(program, tensor)->shape.extent;

    return (struct tile_images){
        .samples = samples, .channels = extent[1], .pixels = extent[2] * extent[3]};
}

void tiles_copy(struct backend_program *program, int32_t tensor, void *canonical, bool write)
{
    const struct kernels *kernels = program->device->kernels;
    int64_t elements = program_sample_elements(program, tensor);

    for (int task = 0; task < program->tasks; task++) {
        struct range slice = program_slice(program, task);
        struct tile_images images = program_tile_images(program, tensor, slice.end - slice.first);
        float *plain = (float *)canonical + slice.first * elements;

        if (write)
            kernels->plain_to_tiles(plain, &images, program_sample(program, tensor, slice.first));
        else
            kernels->tiles_to_plain(program_sample(program, tensor, slice.first), &images, plain);
    }
}
