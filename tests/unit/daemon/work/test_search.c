/* test_search.c: what a search is told, and what it adds to that and to its trials. */
#include "daemon/work/search.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct json_object *parse(const char *text)
{
    struct json_object *object = NULL;

    if (json_parse(text, strlen(text), &object, NULL) < 0)
        fail_msg("%s", text);
    return object;
}

static void bad_searches_are_refused(void **state)
{
    static const struct {
        const char *members, *words;
    } cases[] = {
        {"\"trials\":2", "search.metric: it must name the metric"},
        {"\"metric\":\"a\"", "search.trials: how many"},
        {"\"metric\":\"a\",\"trials\":0", "search.trials"},
        {"\"metric\":\"a\",\"trials\":1e9", "search.trials"},
        {"\"metric\":\"a\",\"trials\":2,\"reduction_factor\":1", "from 2 to 1000"},
        {"\"metric\":\"a\",\"trials\":2,\"max_epochs\":4,\"grace_period\":4", "below max_epochs"},
        {"\"metric\":\"a\",\"trials\":2,\"max_epochs\":4,\"max_steps\":4", "either"},
        {"\"metric\":\"a\",\"trials\":2,\"mode\":\"up\"", "search.mode: it is min"},
        {"\"metric\":\"a\",\"trials\":2,\"sampler\":\"bayes\"", "random, grid, sobol, tpe"},
        {"\"metric\":\"a\",\"trials\":2,\"algorithm\":7", "asha"},
        {"\"metric\":\"a\",\"trials\":2,\"interval\":1", "asha has no such key"},
        {"\"metric\":\"a\",\"trials\":2,\"grace\":1", "there is no such key; a search has"},
        {"\"metric\":\"a\",\"trials\":2,\"sampler\":\"grid\"", "leave it out"},
        {"\"metric\":\"a\",\"trials\":2,\"seed\":-1", "search.seed"},
        {"\"metric\":\"a\",\"trials\":2,\"scramble\":1", "search.scramble"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *object = NULL;
        struct job_spec_fault fault = {0};
        struct search search;
        struct error error = {0};
        char text[256];

        snprintf(text, sizeof text, "{%s}", cases[i].members);
        object = parse(text);
        assert_int_equal(search_read(object, &search, &fault, &error), -EINVAL);
        if (!strstr(error.text, cases[i].words))
            fail_msg("%s: %s", text, error.text);
        assert_true(strncmp(fault.path, "sweep.search", 12) == 0);
    }
}

#define NATIVE                                                                               \
    "{\"model\":{\"name\":\"mlp\"},\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"x\"}," \
    "\"validation_fraction\":0.1},\"train\":{%s}%s}"

static int complete(const char *search_text, const char *spec_text, struct json_object **search,
                    struct json_object **spec, struct error *error)
{
    json_object_put(*search);
    json_object_put(*spec);
    *search = parse(search_text);
    *spec = parse(spec_text);
    return search_complete(*search, *spec, json_get_int(*search, "trials", 0), NULL, error);
}

static void native_trials_complete_a_search(void **state)
{
    JSON_AUTO struct json_object *search = NULL, *spec = NULL;
    struct error error = {0};
    char text[512];

    (void)state;
    snprintf(text, sizeof text, NATIVE, "\"epochs\":9", "");
    assert_int_equal(
        complete("{\"metric\":\"validation_loss\",\"trials\":2}", text, &search, &spec, &error), 0);
    assert_string_equal(json_get_string(search, "mode", ""), "min");
    assert_int_equal(json_get_int(search, "max_epochs", 0), 9);
    assert_string_equal(json_get_string(json_get(spec, "checkpoint"), "best", ""),
                        "validation_loss");
    snprintf(text, sizeof text, NATIVE, "", "");
    assert_int_equal(complete("{\"metric\":\"validation_accuracy\",\"trials\":2,\"max_steps\":60,"
                              "\"grace_period\":5}",
                              text, &search, &spec, &error),
                     0);
    assert_string_equal(json_get_string(search, "mode", ""), "max");
    assert_int_equal(json_get_int(json_get(spec, "train"), "max_steps", 0), 60);
    assert_string_equal(json_get_string(json_get(spec, "train"), "evaluate_every", ""), "5 steps");
    assert_int_equal(
        complete("{\"metric\":\"validation_acuracy\",\"trials\":2}", text, &search, &spec, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "search.metric"));
    assert_non_null(strstr(error.text, "validation_accuracy")); /* the nearest */
    snprintf(text, sizeof text, NATIVE, "\"epochs\":9", "");
    assert_int_equal(complete("{\"metric\":\"validation_loss\",\"trials\":2,\"max_epochs\":8}",
                              text, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "train.epochs is 9"));
    snprintf(text, sizeof text, NATIVE, "", ",\"checkpoint\":{\"best\":\"validation_accuracy\"}");
    assert_int_equal(
        complete("{\"metric\":\"validation_loss\",\"trials\":2}", text, &search, &spec, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "checkpoint.best"));
}

static void commands_say_more(void **state)
{
    static const char plain[] = "{\"command\":[\"x\"]}";
    static const char saves[] = "{\"command\":[\"x\"],\"preemptible\":true}";
    JSON_AUTO struct json_object *search = NULL, *spec = NULL;
    struct error error = {0};

    (void)state;
    assert_int_equal(complete("{\"metric\":\"a\",\"trials\":2}", plain, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "search.mode"));
    assert_int_equal(
        complete("{\"metric\":\"a\",\"trials\":2,\"mode\":\"min\"}", plain, &search, &spec, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "max_epochs"));
    assert_int_equal(complete("{\"metric\":\"a\",\"trials\":2,\"mode\":\"min\",\"max_steps\":9,"
                              "\"algorithm\":\"successive_halving\"}",
                              plain, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "preemptible"));
    assert_int_equal(complete("{\"metric\":\"a\",\"trials\":2,\"mode\":\"min\",\"max_steps\":9,"
                              "\"algorithm\":\"successive_halving\"}",
                              saves, &search, &spec, &error),
                     0);
    assert_true(search_trials_pause(spec));
}

static void results_are_bounded(void **state)
{
    static const char saves[] = "{\"command\":[\"x\"],\"preemptible\":true}";
#define LONG "\"metric\":\"a\",\"mode\":\"min\",\"max_steps\":9991,\"trials\":2000"
    JSON_AUTO struct json_object *search = NULL, *spec = NULL;
    struct search unknown = {.algorithm = SEARCH_MEDIAN, .interval = 1, .trials = 2000};
    struct error error = {0};
    char text[512];

    (void)state;
    assert_int_equal(complete("{\"algorithm\":\"pbt\",\"space\":{\"environment.Q\":[1,2]}," LONG
                              "}",
                              saves, &search, &spec, &error),
                     0);
    assert_int_equal(json_get_int(search, "interval", 0), 200);
    assert_int_equal(complete("{\"algorithm\":\"none\",\"interval\":199," LONG "}", saves, &search,
                              &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "an interval of 200 or more"));
    assert_int_equal(complete("{\"algorithm\":\"none\",\"interval\":200," LONG "}", saves, &search,
                              &spec, &error),
                     0);
    assert_int_equal(complete("{\"algorithm\":\"none\"," LONG "}", saves, &search, &spec, &error),
                     0);
    assert_int_equal(json_get_int(search, "interval", 0), 200);
    assert_int_equal(complete("{\"metric\":\"a\",\"mode\":\"min\",\"max_steps\":1000000,"
                              "\"trials\":10000}",
                              saves, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "search.grace_period"));
    snprintf(text, sizeof text, NATIVE, "\"epochs\":1000", "");
    assert_int_equal(complete("{\"algorithm\":\"median\",\"metric\":\"validation_loss\","
                              "\"trials\":1000}",
                              text, &search, &spec, &error),
                     0);
    assert_int_equal(json_get_int(search, "interval", 0), 10);
    assert_int_equal(complete("{\"algorithm\":\"none\",\"metric\":\"validation_loss\","
                              "\"trials\":1000,\"max_steps\":10000}",
                              "{\"model\":{\"name\":\"mlp\"},\"data\":{\"train\":{\"format\":"
                              "\"csv\",\"path\":\"x\"},\"validation_fraction\":0.1}}",
                              &search, &spec, &error),
                     0);
    assert_string_equal(json_get_string(json_get(spec, "train"), "evaluate_every", ""),
                        "100 steps");
    assert_int_equal(search_rungs(&unknown), 50);
#undef LONG
}

/* So few trials stay below SEARCH_RESULTS_MAX, but not below SEARCH_RUNGS_MAX each. */
static void rungs_reach_the_end(void **state)
{
    static const char plain[] = "{\"command\":[\"x\"],\"preemptible\":true}";
#define LONG "\"metric\":\"a\",\"mode\":\"max\",\"trials\":2,\"max_steps\":"
    static const struct {
        const char *text;
        int64_t interval;
        uint32_t rungs;
        double most;
    } cases[] = {
        {"{\"algorithm\":\"none\"," LONG "10000}", 0, 10000, 10000},
        {"{\"algorithm\":\"none\"," LONG "10001}", 2, 5001, 10001},
        {"{\"algorithm\":\"median\"," LONG "40000}", 4, 10000, 40000},
        {"{\"algorithm\":\"pbt\",\"space\":{\"environment.Q\":[1,2]}," LONG "1000000}", 100, 10000,
         1000000},
        {"{\"algorithm\":\"median\",\"interval\":3," LONG "40000}", -3, 0, 0},
        {"{\"algorithm\":\"none\",\"interval\":4," LONG "40000}", 4, 10000, 40000},
        {"{\"algorithm\":\"asha\",\"reduction_factor\":2," LONG "1000000000000}", 0, 41, 1e12},
    };
    JSON_AUTO struct json_object *object = NULL, *spec = NULL;
    struct error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int result = complete(cases[i].text, plain, &object, &spec, &error);
        struct search search;

        if (cases[i].interval < 0) {
            assert_int_equal(result, -EINVAL);
            assert_non_null(strstr(
                error.text, "search.interval: a trial would have 13334 rungs, of 10000 at most"));
            assert_non_null(strstr(error.text, "an interval of 4 or more"));
            continue;
        }
        assert_int_equal(result, 0);
        assert_int_equal(json_get_int(object, "interval", 0), cases[i].interval);
        assert_int_equal(search_read(object, &search, NULL, &error), 0);
        assert_int_equal(search_rungs(&search), cases[i].rungs);
        assert_true(search_rung_at(&search, cases[i].rungs - 1) == cases[i].most);
    }
#undef LONG
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_searches_are_refused),
        cmocka_unit_test(native_trials_complete_a_search),
        cmocka_unit_test(commands_say_more),
        cmocka_unit_test(results_are_bounded),
        cmocka_unit_test(rungs_reach_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
