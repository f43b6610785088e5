/* test_job_edit.c: what an edit changes of a specification, and when a job may change so. */
#include "daemon/work/job_edit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char command[] =
    "{\"command\": [\"train\"], \"directory\": \"/tmp\", \"environment\": {\"A\": \"1\"}}";
static const char native[] =
    "{\"model\": {\"name\": \"mlp\"}, \"directory\": \"/tmp\", \"data\": {\"train\": "
    "{\"format\": \"idx\", \"images\": \"i\", \"labels\": \"l\"}}}";

static int prepare(const char *spec_text, const char *changes_text, struct job_edit *edit,
                   struct job_spec_fault *fault, struct error *error)
{
    JSON_AUTO struct json_object *spec = NULL, *normalised = NULL, *changes = NULL;

    *edit = (struct job_edit){0};
    *fault = (struct job_spec_fault){0};
    assert_int_equal(json_parse(spec_text, strlen(spec_text), &spec, NULL), 0);
    assert_int_equal(json_parse(changes_text, strlen(changes_text), &changes, NULL), 0);
    assert_int_equal(job_spec_normalise(spec, &normalised, NULL, error), 0);
    return job_edit_prepare(normalised, changes, 1, edit, fault, error);
}

/* The sentence of a change that is valid. */
static void expect_change(const char *spec, const char *changes, const char *sentence,
                          enum job_edit_time time)
{
    struct job_edit edit;
    struct job_spec_fault fault;
    struct error error = {0};

    if (prepare(spec, changes, &edit, &fault, &error) < 0)
        fail_msg("%s: %s", changes, error.text);
    assert_string_equal(edit.change, sentence);
    assert_int_equal(edit.time, time);
    job_edit_release(&edit);
}

static void changes_are_told(void **state)
{
    (void)state;
    expect_change(command, "{}", "", JOB_EDIT_ALWAYS);
    expect_change(command, "{\"priority\": null}", "", JOB_EDIT_ALWAYS);
    expect_change(command, "{\"priority\": 5, \"name\": \"b\"}", "name train → b; priority 0 → 5",
                  JOB_EDIT_ALWAYS);
    expect_change(command, "{\"time_limit\": \"2 h\", \"resources\": {\"memory\": \"1G\"}}",
                  "resources.memory none → 1.0 GiB; time_limit none → 2 h 00 min",
                  JOB_EDIT_WAITING);
    expect_change(command, "{\"resources\": {\"time\": 60}}", "resources.time none → 1 min 00 s",
                  JOB_EDIT_ALWAYS);
    expect_change(command, "{\"environment\": {\"A\": null, \"B\": \"2\"}}",
                  "environment.A 1 → none; environment.B none → 2", JOB_EDIT_WAITING);
    expect_change(command, "{\"directory\": \"/\"}", "directory /tmp → /", JOB_EDIT_WAITING);
    expect_change(command, "{\"hold\": true}", "hold none → true", JOB_EDIT_NEVER);
    /* a default that follows from what is changed */
    expect_change(command, "{\"checkpoint_signal\": \"SIGUSR1\"}",
                  "preemptible false → true; checkpoint_signal none → SIGUSR1", JOB_EDIT_WAITING);
    expect_change(native, "{\"directory\": \"/\"}", "directory /tmp → /", JOB_EDIT_UNBEGUN);
    expect_change(native, "{\"model\": {\"hidden\": [8]}, \"priority\": 1}",
                  "priority 0 → 1; model.hidden [128] → [8]", JOB_EDIT_UNBEGUN);
}

/* A guess of where the command belongs, which was made of another command, is dropped. */
static void a_guess_goes_with_its_command(void **state)
{
    static const char guessed[] =
        "{\"command\": [\"a\"], \"directory\": \"/tmp\", \"device\": {\"guess\": \"cpu\"}}";

    (void)state;
    expect_change(guessed, "{\"command\": [\"a\"], \"priority\": 1}", "priority 0 → 1",
                  JOB_EDIT_ALWAYS);
    expect_change(guessed, "{\"directory\": \"/\"}", "directory /tmp → /; device.guess cpu → none",
                  JOB_EDIT_WAITING);
    expect_change(guessed, "{\"command\": [\"a\", \"b\"], \"device\": {\"guess\": \"gpu\"}}",
                  "command [\"a\"] → [\"a\",\"b\"]; device.guess cpu → gpu", JOB_EDIT_WAITING);
}

static void a_long_change_is_cut(void **state)
{
    char changes[4096] = "{\"environment\": {\"A\": \"2\"";
    struct job_edit edit;
    struct job_spec_fault fault;
    struct error error = {0};

    (void)state;
    for (int i = 0; i < 30; i++)
        snprintf(changes + strlen(changes), sizeof changes - strlen(changes),
                 ", \"VARIABLE_%d\": \"%060d\"", i, i);
    strcat(changes, "}}");
    assert_int_equal(prepare(command, changes, &edit, &fault, &error), 0);
    assert_true(strlen(edit.change) < sizeof edit.change);
    assert_non_null(strstr(edit.change, "VARIABLE_0 none → 0000"));
    assert_string_equal(edit.change + strlen(edit.change) - strlen("; …"), "; …");
    assert_null(strstr(edit.change, "; …; …"));
    job_edit_release(&edit);
}

static void invalid_changes_are_refused(void **state)
{
    static const struct {
        const char *spec, *changes, *path;
    } cases[] = {
        {command, "{\"priority\": 1001}", "priority"},
        {command, "{\"priority\": 1e300}", "priority"},
        {command, "{\"resources\": 7}", "resources"},
        {command, "{\"prio\": 7}", "prio"},
        {command, "{\"environment\": {\"A\": 1}}", "environment.A"},
        {command, "{\"command\": null}", "model"},
        {native, "{\"train\": {\"epochs\": -1}}", "train.epochs"},
    };
    struct job_edit edit;
    struct job_spec_fault fault;
    struct error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(prepare(cases[i].spec, cases[i].changes, &edit, &fault, &error), -EINVAL);
        assert_string_equal(fault.path, cases[i].path);
        job_edit_release(&edit);
    }
}

/* Whether a job in that situation may change so; the refusal has the words. */
static void expect_verdict(const char *spec, const char *changes, struct job_edit_target target,
                           const char *words)
{
    struct job_edit edit;
    struct job_spec_fault fault;
    struct error error = {0};

    assert_int_equal(prepare(spec, changes, &edit, &fault, &error), 0);
    target.id = 12;
    assert_int_equal(job_edit_check(&edit, &target, &error), words ? -EBUSY : 0);
    if (words && !strstr(error.text, words))
        fail_msg("\"%s\" lacks \"%s\"", error.text, words);
    job_edit_release(&edit);
}

static void the_remedy_is_named(void **state)
{
    static const char memory[] = "{\"resources\": {\"memory\": \"1G\"}}";
    static const char epochs[] = "{\"train\": {\"epochs\": 3}}";
    struct job_edit_target waits = {.state = JOB_QUEUED}, runs = {.state = JOB_RUNNING,
                                                                  .runs = true,
                                                                  .begun = true,
                                                                  .run_seconds = 100};

    (void)state;
    expect_verdict(command, memory, waits, NULL);
    expect_verdict(command, memory, runs, "`trainctl resubmit 12 --set resources.memory=VALUE`");
    runs.saves_state = true;
    expect_verdict(command, memory, runs, "`trainctl pause 12`");
    expect_verdict(command, "{\"priority\": 2}", runs, NULL);
    expect_verdict(command, "{\"time_limit\": 101}", runs, NULL);
    expect_verdict(command, "{\"time_limit\": 100}", runs, "`trainctl cancel 12`");
    expect_verdict(command, "{\"time_limit\": 100}", waits, NULL);
    expect_verdict(command, "{\"hold\": true}", waits, "`trainctl hold 12`");
    expect_verdict(command, "{\"after\": [3]}", waits, "--after");
    expect_verdict(native, epochs, waits, NULL);
    expect_verdict(native, epochs, runs, "`trainctl resubmit 12 --set train.epochs=VALUE`");
    waits.planning = true;
    expect_verdict(native, epochs, waits, "`trainctl hold 12`");
    expect_verdict(native, "{\"priority\": 2}", waits, NULL);
    waits = (struct job_edit_target){.state = JOB_PAUSED, .begun = true};
    expect_verdict(native, epochs, waits, "has begun to train");
    expect_verdict(native, "{\"device\": {\"allow\": [\"cpu\"]}}", waits, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_told),     cmocka_unit_test(a_guess_goes_with_its_command),
        cmocka_unit_test(a_long_change_is_cut), cmocka_unit_test(invalid_changes_are_refused),
        cmocka_unit_test(the_remedy_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
