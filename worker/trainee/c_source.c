/* c_source.c: see c_source.h. The file has the parameters as constants, the functions that its
 * layers need (c_functions.c), and model_run(), which calls them one after another. All that is in
 * it are numbers and words of this program: names of layers stand in comments, without what could
 * end one. */
#include "worker/trainee/c_source.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "worker/trainee/c_functions.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compilers take minutes beyond it, and such a file hundreds of megabytes. */
enum { PARAMETERS_MAX = 16 << 20, NUMBERS_OF_LINE = 8, SENTENCE_MAX = 700 };

struct source {
    struct export_graph *model;
    const struct graph *graph;
    FILE *file;
    bool *needed;    /* nodes */
    int64_t *offset; /* of tensors in the memory; -1: none */
    int64_t memory;
};

/* ---- what is written ------------------------------------------------------------------------- */

/* Whether the tensor's numbers stand in the file: weights, and numbers that do not train. */
static bool is_constant(const struct graph_tensor *tensor)
{
    return tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATISTIC;
}

static void mark_needed(struct source *source)
{
    const struct graph *graph = source->graph;
    AUTO_FREE bool *tensors = memory_zero((size_t)graph->tensor_count + 1);

    tensors[graph->output] = true;
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->output_count; k++)
            source->needed[i] |= node->output[k] >= 0 && tensors[node->output[k]];
        for (int k = 0; source->needed[i] && k < node->input_count; k++)
            if (node->input[k] >= 0)
                tensors[node->input[k]] = true;
    }
}

static int check(const struct source *source, struct error *error)
{
    const struct graph *graph = source->graph;
    char list[SENTENCE_MAX] = "";
    size_t used = 0;
    int64_t parameters = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (source->needed[i] && !c_function_of(graph->nodes[i].op) && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "",
                                     graph->nodes[i].name, graph_op_to_string(graph->nodes[i].op));
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (is_constant(&graph->tensors[i]))
            parameters += graph_shape_elements(&graph->tensors[i].shape);
    if (used)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "a C file cannot have these layers: %s; export the model with --onnx",
                         list);
    if (graph->tensors[graph->input].type != TENSOR_FLOAT32)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "the model reads symbols, which a C file cannot; export it with --onnx");
    if (parameters > PARAMETERS_MAX)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "the model has %lld parameters, but a C file at most %d; export it with "
                         "--onnx",
                         (long long)parameters, PARAMETERS_MAX);
    return 0;
}

/* ---- constants ------------------------------------------------------------------------------- */

static int write_number(FILE *file, float value, struct error *error)
{
    char text[32];

    if (!isfinite(value))
        return error_set(error, -EINVAL, "a number of the model is not finite");
    snprintf(text, sizeof text, "%.9g", (double)value);
    fprintf(file, "%s%sf", text, strpbrk(text, ".e") ? "" : ".0");
    return 0;
}

static int write_array(FILE *file, const char *name, int32_t id, const float *values, int64_t count,
                       struct error *error)
{
    int r = 0;

    fprintf(file, "static const float %s%d[%lld] = {", name, id, (long long)count);
    for (int64_t i = 0; i < count && r == 0; i++) {
        fputs(i % NUMBERS_OF_LINE ? ", " : i ? ",\n    " : "\n    ", file);
        r = write_number(file, values[i], error);
    }
    fputs("\n};\n", file);
    return r;
}

/* In a comment, without the characters that could end it. */
static void write_comment(FILE *file, const char *text)
{
    fputs("/* ", file);
    for (; *text; text++)
        fputc(*text >= ' ' && *text < 127 && *text != '*' && *text != '\\' && *text != '?' ? *text
                                                                                           : '_',
              file);
    fputs(" */\n", file);
}

static float *read_numbers(struct source *source, int32_t tensor, struct error *error)
{
    const struct graph_tensor *from = &source->graph->tensors[tensor];
    float *values = malloc((size_t)graph_shape_elements(&from->shape) * sizeof *values + 1);

    if (!values)
        error_no_memory(error, "the weights");
    else if (export_graph_read(source->model, from, values, error) == 0)
        return values;
    free(values);
    return NULL;
}

static int write_parameter(struct source *source, int32_t tensor, struct error *error)
{
    const struct graph_tensor *from = &source->graph->tensors[tensor];
    AUTO_FREE float *values = read_numbers(source, tensor, error);

    if (!values)
        return error->code;
    write_comment(source->file, from->name);
    return write_array(source->file, "parameter_", tensor, values,
                       graph_shape_elements(&from->shape), error);
}

/* A batch norm's factor and shift of each channel. */
static int write_norm(struct source *source, int32_t index, struct error *error)
{
    const struct graph_node *node = &source->graph->nodes[index];
    int64_t channels = graph_shape_elements(&source->graph->tensors[node->input[1]].shape);
    float *values[4] = {NULL};
    int r = 0;

    for (int i = 0; i < 4 && r == 0; i++) {
        values[i] = read_numbers(source, node->input[1 + i], error);
        r = values[i] ? 0 : error->code;
    }
    for (int64_t c = 0; c < channels && r == 0; c++) {
        values[0][c] /= sqrtf(values[3][c] + node->attributes.batch_norm.epsilon);
        values[1][c] -= values[2][c] * values[0][c];
    }
    write_comment(source->file, node->name);
    if (r == 0)
        r = write_array(source->file, "scale_", index, values[0], channels, error);
    if (r == 0)
        r = write_array(source->file, "shift_", index, values[1], channels, error);
    for (int i = 0; i < 4; i++)
        free(values[i]);
    return r;
}

static int write_constants(struct source *source, struct error *error)
{
    const struct graph *graph = source->graph;
    AUTO_FREE bool *written = memory_zero((size_t)graph->tensor_count + 1);
    int r = 0;

    for (int32_t i = 0; i < graph->node_count && r == 0; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (!source->needed[i])
            continue;
        if (node->op == OP_BATCH_NORM) {
            r = write_norm(source, i, error);
            continue;
        }
        for (int k = 0; k < node->input_count && r == 0; k++) {
            int32_t tensor = node->input[k];

            if (tensor < 0 || written[tensor] || !is_constant(&graph->tensors[tensor]))
                continue;
            written[tensor] = true;
            r = write_parameter(source, tensor, error);
        }
    }
    if (r == 0 && source->model->groups)
        r = write_array(source->file, "input_mean_", 0, source->model->mean, source->model->groups,
                        error);
    if (r == 0 && source->model->groups)
        r = write_array(source->file, "input_factor_", 0, source->model->factor,
                        source->model->groups, error);
    if (r == 0 && source->model->target_groups)
        r = write_array(source->file, "output_mean_", 0, source->model->target_mean,
                        source->model->target_groups, error);
    if (r == 0 && source->model->target_groups)
        r = write_array(source->file, "output_factor_", 0, source->model->target_factor,
                        source->model->target_groups, error);
    return r;
}

/* ---- functions ------------------------------------------------------------------------------- */

static void write_functions(struct source *source)
{
    const struct graph *graph = source->graph;
    bool written[OP_COUNT] = {0}, activations[64] = {0};

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        enum activation_kind kind = node->attributes.activation;

        if (!source->needed[i])
            continue;
        if (node->op == OP_ACTIVATION && !activations[kind]) {
            activations[kind] = true;
            fprintf(source->file,
                    "\nstatic void apply_%s(const float *from, float *to, int count)\n"
                    "{\n"
                    "    for (int i = 0; i < count; i++) {\n"
                    "        float x = from[i];\n"
                    "\n"
                    "        to[i] = %s;\n"
                    "    }\n"
                    "}\n",
                    activation_kind_to_string(kind), c_activation_of(kind));
        }
        if (!written[node->op] && *c_function_of(node->op))
            fprintf(source->file, "\n%s", c_function_of(node->op));
        written[node->op] = true;
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int64_t sample_elements(const struct source *source, int32_t tensor)
{
    const struct graph_shape *shape = &source->graph->tensors[tensor].shape;

    return graph_shape_elements(shape) / shape->extent[0];
}

/* A tensor as an argument: its place in the memory, or a constant. */
static void write_argument(const struct source *source, int32_t tensor)
{
    if (tensor < 0)
        fputs("0, ", source->file);
    else if (is_constant(&source->graph->tensors[tensor]))
        fprintf(source->file, "parameter_%d, ", tensor);
    else
        fprintf(source->file, "memory + %lld, ", (long long)source->offset[tensor]);
}

/* Extents of x and y, kernel, stride, padding, dilation, groups. */
static void write_window(const struct source *source, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const int64_t *x = source->graph->tensors[node->input[0]].shape.extent,
                  *y = source->graph->tensors[node->output[0]].shape.extent;

    fprintf(source->file,
            "(const int[]){%lld, %lld, %lld, %lld, %lld, %lld, %d, %d, %d, %d, %d, %d, %d, %d, %d}",
            (long long)x[1], (long long)x[2], (long long)x[3], (long long)y[1], (long long)y[2],
            (long long)y[3], conv->kernel[0], conv->kernel[1], conv->stride[0], conv->stride[1],
            conv->padding[0], conv->padding[1], conv->dilation[0], conv->dilation[1], conv->groups);
}

static void write_concatenation(const struct source *source, const struct graph_node *node)
{
    const struct graph_shape *y = &source->graph->tensors[node->output[0]].shape;
    int64_t rows = y->rank == 3 ? y->extent[1] : 1, all = sample_elements(source, node->output[0]),
            place = 0;

    for (int k = 0; k < node->input_count; k++) {
        int64_t width = sample_elements(source, node->input[k]) / rows,
                memory = source->offset[node->output[0]] + place;

        fputs("    concatenate(", source->file);
        write_argument(source, node->input[k]);
        fprintf(source->file, "memory + %lld, %lld, %lld, %lld);\n", (long long)memory,
                (long long)rows, (long long)width, (long long)(all / rows));
        place += width;
    }
}

/* The arguments behind the tensors. */
static void write_settings(const struct source *source, const struct graph_node *node)
{
    const struct graph_shape *x = &source->graph->tensors[node->input[0]].shape;
    long long elements = sample_elements(source, node->input[0]), width = x->extent[x->rank - 1],
              channels = x->extent[1];
    FILE *file = source->file;

    switch (node->op) {
    case OP_LINEAR:
        fprintf(file, "%lld, %lld, %lld", elements / width, width,
                (long long)source->graph->tensors[node->input[1]].shape.extent[0]);
        return;
    case OP_CONV2D:
    case OP_MAX_POOL2D:
    case OP_AVERAGE_POOL2D:
    case OP_ADAPTIVE_AVERAGE_POOL2D:
        write_window(source, node);
        return;
    case OP_BATCH_NORM:
    case OP_CHANNEL_SCALE:
        fprintf(file, "%lld, %lld", channels, elements / channels);
        return;
    case OP_IMAGE_TOKENS: /* [C,H,W] -> [HW,C] */
        fprintf(file, "%lld, %lld", channels, elements / channels);
        return;
    case OP_TOKEN_IMAGE: /* [T,C] -> [C,H,W] */
        fprintf(file, "%lld, %lld", elements / width, width);
        return;
    case OP_LAYER_NORM:
        fprintf(file, "%lld, %lld, (float)%.9g", elements / width, width,
                (double)node->attributes.row_norm_epsilon);
        return;
    case OP_SOFTMAX:
        fprintf(file, "%lld, %lld", elements / width, width);
        return;
    case OP_LEAKY_RELU:
        fprintf(file, "%lld, (float)%.9g", elements, (double)node->attributes.negative_slope);
        return;
    case OP_ELU:
        fprintf(file, "%lld, (float)%.9g", elements, (double)node->attributes.elu_alpha);
        return;
    case OP_AFFINE:
        fprintf(file, "%lld, (float)%.9g, (float)%.9g", elements,
                (double)node->attributes.affine.scale, (double)node->attributes.affine.offset);
        return;
    default:
        fprintf(file, "%lld", elements);
    }
}

static void write_call(const struct source *source, int32_t index)
{
    const struct graph_node *node = &source->graph->nodes[index];
    FILE *file = source->file;
    int inputs = node->op == OP_BATCH_NORM ? 1 : node->input_count;

    if (node->op == OP_RESHAPE)
        return;
    if (node->op == OP_CONCATENATE) {
        write_concatenation(source, node);
        return;
    }
    if (node->op == OP_ACTIVATION) /* libm has functions of some of these names */
        fprintf(file, "    apply_%s(", activation_kind_to_string(node->attributes.activation));
    else
        fprintf(file, "    %s(", graph_op_to_string(node->op));
    for (int k = 0; k < inputs; k++)
        write_argument(source, node->input[k]);
    if (node->op == OP_BATCH_NORM)
        fprintf(file, "scale_%d, shift_%d, ", index, index);
    write_argument(source, node->output[0]);
    write_settings(source, node);
    fputs(");\n", file);
}

/* ---- file ------------------------------------------------------------------------------------ */

/* Whether what the node reads has a place in the memory, or is a constant. */
static int check_inputs(const struct source *source, const struct graph_node *node,
                        struct error *error)
{
    for (int k = 0; k < node->input_count; k++) {
        int32_t x = node->input[k];

        if (x >= 0 && source->offset[x] < 0 && !is_constant(&source->graph->tensors[x]))
            return error_set(error, -ERROR_UNSUPPORTED,
                             "a C file cannot have what layer %s reads, %s; export the model with "
                             "--onnx",
                             node->name, source->graph->tensors[x].name);
    }
    return 0;
}

static int place_tensors(struct source *source, struct error *error)
{
    const struct graph *graph = source->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++)
        source->offset[i] = -1;
    source->offset[graph->input] = 0;
    source->memory = sample_elements(source, graph->input);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        int32_t y = node->output_count ? node->output[0] : -1;
        int r;

        if (!source->needed[i] || y < 0)
            continue;
        r = check_inputs(source, node, error);
        if (r < 0)
            return r;
        if (node->op == OP_RESHAPE) {
            source->offset[y] = source->offset[node->input[0]];
            continue;
        }
        source->offset[y] = source->memory;
        source->memory += sample_elements(source, y);
    }
    return 0;
}

static void write_head(const struct source *source)
{
    const struct graph *graph = source->graph;

    write_comment(source->file, source->model->setup.spec.name ? source->model->setup.spec.name
                                                               : "a trained model");
    fprintf(source->file,
            "/* Written by traind's export: a network with its weights, for one sample.\n"
            " *\n"
            " *     enum { MODEL_INPUT = %lld, MODEL_OUTPUT = %lld, MODEL_MEMORY = %lld };\n"
            " *     void model_run(const float *input, float *output, float *memory);\n"
            " *\n"
            " * The input is a sample as the training data have it, images with channels first.\n"
            " * The memory may hold anything; calls with memories of their own may run at once.\n"
            " * It needs C99 and libm. With -DMODEL_MAIN it is a program that reads samples as\n"
            " * text and prints a line of outputs for each. */\n"
            "#include <math.h>\n\n"
            "enum { MODEL_INPUT = %lld, MODEL_OUTPUT = %lld, MODEL_MEMORY = %lld };\n\n",
            (long long)sample_elements(source, graph->input),
            (long long)sample_elements(source, graph->output), (long long)source->memory,
            (long long)sample_elements(source, graph->input),
            (long long)sample_elements(source, graph->output), (long long)source->memory);
}

/* The group of number i: the channel of an image, else the last axis. */
static void write_input(const struct source *source)
{
    const struct graph_shape *x = &source->graph->tensors[source->graph->input].shape;
    long long pixels = x->rank == 4 ? (long long)(x->extent[2] * x->extent[3]) : 1,
              groups = source->model->groups;

    fputs("    for (int i = 0; i < MODEL_INPUT; i++)\n", source->file);
    if (groups)
        fprintf(source->file,
                "        memory[i] = (input[i] - input_mean_0[i / %lld %% %lld]) *\n"
                "                    input_factor_0[i / %lld %% %lld];\n",
                pixels, groups, pixels, groups);
    else
        fputs("        memory[i] = input[i];\n", source->file);
}

static void write_run(const struct source *source)
{
    FILE *file = source->file;

    fputs("\nvoid model_run(const float *input, float *output, float *memory);\n"
          "void model_run(const float *input, float *output, float *memory)\n{\n",
          file);
    write_input(source);
    for (int32_t i = 0; i < source->graph->node_count; i++)
        if (source->needed[i])
            write_call(source, i);
    fprintf(file,
            "    for (int i = 0; i < MODEL_OUTPUT; i++)\n        output[i] = memory[%lld + i]",
            (long long)source->offset[source->graph->output]);
    if (source->model->target_groups)
        fprintf(file, " / output_factor_0[i %% %lld] + output_mean_0[i %% %lld]",
                (long long)source->model->target_groups, (long long)source->model->target_groups);
    fputs(";\n}\n\n"
          "#ifdef MODEL_MAIN\n"
          "#include <stdio.h>\n\n"
          "int main(void)\n"
          "{\n"
          "    static float input[MODEL_INPUT], output[MODEL_OUTPUT], memory[MODEL_MEMORY];\n"
          "    int count = 0;\n\n"
          "    while (scanf(\"%f%*[, \\t\\n]\", &input[count]) == 1) {\n"
          "        if (++count < MODEL_INPUT)\n"
          "            continue;\n"
          "        count = 0;\n"
          "        model_run(input, output, memory);\n"
          "        for (int i = 0; i < MODEL_OUTPUT; i++)\n"
          "            printf(\"%.9g%c\", (double)output[i], i + 1 < MODEL_OUTPUT ? ' ' : '\\n');\n"
          "    }\n"
          "    return count != 0;\n"
          "}\n"
          "#endif\n",
          file);
}

int c_source_write(struct export_graph *model, FILE *file, struct error *error)
{
    const struct graph *graph = &model->graph;
    AUTO_FREE bool *needed = memory_zero((size_t)graph->node_count + 1);
    AUTO_FREE int64_t *offset = memory_zero(((size_t)graph->tensor_count + 1) * sizeof *offset);
    struct source source = {
        .model = model, .graph = graph, .file = file, .needed = needed, .offset = offset};
    int r;

    mark_needed(&source);
    r = check(&source, error);
    if (r < 0)
        return r;
    r = place_tensors(&source, error);
    if (r < 0)
        return r;
    write_head(&source);
    r = write_constants(&source, error);
    if (r < 0)
        return r;
    write_functions(&source);
    write_run(&source);
    return 0;
}
