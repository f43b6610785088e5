/* test_advice_text.c: the sentences of advice, where numbers decide how they are written. */
#include "worker/trainee/advice_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct measurement base = {.batch = 10, .step = 0.001, .device = "cpu"};

/* What is said of a checkpoint every `steps` steps, of 10 ms each. */
static const char *checkpoint_result(int64_t steps)
{
    static char text[ADVICE_TEXT_BYTES];
    struct measured_parts parts = {.costs = {.checkpoint = 1}};
    /* now with a checkpoint every ten samples */
    struct advice_facts facts = {.base = &base, .parts = &parts, .cost = {.all = 0.1}};
    struct advice_option option = {.kind = ADVICE_CHECKPOINT,
                                   .rhythm = {.epoch_samples = 1e9,
                                              .step_samples = 10,
                                              .run_samples = 1e9,
                                              .evaluate_epochs = 1,
                                              .checkpoint_steps = steps}};

    return advice_result(&facts, &option, &base, text);
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void test_what_a_crash_costs(void **state)
{
    (void)state;
    assert_says(checkpoint_result(50), "the steps of 500.0 ms at most");
    assert_says(checkpoint_result(2000), "the steps of 20.0 s at most");
    assert_says(checkpoint_result(200000), "the steps of 33 min 20 s at most");
}

/* Evaluations by epochs write checkpoints of the best weights, too. */
static void test_what_evaluations_take(void **state)
{
    char text[ADVICE_TEXT_BYTES];
    struct measured_parts parts = {.costs = {.evaluation = 0.1, .checkpoint = 1, .best_share = 1}};
    struct advice_facts facts = {.base = &base,
                                 .parts = &parts,
                                 .rhythm = {.epoch_samples = 1000,
                                            .step_samples = 10,
                                            .run_samples = 1e6,
                                            .evaluate_epochs = 1,
                                            .checkpoint_epochs = 10}};
    const struct advice_option option = {.kind = ADVICE_EVALUATE, .rhythm = facts.rhythm};
    struct advice_costs costs = parts.costs;

    (void)state;
    costs.step = base.step;
    facts.cost = advice_cost_of(&costs, &facts.rhythm); /* 1 + 0.1 + 0.9 + 0.1 for an epoch */
    facts.time.part[ADVICE_EVALUATION] = facts.cost.evaluation / facts.cost.all;
    assert_says(advice_cause(&facts, &option, &base, text), "evaluated every epoch. That takes");
    assert_says(text, "100.0 ms, as long as training on 100 samples, and 48% of the time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_a_crash_costs),
                                       cmocka_unit_test(test_what_evaluations_take)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
