/* test_stream.c: how long a stream waits for a daemon that has gone away. */
#include "base/clock.h"
#include "client/connection/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A stream whose connection has just broken: it broke a first time longer ago than the stream is
 * patient, and was up again since `connected`. */
static enum stream_event next_of_broken(double connected, enum exit_status *status)
{
    struct invocation invocation = {0};
    struct varlink_reply reply = {0};
    struct stream stream = {.method = "Metrics",
                            .quiet = true,
                            .lost_since = clock_now() - STREAM_PATIENCE_SECONDS - 10,
                            .connected = connected};
    enum stream_event event;
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(varlink_client_from_descriptor(sockets[0], &stream.client), 0);
    close(sockets[1]);
    event = stream_next(&stream, &invocation, &reply, status);
    stream_close(&stream);
    return event;
}

static void a_second_restart_is_waited_for_as_long_as_the_first(void **state)
{
    enum exit_status status = EXIT_STATUS_DONE;

    (void)state;
    assert_int_equal(next_of_broken(clock_now() - 5, &status), STREAM_NOTHING);
    assert_int_equal(status, EXIT_STATUS_DONE);
}

static void a_daemon_that_hangs_up_at_once_is_not_back(void **state)
{
    enum exit_status status = EXIT_STATUS_DONE;

    (void)state;
    assert_int_equal(next_of_broken(clock_now(), &status), STREAM_FAILED);
    assert_int_equal(status, EXIT_STATUS_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_restart_is_waited_for_as_long_as_the_first),
        cmocka_unit_test(a_daemon_that_hangs_up_at_once_is_not_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
