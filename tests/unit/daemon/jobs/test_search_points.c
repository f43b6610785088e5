/* test_search_points.c: which trials a sampler that learns looks at. */
#include "daemon/jobs/search_points.h"
#include "daemon/work/sweep_points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { GOOD = 25, OLD = 4000, NEW = 1000, ENDED = GOOD + OLD + NEW };

static const char search_text[] =
    "{\"search\": {\"space\": {\"environment.X\": [\"old\", \"new\"]}, \"algorithm\": \"none\","
    " \"sampler\": \"tpe\", \"metric\": \"loss\", \"mode\": \"min\", \"max_steps\": 1,"
    " \"trials\": 6000, \"seed\": 5}}";

static struct json_object *parse(const char *text)
{
    struct json_object *object = NULL;

    assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
    return object;
}

/* Trials of before: good ones of both values, then bad ones of one value, then of the other. */
static void add_trials(struct search_run *run)
{
    for (uint32_t i = 0; i < ENDED; i++) {
        bool is_new = i < GOOD ? i % 2 : i >= GOOD + OLD;
        const struct search_result result = {
            .trial = i, .resource = 1, .value = i < GOOD ? 0.5 : 1};

        run->table.trials[i].exists = run->table.trials[i].ended = run->table.trials[i].done = true;
        run->chosen[i] =
            parse(is_new ? "{\"environment.X\": \"new\"}" : "{\"environment.X\": \"old\"}");
        search_table_add(&run->table, &result);
    }
}

/* Most bad trials have the old value, but the newest 1,000 of them have the other one, so that the
 * old one looks better. */
static void the_newest_of_the_bad_trials_count(void **state)
{
    JSON_AUTO struct json_object *object = parse(search_text);
    JSON_AUTO struct json_object *spec = parse("{\"command\": [\"true\"]}");
    struct sweep sweep = {.first_job = 1, .points = 6000, .expanded = ENDED, .spec = spec};
    struct search_run *run;

    (void)state;
    assert_int_equal(sweep_points_read(object, sweep.points, &sweep.values, NULL, NULL), 0);
    run = search_run_new(&sweep, false, NULL, NULL);
    add_trials(run);
    for (int64_t i = ENDED; i < ENDED + 10; i++) {
        JSON_AUTO struct json_object *values = search_point_choose(NULL, run, i);

        assert_string_equal(json_get_string(values, "environment.X", ""), "old");
    }
    search_run_free(run);
    sweep_points_free(sweep.values);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_of_the_bad_trials_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
