/* test_job_rules.c: legal transitions, the meaning of an attempt's end, retries and their delay. */
#include "daemon/work/job_rules.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void transitions(void **state)
{
    (void)state;
    assert_true(job_transition_allowed(JOB_QUEUED, JOB_STARTING));
    assert_false(job_transition_allowed(JOB_QUEUED, JOB_RUNNING));
    assert_false(job_transition_allowed(JOB_QUEUED, JOB_DONE));
    assert_true(job_transition_allowed(JOB_RUNNING, JOB_QUEUED));
    assert_true(
        job_transition_allowed(JOB_PREEMPTING, JOB_RUNNING)); /* it could not be suspended */
    for (int from = JOB_QUEUED; from <= JOB_CANCELLED; from++) {
        assert_false(job_transition_allowed(from, from));
        for (int to = JOB_QUEUED; to <= JOB_CANCELLED; to++)
            if (job_state_is_final(from))
                assert_false(job_transition_allowed(from, to));
        if (!job_state_is_final(from))
            assert_true(job_transition_allowed(from, JOB_CANCELLED));
    }
}

static struct attempt_end native_end(void)
{
    return (struct attempt_end){.kind = JOB_NATIVE,
                                .recorded = true,
                                .executed = true,
                                .exit_status = -1,
                                .seconds = 100,
                                .retry_limit = 3,
                                .backoff_seconds = 5};
}

static void check(const struct attempt_end *end, enum ending ending, enum job_state job,
                  const char *reason)
{
    struct attempt_verdict verdict = attempt_judge(end);

    assert_string_equal(verdict.reason, reason);
    assert_int_equal(verdict.ending, ending);
    assert_int_equal(verdict.state, job);
}

static void native_endings(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.exit_status = 0;
    check(&end, ENDING_COMPLETED, JOB_DONE, "completed");
    end.exit_status = 1;
    end.error_recorded = true;
    end.message = "loss is not a number at step 12";
    check(&end, ENDING_EXITED, JOB_FAILED, "loss is not a number at step 12");
    end.error_recorded = false;
    end.message = NULL;
    check(&end, ENDING_EXITED, JOB_QUEUED, "exit status 1; retry 1 of 3 in 5.0 s");
    end.exit_status = EXIT_STATUS_DISK_FULL;
    end.message = "cannot write step-3.safetensors";
    check(&end, ENDING_EXITED, JOB_QUEUED,
          "the disk is full: cannot write step-3.safetensors; make room, for example with trainctl "
          "clean; it goes on from its last checkpoint in 40.0 s");
    assert_false(attempt_judge(&end).counts_as_retry);
    end.kind = JOB_COMMAND;
    end.error_recorded = false;
    assert_string_equal(attempt_judge(&end).reason,
                        "cannot write step-3.safetensors; retry 1 of 3 in 5.0 s");
    end.executed = false;
    end.message = "no room";
    check(&end, ENDING_EXITED, JOB_QUEUED,
          "the disk is full: no room; make room, for example with trainctl clean; it is tried "
          "again in 40.0 s");
    end = native_end();
    end.exit_status = EXIT_STATUS_REQUEUE;
    check(&end, ENDING_PREEMPTED, JOB_QUEUED, "asked to be queued again (exit status 75)");
    assert_false(attempt_judge(&end).counts_as_retry);
    assert_true(attempt_judge(&end).delay == 0);
    end.seconds = 0.1;
    assert_true(attempt_judge(&end).delay == 5);
    end.exit_status = -1;
    end.signal = 9;
    check(&end, ENDING_SIGNALLED, JOB_QUEUED, "killed by signal 9 (Killed); retry 1 of 3 in 5.0 s");
    assert_true(attempt_judge(&end).counts_as_retry);
    end.retries = 2;
    assert_true(attempt_judge(&end).delay == 20);
    end.retries = 3;
    check(&end, ENDING_SIGNALLED, JOB_FAILED,
          "killed by signal 9 (Killed); all 3 retries are used up");
    end.out_of_memory = true;
    check(&end, ENDING_OUT_OF_MEMORY, JOB_FAILED,
          "killed by the kernel: out of memory; all 3 retries are used up");
}

static void endings_after_a_suspension(void **state)
{
    struct attempt_end end = {.kind = JOB_COMMAND,
                              .intent = ENDING_LOST,
                              .recorded = true,
                              .executed = true,
                              .exit_status = -1,
                              .signal = SIGKILL,
                              .not_restored = true,
                              .message = "out of memory"};

    (void)state;
    check(&end, ENDING_LOST, JOB_QUEUED,
          "could not go on after it was suspended: out of memory; it goes on from what it saved "
          "before, and is not suspended again");
    assert_false(attempt_judge(&end).counts_as_retry);
    end.exit_status = 0; /* it ended by itself in that moment */
    end.signal = 0;
    check(&end, ENDING_COMPLETED, JOB_DONE, "completed");
}

static void smaller_batches_after_a_lack_of_memory(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.exit_status = 1;
    end.error_recorded = end.out_of_memory = true;
    end.message = "no room";
    check(&end, ENDING_OUT_OF_MEMORY, JOB_FAILED, "no room");
    end.batches_divide = true;
    check(&end, ENDING_OUT_OF_MEMORY, JOB_QUEUED,
          "no room; goes on with batches of half the size, accumulated to the same updates");
    assert_false(attempt_judge(&end).counts_as_retry);
    end.memory_failures = 1;
    check(&end, ENDING_OUT_OF_MEMORY, JOB_FAILED, "no room");
}

static void lost_and_not_started(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.recorded = end.executed = false;
    check(&end, ENDING_LOST, JOB_QUEUED,
          "the job's processes vanished without a record; retry 1 of 3 in 5.0 s");
    end.kind = JOB_COMMAND;
    end.retry_limit = 0;
    check(&end, ENDING_LOST, JOB_FAILED, "the job's processes vanished without a record");
    end.recorded = true;
    end.exit_status = 127;
    end.message = "command not found: pyhton";
    end.retry_limit = 5; /* it would fail in the same way */
    check(&end, ENDING_EXITED, JOB_FAILED, "command not found: pyhton");
}

static void command_endings(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.kind = JOB_COMMAND;
    end.retry_limit = 0;
    end.exit_status = 3;
    check(&end, ENDING_EXITED, JOB_FAILED, "exit status 3");
    end.retry_limit = 1;
    check(&end, ENDING_EXITED, JOB_QUEUED, "exit status 3; retry 1 of 1 in 5.0 s");
}

static void intents(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.intent = ENDING_CANCELLED;
    end.exit_status = 75;
    check(&end, ENDING_CANCELLED, JOB_CANCELLED, "cancelled");
    end.recorded = false;
    check(&end, ENDING_CANCELLED, JOB_CANCELLED, "cancelled");
    end = native_end();
    end.intent = ENDING_TIMED_OUT;
    end.time_limit = 90;
    end.exit_status = 75;
    check(&end, ENDING_TIMED_OUT, JOB_FAILED, "ran into its time limit of 1 min 30 s");
    end.exit_status = 0; /* finished within the grace period */
    check(&end, ENDING_COMPLETED, JOB_DONE, "completed");
    end.recorded = end.executed = false; /* its shim did not answer and was killed, too */
    end.exit_status = -1;
    check(&end, ENDING_TIMED_OUT, JOB_FAILED, "ran into its time limit of 1 min 30 s");
}

static void delays(void **state)
{
    (void)state;
    assert_true(retry_delay(5, 0) == 5);
    assert_true(retry_delay(5, 4) == 80);
    assert_true(retry_delay(5, 1000000) == 3600);
    assert_true(retry_delay(0, 7) == 0);
}

/* The daemon asked it to leave. */
static void endings_on_a_lost_device(void **state)
{
    struct attempt_end end = native_end();
    const char *sentence = "its device was lost; it goes on from what it saved before";

    (void)state;
    end.intent = ENDING_LOST;
    end.retry_limit = 0;
    end.exit_status = 1; /* the status with which the program ended does not matter */
    end.error_recorded = true;
    check(&end, ENDING_LOST, JOB_QUEUED, sentence);
    assert_false(attempt_judge(&end).counts_as_retry);
    end.recorded = false; /* it hung, and so did its shim */
    check(&end, ENDING_LOST, JOB_QUEUED, sentence);
    end = native_end();
    end.intent = ENDING_LOST;
    end.exit_status = 0; /* it was about to end anyway */
    check(&end, ENDING_COMPLETED, JOB_DONE, "completed");
}

static void preempted_endings(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.kind = JOB_COMMAND;
    end.intent = ENDING_PREEMPTED;
    end.retry_limit = 0;
    end.exit_status = 75;
    check(&end, ENDING_PREEMPTED, JOB_QUEUED, "saved its state and made room (exit status 75)");
    assert_false(attempt_judge(&end).counts_as_retry);
    assert_true(attempt_judge(&end).delay == 0);
    end.exit_status = 0; /* it was about to end anyway */
    check(&end, ENDING_COMPLETED, JOB_DONE, "completed");
    end.exit_status = -1;
    end.signal = SIGUSR1;
    check(&end, ENDING_PREEMPTED, JOB_QUEUED, "made room (ended by SIGUSR1)");
    end.signal = SIGKILL;
    check(&end, ENDING_PREEMPTED, JOB_QUEUED,
          "was asked to make room, did not end in time and was killed; it goes on from what it "
          "saved before");
    end.signal = 0;
    end.exit_status = 130;
    check(&end, ENDING_PREEMPTED, JOB_QUEUED, "made room (exit status 130)");
    end.kind = JOB_NATIVE;
    end.exit_status = 1;
    end.error_recorded = true;
    end.message = "loss is not a number at step 12";
    check(&end, ENDING_EXITED, JOB_FAILED, "loss is not a number at step 12");
}

/* The new device does not reproduce the result of the previous one. */
static void devices_that_disagree(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.exit_status = 1;
    end.error_recorded = true;
    end.message = "sim0 does not agree";
    end.device = "sim0";
    end.disagrees_with = "cpu";
    check(&end, ENDING_EXITED, JOB_QUEUED, "goes back to cpu and stays there: sim0 does not agree");
    assert_true(attempt_judge(&end).goes_back);
    assert_false(attempt_judge(&end).counts_as_retry);
    end.intent = ENDING_PREEMPTED; /* it was asked to leave at the same time */
    check(&end, ENDING_EXITED, JOB_QUEUED, "goes back to cpu and stays there: sim0 does not agree");
    end.intent = ENDING_NONE;
    end.device = "cpu"; /* there is no device to go back to */
    check(&end, ENDING_EXITED, JOB_FAILED, "sim0 does not agree");
    assert_false(attempt_judge(&end).goes_back);
}

/* The job goes on elsewhere. This counts as a retry unless only the device is to blame. */
static void devices_that_fail(void **state)
{
    struct attempt_end end = native_end();

    (void)state;
    end.exit_status = 1;
    end.error_recorded = true;
    end.message = "an illegal memory access";
    end.device = "cuda:0";
    end.fault = DEVICE_FAULT_ILLEGAL_ACCESS;
    check(&end, ENDING_EXITED, JOB_QUEUED,
          "cuda:0 failed under it (illegal_access): an illegal memory access; it goes on from what "
          "it saved before");
    assert_true(attempt_judge(&end).counts_as_retry);
    end.intent = ENDING_PREEMPTED; /* it was asked to leave at the same time */
    assert_int_equal(attempt_judge(&end).state, JOB_QUEUED);
    end.intent = ENDING_CANCELLED;
    assert_int_equal(attempt_judge(&end).state, JOB_CANCELLED);
    end.intent = ENDING_NONE;
    end.retries = end.retry_limit;
    assert_int_equal(attempt_judge(&end).state, JOB_FAILED);
    end.shared_by = "MPS"; /* then it is unknown which job caused the error */
    assert_int_equal(attempt_judge(&end).state, JOB_QUEUED);
    assert_false(attempt_judge(&end).counts_as_retry);
    end.shared_by = NULL;
    end.fault = DEVICE_FAULT_MEMORY; /* the trainee reports it, and the probe does not */
    assert_int_equal(attempt_judge(&end).state, JOB_FAILED);
    end.fault_confirmed = true;
    assert_int_equal(attempt_judge(&end).state, JOB_QUEUED);
    assert_false(attempt_judge(&end).counts_as_retry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transitions),
        cmocka_unit_test(native_endings),
        cmocka_unit_test(endings_on_a_lost_device),
        cmocka_unit_test(endings_after_a_suspension),
        cmocka_unit_test(smaller_batches_after_a_lack_of_memory),
        cmocka_unit_test(preempted_endings),
        cmocka_unit_test(devices_that_disagree),
        cmocka_unit_test(devices_that_fail),
        cmocka_unit_test(lost_and_not_started),
        cmocka_unit_test(command_endings),
        cmocka_unit_test(intents),
        cmocka_unit_test(delays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
