/* test_lease_frames.c: frames between `trainctl shell` and its job. */
#include "client/connection/lease_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A command that ends at once has said its status before this end sends anything. */
static void what_was_said_last_is_read(void **state)
{
    static struct lease_link person, job;
    struct lease_frame frame;
    int sockets[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    lease_link_open(&person, sockets[0]);
    lease_link_open(&job, sockets[1]);
    lease_send(&job, LEASE_DATA, "bye", 3);
    lease_send(&job, LEASE_ENDED, "\x7f", 1);
    lease_link_close(&job);
    lease_send(&person, LEASE_INPUT_END, NULL, 0);
    assert_true(person.socket >= 0);
    assert_int_equal(person.output_used, 0);
    assert_true(lease_read(&person));
    assert_true(lease_take(&person, &frame));
    assert_int_equal(frame.kind, LEASE_DATA);
    assert_memory_equal(frame.bytes, "bye", 3);
    assert_true(lease_take(&person, &frame));
    assert_int_equal(frame.kind, LEASE_ENDED);
    assert_int_equal(frame.bytes[0], 127);
    assert_false(lease_read(&person));
    lease_link_close(&person);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_said_last_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
