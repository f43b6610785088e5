/* test_varlink_stream.c: frames, the envelope, sockets and the blocking client. */
#include "base/file.h"
#include "proto/varlink.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

static void add(struct varlink_frames *frames, const char *bytes, size_t size)
{
    while (size > 0) {
        char *space;
        size_t room;

        assert_int_equal(varlink_frames_space(frames, &space, &room), 0);
        if (room > size)
            room = size;
        memcpy(space, bytes, room);
        varlink_frames_added(frames, room);
        bytes += room;
        size -= room;
    }
}

static void expect_message(struct varlink_frames *frames, const char *expected)
{
    const char *message;
    size_t length;

    assert_int_equal(varlink_frames_next(frames, &message, &length), 1);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(message, expected, length);
}

static void test_frames(void **state)
{
    CLEANUP(varlink_frames_release) struct varlink_frames frames = {0};
    const char *message;
    size_t length;

    (void)state;
    assert_int_equal(varlink_frames_next(&frames, &message, &length), 0);
    add(&frames, "one\0tw", 6);
    expect_message(&frames, "one");
    assert_int_equal(varlink_frames_next(&frames, &message, &length), 0);
    add(&frames, "o\0\0three\0", 9);
    expect_message(&frames, "two");
    expect_message(&frames, "");
    expect_message(&frames, "three");
    assert_int_equal(varlink_frames_next(&frames, &message, &length), 0);
    for (int i = 0; i < 100000; i++) { /* the buffer does not grow with the stream */
        add(&frames, "abc\0", 4);
        expect_message(&frames, "abc");
    }
    assert_in_range(frames.capacity, 1, 65536);
}

static void test_longest_message(void **state)
{
    static char block[JSON_MESSAGE_MAX];
    const char *message;
    char *space;
    size_t length, room;

    (void)state;
    memset(block, 'a', sizeof block);
    for (int over = 0; over < 2; over++) {
        CLEANUP(varlink_frames_release) struct varlink_frames frames = {0};

        add(&frames, block, JSON_MESSAGE_MAX - 1);
        assert_int_equal(varlink_frames_next(&frames, &message, &length), 0);
        add(&frames, over ? "a" : "", 1);
        if (over) {
            assert_int_equal(varlink_frames_next(&frames, &message, &length), -EMSGSIZE);
            assert_int_equal(varlink_frames_space(&frames, &space, &room), -EMSGSIZE);
        } else {
            assert_int_equal(varlink_frames_space(&frames, &space, &room), -ENOBUFS);
            assert_int_equal(varlink_frames_next(&frames, &message, &length), 1);
            assert_int_equal(length, JSON_MESSAGE_MAX - 1);
            /* the memory is freed */
            assert_int_equal(varlink_frames_space(&frames, &space, &room), 0);
            assert_in_range(frames.capacity, 1, 65536);
        }
    }
}

static void test_call_envelope(void **state)
{
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"{\"method\":\"a.b.C\"}", 0},
        {"{\"method\":\"a.b.C\",\"parameters\":null,\"more\":null}", 0},
        {"{\"method\":\"a.b.C\",\"parameters\":{\"x\":1},\"more\":true,\"oneway\":false}", 0},
        {"{\"method\":\"a.b.C\",\"more\":true,\"oneway\":true}", -EINVAL},
        {"{\"method\":\"a.b.C\",\"more\":1}", -EINVAL},
        {"{\"method\":\"a.b.C\",\"parameters\":[]}", -EINVAL},
        {"{\"method\":\"a.b.C\",\"colour\":1}", -EINVAL},
        {"{\"method\":\"\"}", -EINVAL},
        {"{\"method\":null}", -EINVAL},
        {"{\"method\":5}", -EINVAL},
        {"{}", -EINVAL},
        {"[]", -EINVAL},
        {"null", -EINVAL},
        {"", -EINVAL},
        {"{\"method\":\"a.b.C\"", -EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct varlink_call call;
        struct error error = {0};
        int r = varlink_call_parse(cases[i].text, strlen(cases[i].text), &call, &error);

        if (r != cases[i].result)
            fail_msg("%s: %d %s", cases[i].text, r, error.text);
        if (r == 0) {
            assert_string_equal(call.method, "a.b.C");
            assert_non_null(call.parameters);
            assert_false(call.oneway);
        } else {
            assert_null(call.message);
            assert_true(*error.text);
        }
        varlink_call_release(&call);
    }
}

static void test_reply_envelope(void **state)
{
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"{}", 0},
        {"{\"parameters\":{\"a\":1},\"continues\":true}", 0},
        {"{\"error\":\"a.b.C\",\"parameters\":{}}", 0},
        {"{\"error\":\"a.b.C\",\"continues\":true}", -EINVAL},
        {"{\"error\":5}", -EINVAL},
        {"{\"method\":\"a.b.C\"}", -EINVAL},
        {"{\"parameters\":1}", -EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct varlink_reply reply;
        struct error error = {0};

        assert_int_equal(varlink_reply_parse(cases[i].text, strlen(cases[i].text), &reply, &error),
                         cases[i].result);
        varlink_reply_release(&reply);
    }
}

/* A service that has written its answers before the call comes: the client cannot tell the
 * difference. */
static struct varlink_client *client_with(const char *answers, size_t size, int *other)
{
    struct varlink_client *client;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(varlink_client_from_descriptor(pair[0], &client), 0);
    assert_int_equal(file_write_all(pair[1], answers, size), 0);
    *other = pair[1];
    return client;
}

static void test_client_call(void **state)
{
    static const char answers[] = "{\"parameters\":{\"x\":1}}\0"
                                  "{\"error\":\"io.traind.NoSuchJob\",\"parameters\":{\"id\":7,"
                                  "\"message\":\"there is no job 7\"}}\0"
                                  "{\"error\":\"org.varlink.service.MethodNotFound\","
                                  "\"parameters\":{\"method\":\"a.B\"}}\0"
                                  "nonsense\0";
    AUTO_CLOSE int other = -1;
    struct varlink_client *client = client_with(answers, sizeof answers - 1, &other);
    struct varlink_reply reply;
    struct error error;
    char received[128] = "";

    (void)state;
    assert_int_equal(varlink_client_call(client, "a.B", NULL, &reply, &error), 0);
    assert_int_equal(json_get_int(reply.parameters, "x", 0), 1);
    varlink_reply_release(&reply);
    assert_true(recv(other, received, sizeof received - 1, 0) > 0);
    assert_string_equal(received, "{\"method\":\"a.B\",\"parameters\":{}}");

    assert_int_equal(varlink_client_call(client, "a.B", NULL, &reply, &error),
                     -ERROR_SERVICE_REPLY);
    assert_string_equal(error.text, "there is no job 7");
    assert_string_equal(reply.error, "io.traind.NoSuchJob");
    varlink_reply_release(&reply);
    assert_int_equal(varlink_client_call(client, "a.B", NULL, &reply, &error),
                     -ERROR_SERVICE_REPLY);
    assert_non_null(strstr(error.text, "a.B"));
    varlink_reply_release(&reply);
    assert_int_equal(varlink_client_call(client, "a.B", NULL, &reply, &error), -EINVAL);
    assert_null(reply.message);
    assert_int_equal(varlink_client_receive(client, 20, &reply, &error), -ETIMEDOUT);
    shutdown(other, SHUT_RDWR);
    assert_int_equal(varlink_client_receive(client, -1, &reply, &error), -ECONNRESET);
    assert_int_equal(varlink_client_call(client, "a.B", NULL, &reply, &error), -ECONNRESET);
    varlink_client_free(client);
}

/* A service that refuses a connection says why, and hangs up before it has read the call. */
static void test_client_reads_why_it_was_refused(void **state)
{
    static const char refusal[] = "{\"error\":\"io.traind.QuotaExceeded\","
                                  "\"parameters\":{\"message\":\"too many\"}}";
    int other = -1;
    struct varlink_client *client = client_with(refusal, sizeof refusal, &other);
    struct varlink_reply reply;
    struct error error;

    (void)state;
    close(other);
    assert_int_equal(varlink_client_call(client, "a.B", NULL, &reply, &error),
                     -ERROR_SERVICE_REPLY);
    assert_string_equal(error.text, "too many");
    varlink_reply_release(&reply);
    varlink_client_free(client);
}

static void test_client_refuses_to_send_too_much(void **state)
{
    AUTO_CLOSE int other = -1;
    struct varlink_client *client = client_with("", 0, &other);
    struct json_object *parameters = json_object_new_object();
    char *text = calloc(1, JSON_MESSAGE_MAX + 1);
    struct error error;

    (void)state;
    memset(text, 'a', JSON_MESSAGE_MAX);
    json_set_string(parameters, "text", text);
    assert_int_equal(varlink_client_send(client, "a.B", parameters, false, &error), -EMSGSIZE);
    free(text);
    varlink_client_free(client);
}

static void check_socket(const char *path)
{
    struct varlink_client *client;
    struct error error = {0};
    int listening, accepted;

    assert_int_equal(varlink_client_connect(path, -1, &client, &error), -ENOENT);
    listening = varlink_socket_listen(path, 8, &error);
    if (listening < 0)
        fail_msg("%s", error.text);
    assert_int_equal(varlink_socket_listen(path, 8, &error), -EADDRINUSE);
    /* the connection that tested whether the socket is stale */
    accepted = accept(listening, NULL, NULL);
    close(accepted);
    assert_int_equal(varlink_client_connect(path, -1, &client, &error), 0);
    varlink_client_free(client);
    close(listening);
    assert_int_equal(varlink_client_connect(path, -1, &client, &error), -ECONNREFUSED);
    listening = varlink_socket_listen(path, 8, &error); /* replaces the stale one */
    assert_true(listening >= 0);
    assert_true(fcntl(listening, F_GETFD) & FD_CLOEXEC);
    close(listening);
    unlink(path);
}

static void test_sockets(void **state)
{
    char folder[] = "test_varlink_stream.XXXXXX", path[512], name[121];
    const char *temporary = getenv("TMPDIR");
    AUTO_CLOSE int file = -1;
    struct error error;

    (void)state;
    assert_int_equal(chdir(temporary ? temporary : "/tmp"), 0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    check_socket(path);
    memset(name, 'd', 120);
    name[120] = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/socket", folder, name);
    check_socket(path); /* longer than sun_path */
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, name);
    assert_int_equal(varlink_socket_listen(path, 8, &error), -ENAMETOOLONG);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    rmdir(path);
    snprintf(path, sizeof path, "%s/file", folder);
    file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    /* it is no socket, so it is kept */
    assert_int_equal(varlink_socket_listen(path, 8, &error), -EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    rmdir(folder);
}

/* A listener that accepts no connection: a client gets an error at once. */
static void test_full_queue(void **state)
{
    char folder[] = "/tmp/traind-socket.XXXXXX", path[64];
    int callers[4], listener, refused = 0;
    struct error error;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    assert_int_equal(varlink_socket_try(path, &error), -ENOENT);
    listener = varlink_socket_listen(path, 1, &error);
    assert_true(listener >= 0);
    for (size_t i = 0; i < 4; i++) {
        callers[i] = varlink_socket_try(path, &error);
        refused += callers[i] == -EAGAIN;
        assert_true(callers[i] >= 0 || callers[i] == -EAGAIN);
    }
    assert_int_equal(refused, 2);
    assert_int_equal(varlink_socket_connect(path, 1, &error), -ETIMEDOUT);
    assert_non_null(strstr(error.text, "takes no connections"));
    for (size_t i = 0; i < 4; i++)
        if (callers[i] >= 0)
            close(callers[i]);
    close(listener);
    assert_int_equal(varlink_socket_try(path, &error), -ECONNREFUSED);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_longest_message),
        cmocka_unit_test(test_call_envelope),
        cmocka_unit_test(test_reply_envelope),
        cmocka_unit_test(test_client_call),
        cmocka_unit_test(test_client_reads_why_it_was_refused),
        cmocka_unit_test(test_client_refuses_to_send_too_much),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_full_queue),
    };

    return cmocka_run_group_tests_name("varlink_stream", tests, NULL, NULL);
}
