/* test_client_progress.c: the progress line on screens of every width, and the output of jobs. */
#include "base/cleanup.h"
#include "client/view/job.h"
#include "client/view/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct json_object *job_new(const char *text)
{
    struct json_object *job = NULL;

    assert_int_equal(json_parse(text, strlen(text), &job, NULL), 0);
    return job;
}

static const char running[] =
    "{\"id\": 7, \"name\": \"x\", \"state\": \"running\", \"device\": \"cpu\", \"progress\": "
    "{\"step\": 1200, \"steps\": 2400, \"epoch\": 5.04, \"epochs\": 10, \"loss\": 1.25, "
    "\"samples_per_second\": 53000.4, \"seconds_left\": 71.2}}";

static void test_wide_screen(void **state)
{
    JSON_AUTO struct json_object *job = job_new(running);
    struct display display = {.terminal = true, .unicode = true, .columns = 140};
    char line[1024];

    (void)state;
    progress_render(job, &display, line, sizeof line);
    assert_string_equal(line, "cpu  epoch 5.0/10  ━━━━━━━━━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  50%  "
                              "step 1 200/2 400  loss 1.2500  53 000 samples/s  1 min 12 s left");
}

static void test_plain_characters(void **state)
{
    JSON_AUTO struct json_object *job = job_new(running);
    struct display display = {.terminal = true, .unicode = false, .columns = 40};
    char line[1024];

    (void)state;
    progress_render(job, &display, line, sizeof line);
    assert_string_equal(line, "cpu  #######-------  50%  loss 1.2500");
}

static void test_every_width(void **state)
{
    JSON_AUTO struct json_object *job = job_new(running);
    size_t before = 0;
    char line[1024];

    (void)state;
    for (size_t columns = 1; columns < 200; columns++) {
        struct display display = {.terminal = true, .unicode = true, .columns = columns};

        progress_render(job, &display, line, sizeof line);
        assert_true(display_width(line) < columns || columns == 1);
        before = display_width(line);
    }
    assert_true(before > 100);
}

static void test_unknown_progress(void **state)
{
    JSON_AUTO struct json_object *queued = job_new(
        "{\"state\": \"queued\", \"reason\": \"waits for \\u001b[31m job 3\", \"progress\": null}");
    JSON_AUTO struct json_object *endless =
        job_new("{\"state\": \"running\", \"device\": \"cpu\", \"progress\": {\"step\": 12, "
                "\"steps\": null, \"loss\": null}}");
    struct display display = {.terminal = true, .unicode = true, .columns = 100};
    char line[1024];

    (void)state;
    progress_render(queued, &display, line, sizeof line);
    assert_string_equal(line, "queued: waits for \\x1b[31m job 3");
    progress_render(endless, &display, line, sizeof line);
    assert_string_equal(line, "cpu  step 12");
}

/* Draws, shrinks and clears the line, and compares what a terminal gets. */
static void test_drawing(void **state)
{
    JSON_AUTO struct json_object *job = job_new(running);
    struct progress_bar bar = {.display = {.terminal = true, .columns = 40}};
    char *text;
    size_t size;

    (void)state;
    bar.output = open_memstream(&text, &size);
    progress_bar_clear(&bar); /* nothing is drawn yet */
    progress_bar_draw(&bar, job);
    assert_int_equal(bar.shown, 37);
    progress_bar_clear(&bar);
    assert_int_equal(bar.shown, 0);
    fclose(bar.output);
    assert_string_equal(text, "\rcpu  #######-------  50%  loss 1.2500\033[K\r\033[J");
    free(text);
}

static char *log_to_text(const char *log, struct display display)
{
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    job_print_log(log, strlen(log), &display, file);
    fclose(file);
    return text;
}

static void test_log_escaping(void **state)
{
    static const char log[] = "a\tb\r\n\033[1;31mred\033[m \033]0;title\a \x7f grün \xc2\x9b";
    AUTO_FREE char *piped = log_to_text(log, (struct display){0});
    AUTO_FREE char *plain = log_to_text(log, (struct display){.terminal = true});
    AUTO_FREE char *colour = log_to_text(log, (struct display){.terminal = true, .colour = true});

    (void)state;
    assert_string_equal(piped, log);
    assert_string_equal(plain, "a\tb\r\nred \\x1b]0;title\\x07 \\x7f grün \\x9b");
    assert_string_equal(colour, "a\tb\r\n\033[1;31mred\033[m \\x1b]0;title\\x07 \\x7f grün \\x9b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_screen), cmocka_unit_test(test_plain_characters),
        cmocka_unit_test(test_every_width), cmocka_unit_test(test_unknown_progress),
        cmocka_unit_test(test_drawing),     cmocka_unit_test(test_log_escaping),
    };

    display_set_locale();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
