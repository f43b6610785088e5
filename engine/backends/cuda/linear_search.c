/* linear_search.c: see linear_search.h. */
#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/linear_ways.h"
#include "engine/backends/cuda/small_linear.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FUSED_MAX = 8,      /* timed algorithms with fused operations */
    APART_MAX = 6,      /* and without them */
    ROWS_MAX = 1 << 16, /* the most rows that are measured: this many keep any device busy */
    /* One more whenever the launches of a way change: what was measured before no longer holds. */
    WAYS_VERSION = 2
};

static const char *const linear_way_names[] = {
    [LINEAR_SMALL] = "small", [LINEAR_FUSED] = "fused", [LINEAR_APART] = "apart"};
DEFINE_STRING_TABLE(linear_way, enum linear_way, linear_way_names)
static const char *const linear_head_names[] = {
    [HEAD_WHOLE] = "whole", [HEAD_LOSS] = "loss", [HEAD_APART] = "apart"};
DEFINE_STRING_TABLE(linear_head, enum linear_head, linear_head_names)

/* ---- what a node is about -------------------------------------------------------------------- */

/* Whether all parameters of the graph belong to linear layers. */
static bool parameters_are_linear(const struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count && node->phase == GRAPH_FORWARD; k++)
            if (node->input[k] >= 0 && graph->tensors[node->input[k]].role == TENSOR_PARAMETER &&
                node->op != OP_CAST && linear_pass(graph, node) == OP_COUNT)
                return false;
    }
    return true;
}

static bool layers_share(const struct backend_program *program)
{
    int layers = 0;

    for (int32_t i = 0; i < program->graph->node_count; i++)
        layers +=
            linear_pass(program->graph, &program->graph->nodes[i]) == OP_LINEAR_BACKWARD_WEIGHTS;
    return layers > 1;
}

/* The type in which our kernels read an operand, which is that before a cast. */
static enum tensor_type uncast_type(const struct backend_program *program, int32_t tensor)
{
    int32_t producer = program->graph->tensors[tensor].producer;

    while (producer >= 0 && program->graph->nodes[producer].op == OP_CAST) {
        tensor = program->graph->nodes[producer].input[0];
        producer = program->graph->tensors[tensor].producer;
    }
    return program_stored_type(program, tensor);
}

/* The type to which operands of products are cast, or would be. */
static enum tensor_type cast_type(const struct backend_program *program, int32_t tensor)
{
    enum tensor_type compute = program->graph->compute_type;
    int32_t producer = program->graph->tensors[tensor].producer;
    bool low = compute == TENSOR_BFLOAT16 || compute == TENSOR_FLOAT16;

    return low && producer >= 0 && program->graph->nodes[producer].op == OP_CAST
               ? compute
               : program_stored_type(program, tensor);
}

/* Describes the activation next to the node, and whether the tensor that it reads is stored. */
static void describe_activation(const struct backend_program *program, int32_t index,
                                struct linear_problem *problem)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    enum graph_op wanted = problem->pass == OP_LINEAR ? OP_ACTIVATION : OP_ACTIVATION_BACKWARD;
    int readers = 0;

    problem->activation = -1;
    if (problem->pass == OP_LINEAR_BACKWARD_WEIGHTS)
        return;
    for (int32_t i = graph_next_reader(graph, node->output[0], 0); i >= 0;
         i = graph_next_reader(graph, node->output[0], i + 1)) {
        readers++;
        if (graph->nodes[i].op == wanted && graph->nodes[i].input[0] == node->output[0] &&
            graph->nodes[i].phase == node->phase)
            problem->activation = (int)graph->nodes[i].attributes.activation;
    }
    problem->keeps_sum = problem->pass == OP_LINEAR && readers > 1;
    problem->rectified = linear_rectifier(program, index) >= 0;
}

struct linear_problem linear_describe(const struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    struct linear_problem problem = {.pass = linear_pass(graph, node),
                                     .compute = graph->compute_type,
                                     .result = program_stored_type(program, node->output[0]),
                                     .alone = parameters_are_linear(program),
                                     .shares = layers_share(program)};
    bool by_weights = problem.pass == OP_LINEAR_BACKWARD_WEIGHTS;
    const struct graph_tensor *weight =
        &graph->tensors[by_weights ? node->output[0] : node->input[1]];

    problem.outputs = weight->shape.extent[0];
    problem.inputs = weight->shape.extent[1];
    problem.rows = program_elements(program, node->input[0]) /
                   (problem.pass == OP_LINEAR_BACKWARD_DATA ? problem.outputs : problem.inputs);
    for (int k = 0; k < 2; k++) {
        problem.library[k] = cast_type(program, node->input[k]);
        problem.small[k] = uncast_type(program, node->input[k]);
    }
    problem.vector = problem.pass == OP_LINEAR ? node->input_count > 2 && node->input[2] >= 0
                     : by_weights              ? node->output_count > 1 && node->output[1] >= 0
                                               : false;
    problem.has_kernels = program->device->code_major >= 8 &&
                          problem.rows * problem.inputs <= INT32_MAX &&
                          problem.rows * problem.outputs <= INT32_MAX &&
                          problem.inputs * problem.outputs <= INT32_MAX;
    describe_activation(program, index, &problem);
    return problem;
}

/* Row-major [r, c] is column-major [c, r]: y[B,O] = x[B,I] weight[O,I]^T is computed as y^T[O,B] =
 * weight[O,I] x^T[I,B], and so on. */
struct product_shape linear_product_shape(const struct linear_problem *problem)
{
    bool forward = problem->pass == OP_LINEAR;
    bool by_weights = problem->pass == OP_LINEAR_BACKWARD_WEIGHTS;

    return (struct product_shape){.operands = problem->library[0],
                                  .result = problem->result,
                                  .tf32 = problem->compute == TENSOR_TF32,
                                  .m = forward ? problem->outputs : problem->inputs,
                                  .n = by_weights ? problem->outputs : problem->rows,
                                  .k = by_weights ? problem->rows
                                       : forward  ? problem->inputs
                                                  : problem->outputs,
                                  .transpose_a = forward,
                                  .transpose_b = by_weights};
}

static enum product_epilogue epilogue_of(const struct linear_problem *problem)
{
    if (problem->pass == OP_LINEAR && problem->vector)
        return problem->rectified ? PRODUCT_BIAS_RECTIFIED : PRODUCT_BIAS;
    if (problem->pass == OP_LINEAR_BACKWARD_WEIGHTS && problem->vector)
        return PRODUCT_COLUMN_SUMS;
    return problem->rectified ? PRODUCT_RECTIFIED : PRODUCT_ALONE;
}

/* ---- the search ------------------------------------------------------------------------------ */

int linear_search_open(struct backend_device *device, struct error *error)
{
    char path[PATH_MAX];
    bool kept = choices_name_file(device->cache_folder, "products", device->model,
                                  cublaslt_version(device->cublaslt), path);

    if (!device->products)
        return choices_open(device->stream, kept ? path : NULL, &device->products, error);
    if (kept)
        choices_keep(device->products, path);
    return 0;
}

void linear_search_close(struct backend_device *device)
{
    choices_close(device->products);
}

/* The problem that is measured instead. */
static struct linear_problem measured_problem(const struct linear_problem *problem)
{
    struct linear_problem measured = *problem;

    measured.rows = 1;
    while (2 * measured.rows <= problem->rows && 2 * measured.rows <= ROWS_MAX)
        measured.rows *= 2;
    return measured;
}

static void write_key(const struct linear_problem *p, char key[CHOICES_KEY_MAX])
{
    static const char *const passes[] = {[OP_LINEAR] = "forward",
                                         [OP_LINEAR_BACKWARD_DATA] = "data",
                                         [OP_LINEAR_BACKWARD_WEIGHTS] = "weights"};

    snprintf(key, CHOICES_KEY_MAX,
             "%d,%s,%s,%s:%s/%s:%s>%s%s%s%s%s%s%s,a%d,%" PRId64 ",%" PRId64 ",%" PRId64,
             WAYS_VERSION, passes[p->pass], tensor_type_to_string(p->compute),
             tensor_type_to_string(p->library[0]), tensor_type_to_string(p->library[1]),
             tensor_type_to_string(p->small[0]), tensor_type_to_string(p->small[1]),
             tensor_type_to_string(p->result), p->vector ? ",bias" : "",
             p->rectified ? ",relu" : "", p->keeps_sum ? ",kept" : "", p->alone ? ",alone" : "",
             p->shares ? ",shared" : "", p->has_kernels ? "" : ",library", p->activation, p->rows,
             p->inputs, p->outputs);
}

static bool parse_choice(const char *text, struct linear_choice *choice)
{
    char name[8];
    int way;

    choice->algorithm[0] = '\0';
    if (sscanf(text, "%7s %lf %159s", name, &choice->microseconds, choice->algorithm) < 2)
        return false;
    way = linear_way_from_string(name);
    if (way < 0)
        return false;
    choice->way = (enum linear_way)way;
    return true;
}

/* Makes the ways: our kernel, and what cuBLASLt proposes. Returns how many. */
static int make_ways(struct backend_device *device, const struct linear_problem *problem,
                     const struct linear_memory *memory, struct linear_run *runs)
{
    const struct linear_run any = {.problem = problem, .memory = memory, .stream = device->stream};
    struct product_shape shape = linear_product_shape(problem);
    struct product *products[FUSED_MAX > APART_MAX ? FUSED_MAX : APART_MAX];
    int count = 0, made;

    if (problem->has_kernels) {
        runs[count] = any;
        runs[count++].way = LINEAR_SMALL;
    }
    for (int way = LINEAR_FUSED; way <= LINEAR_APART; way++) {
        shape.epilogue = way == LINEAR_FUSED ? epilogue_of(problem) : PRODUCT_ALONE;
        if (way == LINEAR_FUSED && shape.epilogue == PRODUCT_ALONE)
            continue;
        made = product_make_several(device->cublaslt, &shape, products,
                                    way == LINEAR_FUSED ? FUSED_MAX : APART_MAX);
        for (int i = 0; i < made; i++) {
            runs[count] = any;
            runs[count].way = (enum linear_way)way;
            runs[count++].product = products[i];
        }
    }
    return count;
}

/* Measures, and writes the result as text. False: there is no memory, or no way ran. */
static bool measure(struct backend_device *device, const struct linear_problem *problem,
                    char text[CHOICES_TEXT_MAX])
{
    struct linear_memory memory;
    struct linear_run runs[1 + FUSED_MAX + APART_MAX];
    void *contexts[1 + FUSED_MAX + APART_MAX];
    double microseconds[1 + FUSED_MAX + APART_MAX], saved = problem->shares ? 0.5 : 1.0;
    char algorithm[PRODUCT_ALGORITHM_MAX] = "";
    int count, best;

    if (!linear_take_memory(device, problem, &memory))
        return false;
    count = make_ways(device, problem, &memory, runs);
    for (int i = 0; i < count; i++)
        contexts[i] = &runs[i];
    best = choices_fastest(device->products, linear_launch_way, contexts, count, INFINITY,
                           microseconds);
    /* one launch computed two layers */
    if (count > 0 && runs[0].way == LINEAR_SMALL && problem->pass == OP_LINEAR_BACKWARD_WEIGHTS &&
        isfinite(microseconds[0])) {
        microseconds[0] *= saved;
        if (best >= 0 && microseconds[0] < microseconds[best])
            best = 0;
    }
    if (best >= 0 && runs[best].product)
        product_algorithm(runs[best].product, algorithm);
    if (best >= 0)
        snprintf(text, CHOICES_TEXT_MAX, "%s %.3f%s%s", linear_way_to_string(runs[best].way),
                 microseconds[best], *algorithm ? " " : "", algorithm);
    for (int i = 0; i < count; i++)
        product_free(runs[i].product);
    return best >= 0;
}

/* Whether the choice for another number of rows works for this problem. */
static bool holds(const struct backend_device *device, const struct linear_problem *problem,
                  const struct linear_choice *choice)
{
    struct product_shape shape = linear_product_shape(problem);
    struct product *product;
    struct error ignored;

    if (choice->way == LINEAR_SMALL)
        return problem->has_kernels;
    shape.epilogue = choice->way == LINEAR_FUSED ? epilogue_of(problem) : PRODUCT_ALONE;
    if (product_make_known(device->cublaslt, &shape, choice->algorithm, &product, &ignored) < 0)
        return false;
    product_free(product);
    return true;
}

/* Finds the choice for the measured problem. If there is none that can be read, it measures now. */
static bool find_choice(struct backend_device *device, const struct linear_problem *measured,
                        struct linear_choice *choice)
{
    char key[CHOICES_KEY_MAX], text[CHOICES_TEXT_MAX];
    const char *known;

    write_key(measured, key);
    known = choices_find(device->products, key);
    if (known && parse_choice(known, choice))
        return true;
    known = measure(device, measured, text) ? choices_add(device->products, key, text) : NULL;
    return known && parse_choice(known, choice);
}

int linear_search(struct backend_device *device, const struct linear_problem *problem,
                  struct linear_choice *choice, struct error *error)
{
    const struct linear_problem measured = measured_problem(problem);
    int r = linear_search_open(device, error);

    if (r < 0 || (find_choice(device, &measured, choice) && holds(device, problem, choice)) ||
        (find_choice(device, problem, choice) && holds(device, problem, choice)))
        return r;
    *choice = (struct linear_choice){.way = epilogue_of(problem) == PRODUCT_ALONE ? LINEAR_APART
                                                                                  : LINEAR_FUSED,
                                     .microseconds = INFINITY};
    return 0;
}

/* ---- the last layer -------------------------------------------------------------------------- */

struct head_run {
    /* data is NULL: there is no gradient by the samples */
    const struct linear_problem *forward, *data;
    const struct linear_memory *memory;
    cudaStream_t stream;
    enum linear_head head;
};

static int launch_head(void *context, struct error *error)
{
    const struct head_run *run = context;
    const struct linear_problem *p = run->forward;
    const struct linear_memory *m = run->memory;
    float *logits = (float *)m->result, *dlogits = (float *)m->aside;
    float *log_sum_exp = (float *)m->scratch;
    char *partial = m->scratch + CUDA_PRODUCT_SCRATCH / 2;
    int32_t *labels = (int32_t *)(m->scratch + CUDA_PRODUCT_SCRATCH / 4);
    struct cuda_small_head head = {.x = small_matrix(linear_array(m->operand[0], p->small[0]),
                                                     linear_elements(p, 0), p->rows, true),
                                   .weight = small_matrix(linear_array(m->operand[1], p->small[1]),
                                                          linear_elements(p, 1), p->outputs, true),
                                   .bias = p->vector ? (float *)m->vector : NULL,
                                   .logits = logits,
                                   .log_sum_exp = log_sum_exp,
                                   .dlogits = dlogits,
                                   .label = labels,
                                   .partial = partial,
                                   .activation = -1};
    cudaError_t status;

    if (run->head == HEAD_WHOLE) {
        head.dx = linear_array(m->cast, run->data->result);
        head.activation = run->data->activation;
        if (head.activation >= 0)
            head.saved = linear_array(m->operand[0], p->small[0]);
    }
    if (run->head == HEAD_APART) {
        const struct cuda_cross_entropy loss = {.control = m->control,
                                                .scalars = m->scalars,
                                                .logits = logits,
                                                .label = labels,
                                                .log_sum_exp = log_sum_exp,
                                                .samples = p->rows,
                                                .rows = p->rows,
                                                .classes = p->outputs};

        status = cuda_cross_entropy(&loss, partial, run->stream);
        if (status == cudaSuccess)
            status = cuda_cross_entropy_backward(&loss, dlogits, run->stream);
    } else {
        status = cuda_small_head((int)p->compute, m->control, m->scalars, &head, run->stream);
    }
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a last layer that is timed");
}

/* Measures the microseconds of each way, with the launches that it needs besides. False: there is
 * no memory. */
static bool measure_heads(struct backend_device *device, const struct linear_problem *forward,
                          const struct linear_problem *data, double microseconds[HEAD_APART + 1],
                          struct error *error)
{
    struct linear_choice layer, gradient = {.microseconds = 0};
    struct linear_memory memory;
    struct head_run runs[HEAD_APART + 1];
    void *contexts[HEAD_APART + 1];

    if (linear_search(device, forward, &layer, error) < 0 ||
        (data && linear_search(device, data, &gradient, error) < 0) ||
        !linear_take_memory(device, forward, &memory))
        return false;
    for (int i = HEAD_WHOLE; i <= HEAD_APART; i++) {
        runs[i] = (struct head_run){forward, data, &memory, device->stream, (enum linear_head)i};
        if (!data && i == HEAD_WHOLE)
            runs[i].head = HEAD_LOSS;
        contexts[i] = &runs[i];
    }
    if (choices_fastest(device->products, launch_head, contexts, HEAD_APART + 1, INFINITY,
                        microseconds) < 0)
        return false;
    microseconds[HEAD_LOSS] += gradient.microseconds;
    microseconds[HEAD_APART] += layer.microseconds + gradient.microseconds;
    return true;
}

int linear_search_head(struct backend_device *device, const struct linear_problem *forward,
                       const struct linear_problem *data, enum linear_head *head,
                       struct error *error)
{
    struct linear_problem measured = measured_problem(forward), gradient;
    char key[CHOICES_KEY_MAX], problem[CHOICES_KEY_MAX];
    double microseconds[HEAD_APART + 1];
    const char *known;
    int found, r = linear_search_open(device, error);

    *head = HEAD_APART;
    if (r < 0)
        return r;
    if (data)
        gradient = measured_problem(data);
    write_key(&measured, problem);
    snprintf(key, sizeof key, "head%s%d,%.150s", data ? ",data" : "", data ? data->activation : -1,
             problem);
    known = choices_find(device->products, key);
    if (!known && measure_heads(device, &measured, data ? &gradient : NULL, microseconds, error)) {
        int best = HEAD_WHOLE;

        for (int i = HEAD_LOSS; i <= HEAD_APART; i++)
            if (microseconds[i] < microseconds[best])
                best = i;
        known = choices_add(device->products, key, linear_head_to_string((enum linear_head)best));
    }
    found = known ? linear_head_from_string(known) : -1;
    if (found >= 0)
        *head = (enum linear_head)found;
    return 0;
}
