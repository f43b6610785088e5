/* test_worker_add_norm.c: residuals are added and normalised by one operator where the device has
 * it, else by two, which a warning says. */
#include "worker/trainee/worker_add_norm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool lacks_fused_rms_norm(struct backend_device *device, const struct graph *graph,
                                 const struct graph_node *node, char *reason)
{
    (void)device;
    (void)graph;
    if (node->op == OP_ADD_RMS_NORM)
        snprintf(reason, 256, "it has no add_rms_norm");
    return node->op != OP_ADD_RMS_NORM;
}

static enum model_add_norm chosen(enum model_norm norm, enum model_add_norm asked,
                                  struct worker_warnings *warnings)
{
    static const struct backend backend = {.name = "small", .supports = lacks_fused_rms_norm};
    static struct worker_setup setup;

    setup = (struct worker_setup){.backend = &backend};
    setup.spec.model = (struct model_config){.kind = MODEL_CADUCEUS,
                                             .embedding = 16,
                                             .depth = 2,
                                             .states = 4,
                                             .kernel = 4,
                                             .expand = 2,
                                             .epsilon = 1e-5f,
                                             .norm = norm,
                                             .add_norm = asked};
    setup.model_data = (struct model_data){
        .type = TENSOR_INT32, .sample_shape = {9}, .rank = 1, .vocabulary = 6, .outputs = 2};
    worker_add_norm_choose(&setup);
    *warnings = setup.data_warnings;
    return setup.spec.model.add_norm;
}

static void test_choice(void **state)
{
    struct worker_warnings warnings;

    (void)state;
    assert_int_equal(chosen(MODEL_RMS_NORM, MODEL_ADD_NORM_AUTO, &warnings),
                     MODEL_ADD_NORM_UNFUSED);
    assert_int_equal(warnings.count, 1);
    assert_string_equal(warnings.text[0], "model.add_norm is unfused: it has no add_rms_norm");
    assert_int_equal(chosen(MODEL_LAYER_NORM, MODEL_ADD_NORM_AUTO, &warnings), MODEL_ADD_NORM_AUTO);
    assert_int_equal(warnings.count, 0);
    /* what is asked for stays; the plan then refuses it */
    assert_int_equal(chosen(MODEL_RMS_NORM, MODEL_ADD_NORM_FUSED, &warnings), MODEL_ADD_NORM_FUSED);
    assert_int_equal(warnings.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
