/* test_top_jobs.c: the list of jobs: order, filter, selection; and the questions about them. */
#include "client/top/job_list.h"
#include "client/top/prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct json_object *jobs_parse(const char *text)
{
    struct json_object *jobs = NULL;

    assert_int_equal(json_parse(text, strlen(text), &jobs, NULL), 0);
    return jobs;
}

static struct json_object *some_jobs(void)
{
    return jobs_parse(
        "[{\"id\":9,\"name\":\"b\",\"state\":\"queued\",\"queue_position\":2,\"priority\":1},"
        "{\"id\":8,\"name\":\"a\",\"state\":\"queued\",\"queue_position\":1,\"priority\":5},"
        "{\"id\":7,\"name\":\"C\",\"state\":\"queued\",\"user\":\"ada\"},"
        "{\"id\":3,\"name\":\"d\",\"state\":\"running\",\"device\":\"cuda:0\"},"
        "{\"id\":2,\"name\":\"e\",\"state\":\"done\",\"ended\":5},"
        "{\"id\":1,\"name\":\"f\",\"state\":\"failed\",\"ended\":6}]");
}

/* The numbers of the jobs in their order. */
static void assert_order(const struct job_list *list, const char *expected)
{
    char text[128] = "";

    for (size_t i = 0; i < list->count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                 (int)json_get_int(list->jobs[i], "id", 0));
    assert_string_equal(text, expected);
}

static void test_order(void **state)
{
    struct job_list list = {.shown = 10};

    (void)state;
    job_list_set(&list, some_jobs());
    assert_order(&list, "3 8 9 7 1 2");
    list.order = ORDER_PRIORITY;
    job_list_arrange(&list);
    assert_order(&list, "8 9 1 2 3 7");
    list.order = ORDER_NAME;
    list.reversed = true;
    job_list_arrange(&list);
    assert_order(&list, "1 2 3 9 8 7");
    job_list_release(&list);
}

static void test_filter(void **state)
{
    static const struct {
        const char *filter, *found;
    } rows[] = {{"c", "3 7"}, {"QUEUED", "8 9 7"}, {"ada", "7"}, {"2", "2"}, {"none", ""}};
    struct job_list list = {.shown = 10};

    (void)state;
    job_list_set(&list, some_jobs());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        strcpy(list.filter, rows[i].filter);
        job_list_arrange(&list);
        assert_order(&list, rows[i].found);
        assert_true((job_list_selected(&list) == NULL) == (*rows[i].found == '\0'));
    }
    job_list_release(&list);
}

static int64_t selected(const struct job_list *list)
{
    return json_get_int(job_list_selected(list), "id", 0);
}

static void test_selection(void **state)
{
    struct job_list list = {.shown = 3};

    (void)state;
    job_list_step(&list, 1); /* of nothing */
    assert_null(job_list_selected(&list));
    job_list_set(&list, some_jobs());
    assert_int_equal(selected(&list), 3);
    job_list_step(&list, 3);
    assert_int_equal(selected(&list), 7);
    assert_int_equal(list.offset, 1);
    job_list_step(&list, 100);
    assert_int_equal(selected(&list), 2);
    job_list_scroll(&list, -100); /* the selection stays on what is shown */
    assert_int_equal(list.offset, 0);
    assert_int_equal(selected(&list), 9);
    assert_true(job_list_select_line(&list, 1));
    assert_int_equal(selected(&list), 8);
    assert_false(job_list_select_line(&list, 3)); /* below the last line */
    job_list_release(&list);
}

/* Another job takes the place of one that vanishes; one that moves stays selected. */
static void test_changes(void **state)
{
    struct job_list list = {.shown = 3};

    (void)state;
    job_list_set(&list, some_jobs());
    job_list_step(&list, 2);
    assert_int_equal(selected(&list), 9);
    job_list_set(&list,
                 jobs_parse("[{\"id\":9,\"state\":\"running\"},{\"id\":3,\"state\":\"done\"}]"));
    assert_int_equal(selected(&list), 9);
    assert_int_equal(list.index, 0);
    job_list_set(&list,
                 jobs_parse("[{\"id\":3,\"state\":\"done\"},{\"id\":2,\"state\":\"done\"}]"));
    assert_int_equal(selected(&list), 2); /* the first line: both ended at an unknown time */
    job_list_set(&list, jobs_parse("[]"));
    assert_null(job_list_selected(&list));
    job_list_set(&list, some_jobs());
    assert_int_equal(selected(&list), 3);
    job_list_release(&list);
}

static enum prompt_result type(struct prompt *prompt, const char *keys)
{
    enum prompt_result result = PROMPT_GOES_ON;

    for (; *keys && result == PROMPT_GOES_ON; keys++)
        result = prompt_take(prompt, &(struct key_event){.key = (unsigned char)*keys});
    return result;
}

static void test_prompt(void **state)
{
    struct prompt prompt = {0};

    (void)state;
    prompt_ask(&prompt, "priority:", "12");
    assert_int_equal(type(&prompt, "\x7f\x7f-5"), PROMPT_GOES_ON);
    assert_int_equal(prompt_take(&prompt, &(struct key_event){.key = 0x6f22}), PROMPT_GOES_ON);
    assert_string_equal(prompt.text, "-5漢");
    assert_int_equal(type(&prompt, "\x7f\r"), PROMPT_DONE);
    assert_string_equal(prompt.text, "-5");
    for (size_t i = 0; i < 2 * (size_t)PROMPT_BYTES; i++) /* what is too long stays out */
        prompt_take(&prompt, &(struct key_event){.key = 0x1f600});
    assert_true(strlen(prompt.text) < PROMPT_BYTES);
    assert_int_equal(type(&prompt, "\x15\x7f\x1b"), PROMPT_GIVEN_UP);
    assert_string_equal(prompt.text, "");
    prompt_confirm(&prompt, "sure?");
    assert_int_equal(prompt_take(&prompt, &(struct key_event){.key = KEY_WHEEL_UP}),
                     PROMPT_GOES_ON);
    assert_int_equal(type(&prompt, "\r"), PROMPT_GIVEN_UP); /* Enter is no yes */
    prompt_confirm(&prompt, "sure?");
    assert_int_equal(type(&prompt, "y"), PROMPT_DONE);
    prompt_ask(&prompt, "to:", "");
    prompt_add_choice(&prompt, "sim0");
    prompt_add_choice(&prompt, "auto");
    type(&prompt, "\t");
    assert_string_equal(prompt.text, "sim0");
    type(&prompt, "\t\t");
    assert_string_equal(prompt.text, "sim0");
    type(&prompt, "\t");
    assert_string_equal(prompt.text, "auto");
    prompt_close(&prompt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),     cmocka_unit_test(test_filter),
        cmocka_unit_test(test_selection), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_prompt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
