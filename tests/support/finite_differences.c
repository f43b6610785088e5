/* finite_differences.c: see finite_differences.h. For each tensor that has a gradient g, and for
 * directions v,
 *
 *     (L(x + h v) - L(x - h v)) / 2h  =  g . v  +  O(h^2)
 *
 * With entries of v of +1 or -1 drawn at random, g . v is about |g|, the Euclidean norm, which
 * therefore is the scale of errors. The forward part runs in float32: its loss is off by some 1e-7
 * of itself, hence the quotient by 1e-7 L / h = 2e-5 L at h = 0.005. |g| is 0.1 to 1 of the loss
 * for most cases here, so that this alone may reach 2e-4 of |g|; the third derivative adds h^2 / 6
 * of itself, 1e-4 of |g| for the sharpest curvatures (batch norm over few values). The tolerance of
 * 1e-3 leaves a factor of three; a missing factor, term or sign shows as 1e-2 to 1. */
#include "tests/support/finite_differences.h"

#include "base/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIRECTIONS = 4, VARIABLES_MAX = 24 };
const float gradients_step_width = 0.005f;
static const double tolerance = 1e-3;

const struct step_scalars gradients_scalars = {
    .step = 1, .batch = 1, .seed = 5, .learning_rate = 0.1f, .gradient_scale = 1};

/* A tensor on which the loss depends: its values, and the gradient of the loss with respect to
 * them. */
struct variable {
    const char *name;
    int32_t tensor; /* the parameter or the samples */
    bool is_input;
    int64_t elements;
    float step;                       /* the distance by which the values are moved */
    float *values, *moved, *gradient; /* 64-byte aligned */
};

float *gradients_allocate(int64_t elements)
{
    float *values = aligned_alloc(64, ((size_t)elements * sizeof(float) + 63) / 64 * 64);

    assert_non_null(values);
    return values;
}

static double loss_at(struct test_session *session, struct variable *variable, const float *values)
{
    struct step_metrics metrics;

    if (variable->is_input)
        test_session_input(session, variable->tensor, values);
    else
        test_session_write(session, variable->tensor, values);
    test_session_run(session, PROGRAM_FORWARD, &gradients_scalars);
    session->backend->program_read_metrics(session->program, &metrics);
    return metrics.last_loss;
}

/* Direction 0 is all ones; the others have random signs. */
static float direction_entry(int direction, int64_t index)
{
    struct philox draw =
        philox_draw((uint64_t)direction, philox_stream(PHILOX_TEST, 0), (uint64_t)index);

    return direction && (draw.word[0] & 1) ? -1.0f : 1.0f;
}

/* Compares the derivative along one direction; returns the error relative to |g|. */
static double compare_direction(struct test_session *session, struct variable *variable,
                                int direction)
{
    double loss[2], moved = 0, expected = 0, norm = 0;

    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < variable->elements; i++)
            variable->moved[i] = variable->values[i] + (side ? -variable->step : variable->step) *
                                                           direction_entry(direction, i);
        loss[side] = loss_at(session, variable, variable->moved);
    }
    for (int64_t i = 0; i < variable->elements; i++) {
        double g = (double)variable->gradient[i];

        expected += g * (double)direction_entry(direction, i);
        norm += g * g;
    }
    moved = (loss[0] - loss[1]) / (2 * (double)variable->step);
    return fabs(moved - expected) / fmax(sqrt(norm), 1e-6);
}

static void check_variable(const char *file, struct test_session *session,
                           struct variable *variable)
{
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        double error = compare_direction(session, variable, direction);

        if (!(error <= tolerance))
            fail_msg("%s: the gradient by %s is off by %g along direction %d", file, variable->name,
                     error, direction);
    }
    loss_at(session, variable, variable->values); /* restores it for the next variable */
}

void gradients_check_lengths(const char *name, const struct graph *graph, const struct dump *dump,
                             float *samples, const int32_t *lengths, const void *target, float step)
{
    const struct test_session_options options = {.threads = 2};
    struct test_session session;
    struct variable variables[VARIABLES_MAX];
    int count = 0;

    test_session_open(&session, graph, &options);
    test_session_initialize(&session, 1);
    for (int i = 0; dump && i < dump->count; i++)
        if (dump->tensors[i].name[0] == '0')
            test_session_write(&session, graph_find_tensor(graph, dump->tensors[i].name),
                               dump->tensors[i].values);
    test_session_input(&session, graph->input, samples);
    if (lengths)
        test_session_input(&session, graph->lengths, lengths);
    test_session_input(&session, graph->target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &gradients_scalars);
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        bool is_input = i == graph->input && graph->input_gradient >= 0;
        struct variable *v = &variables[count];

        if ((graph->tensors[i].role != TENSOR_PARAMETER || graph->tensors[i].frozen) && !is_input)
            continue;
        *v = (struct variable){
            .name = graph->tensors[i].name, .tensor = i, .is_input = is_input, .step = step};
        v->elements = graph_shape_elements(&graph->tensors[i].shape);
        v->values = gradients_allocate(v->elements);
        v->moved = gradients_allocate(v->elements);
        v->gradient = gradients_allocate(v->elements);
        if (is_input)
            memcpy(v->values, samples, (size_t)v->elements * sizeof(float));
        else
            test_session_read(&session, i, v->values);
        test_session_read(&session, is_input ? graph->input_gradient : graph_gradient_of(graph, i),
                          v->gradient);
        count++;
        assert_true(count <= VARIABLES_MAX);
    }
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
        check_variable(name, &session, &variables[i]);
    for (int i = 0; i < count; i++) {
        free(variables[i].values);
        free(variables[i].moved);
        free(variables[i].gradient);
    }
    test_session_close(&session);
}

void gradients_check(const char *name, const struct graph *graph, const struct dump *dump,
                     float *samples, const void *target)
{
    gradients_check_lengths(name, graph, dump, samples, NULL, target, gradients_step_width);
}
