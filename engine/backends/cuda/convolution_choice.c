/* convolution_choice.c: see convolution_choice.h. */
#include "engine/backends/cuda/convolution_choice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct convolution_problem describe(const struct backend_program *program,
                                           const struct graph_node *node)
{
    const struct graph *graph = program->graph;
    const struct conv_attributes *conv = &node->attributes.conv;
    struct places at = places_of(node);
    struct convolution_problem problem = {.pass = node->op == OP_CONV2D ? CONVOLUTION_FORWARD
                                                  : node->op == OP_CONV2D_BACKWARD_DATA
                                                      ? CONVOLUTION_DATA
                                                      : CONVOLUTION_WEIGHTS,
                                          .type = program_stored_type(program, node->input[0]),
                                          .groups = conv->groups};

    problem.result = problem.type;
    problem.tf32 = graph->compute_type == TENSOR_TF32;
    problem.nondeterministic = graph->nondeterministic;
    for (int i = 0; i < 4; i++) {
        problem.x[i] = graph->tensors[at.x].shape.extent[i];
        problem.weight[i] = graph->tensors[at.weight].shape.extent[i];
        problem.y[i] = graph->tensors[at.y].shape.extent[i];
    }
    for (int i = 0; i < 2; i++) {
        problem.stride[i] = conv->stride[i];
        problem.padding[i] = conv->padding[i];
        problem.dilation[i] = conv->dilation[i];
    }
    return problem;
}

/* Chooses a plan. It includes the bias if a plan that needs no compilation does that (float32), but
 * not if there is a pass behind it in any case (`behind`). -ERROR_SLOWER, without a sentence: no
 * plan takes less than `limit`. */
static int choose_plan(struct backend_program *program, const struct graph_node *node, bool behind,
                       double limit, struct convolution *convolution, struct error *error)
{
    struct convolution_problem problem = describe(program, node);
    bool bias = node->op == OP_CONV2D && places_of(node).bias >= 0;
    int r = -ERROR_UNSUPPORTED;

    if (bias && !behind) {
        problem.bias = true;
        r = convolution_search_plan(program->device->search, &problem, false, limit,
                                    &convolution->graph, &convolution->plan, error);
        problem.bias = false;
    }
    if (r == -ERROR_UNSUPPORTED) {
        convolution->adds_bias = bias;
        r = convolution_search_plan(program->device->search, &problem, true, limit,
                                    &convolution->graph, &convolution->plan, error);
    }
    return r < 0 && r != -ERROR_SLOWER ? error_prefix(error, "%s", node->name) : r;
}

static bool time_plan(struct backend_program *program, const struct convolution_problem *problem,
                      struct convolution_plan *plan, double *microseconds)
{
    struct convolution_operands operands;
    struct error ignored;

    return convolution_search_operands(program->device->search, problem, plan->workspace_bytes,
                                       &operands) &&
           convolution_plan_time(plan, &operands, program->device->stream, OWN_RUNS, microseconds,
                                 &ignored) == 0;
}

/* Chooses the fastest among our kernels `ways`, plans for more channels and cuDNN's plans. If a
 * plan is the fastest, makes it. BY_PLAN with `is_measured` false: they could not be compared. */
static int compare_ways(struct backend_program *program, const struct graph_node *node, bool behind,
                        const enum convolution_way *ways, int count,
                        struct convolution *convolution, bool *is_measured, struct error *error)
{
    const struct convolution_problem problem = describe(program, node);
    const struct convolution_problem measured = convolution_search_measured(&problem), *at;
    struct convolution_search *search = program->device->search;
    char key[CHOICES_KEY_MAX];
    enum convolution_way way;
    double own = INFINITY, plan;
    bool is_known;
    int r;

    convolution_search_key(&measured, key);
    is_known = choices_find(convolution_search_choices(search), key);
    at = is_known ? &problem : &measured;
    way = own_fastest(program, node, ways, count, at, &own);
    if (way != BY_PLAN && convolution_problem_is_risky(&problem)) {
        convolution->way = way;
        *is_measured = true;
        return 0;
    }
    for (int f = 0; f < CONVOLUTION_FILLINGS; f++)
        if (convolution_padded_is_possible(at, (enum convolution_filling)f) &&
            convolution_padded_time(search, at, (enum convolution_filling)f,
                                    program->device->stream, &plan) &&
            plan < own) {
            way = (enum convolution_way)(BY_PADDED + f);
            own = plan;
        }
    r = choose_plan(program, node, behind, own, convolution, error);
    convolution->way = way;
    *is_measured = way != BY_PLAN;
    if (r < 0 && way != BY_PLAN)
        return 0;
    if (r < 0 || way == BY_PLAN)
        return r;
    if (!is_known) { /* here the plan took less than the limit */
        convolution->way = BY_PLAN;
    } else {
        *is_measured = time_plan(program, &problem, &convolution->plan, &plan);
        convolution->way = *is_measured && own <= plan ? way : BY_PLAN;
    }
    return 0;
}

static bool is_among(int way, const enum convolution_way *ways, int count)
{
    bool found = way == BY_PLAN || convolution_way_is_padded(way);

    for (int i = 0; i < count; i++)
        found |= (int)ways[i] == way;
    return found;
}

/* Makes a plan for more channels. If there is none after all, it makes one for those that there
 * are. */
static int choose_padded(struct backend_program *program, const struct graph_node *node,
                         bool behind, struct convolution *convolution, struct error *error)
{
    const struct convolution_problem problem = describe(program, node);

    convolution->adds_bias = node->op == OP_CONV2D && places_of(node).bias >= 0;
    if (convolution_padded_prepare(program->device->search, &problem,
                                   (enum convolution_filling)(convolution->way - BY_PADDED),
                                   &convolution->padded, error) == 0)
        return 0;
    convolution->way = BY_PLAN;
    convolution->adds_bias = false;
    return choose_plan(program, node, behind, INFINITY, convolution, error);
}

int convolution_choose_way(struct backend_program *program, const struct graph_node *node,
                           bool behind, struct convolution *convolution, struct error *error)
{
    const struct convolution_problem problem = describe(program, node);
    const struct convolution_problem measured = convolution_search_measured(&problem);
    struct choices *choices = convolution_search_choices(program->device->search);
    enum convolution_way ways[CONVOLUTION_WAYS];
    int count = own_ways(program, node, ways), r, way;
    char key[CHOICES_KEY_MAX], described[CHOICES_KEY_MAX];
    const char *known;
    bool is_measured = false, has_others = count > 0 ||
                                           convolution_padded_is_possible(&problem, FILL_CHUNKS) ||
                                           convolution_padded_is_possible(&problem, FILL_POWERS);

    convolution_search_key(&measured, described);
    snprintf(key, sizeof key, "way,%.180s", described);
    known = choices_find(choices, key);
    way = known ? convolution_way_from_string(known) : -1;
    if (has_others && !is_among(way, ways, count)) {
        r = compare_ways(program, node, behind, ways, count, convolution, &is_measured, error);
        known = r == 0 && is_measured
                    ? choices_add(choices, key, convolution_way_to_string(convolution->way))
                    : NULL;
        /* if another process has measured it meanwhile, its result counts */
        way = known ? convolution_way_from_string(known) : -1;
        way = is_among(way, ways, count) ? way : (int)convolution->way;
        if (r == 0 && way == BY_PLAN && !convolution->graph)
            r = choose_plan(program, node, behind, INFINITY, convolution, error);
    } else {
        way = has_others ? way : BY_PLAN;
        r = way == BY_PLAN ? choose_plan(program, node, behind, INFINITY, convolution, error) : 0;
    }
    convolution->way = (enum convolution_way)way;
    if (r < 0 || way == BY_PLAN)
        return r;
    convolution->adds_bias = false;
    convolution_plan_free(&convolution->plan);
    convolution_graph_free(convolution->graph);
    convolution->graph = NULL;
    return convolution_way_is_padded(way) ? choose_padded(program, node, behind, convolution, error)
                                          : 0;
}
