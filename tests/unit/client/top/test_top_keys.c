/* test_top_keys.c: what a terminal sends becomes keys and events of the mouse, also in pieces. */
#include "client/top/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void feed(struct key_input *input, const char *bytes)
{
    memcpy(input->bytes + input->count, bytes, strlen(bytes));
    input->count += strlen(bytes);
}

/* The only key that the bytes are. */
static struct key_event key_of(const char *bytes)
{
    struct key_input input = {.count = 0};
    struct key_event event, none;

    feed(&input, bytes);
    assert_int_equal(key_input_next(&input, 1, &event), 1);
    assert_int_equal(key_input_next(&input, 1, &none), 0);
    return event;
}

static void test_keys(void **state)
{
    static const struct {
        const char *bytes;
        int key;
    } rows[] = {
        {"j", 'j'},
        {"\r", KEY_ENTER},
        {"\n", KEY_ENTER},
        {"\x7f", KEY_ERASE},
        {"\b", KEY_ERASE},
        {"\t", KEY_TAB},
        {"\033", KEY_ESCAPE},
        {"\033[A", KEY_UP},
        {"\033OB", KEY_DOWN},
        {"\033[5~", KEY_PAGE_UP},
        {"\033[6~", KEY_PAGE_DOWN},
        {"\033[H", KEY_HOME},
        {"\033[4~", KEY_END},
        {"\033[1;5C", KEY_RIGHT},
        {"\033[200~", KEY_OTHER},
        {"\xc3\xa4", 0xe4},
        {"\xe6\xbc\xa2", 0x6f22},
        {"\xf0\x9f\x98\x80", 0x1f600},
        {"\x80", KEY_OTHER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(key_of(rows[i].bytes).key, rows[i].key);
}

static void test_paste(void **state)
{
    static const char *const pieces[] = {"a\033[2", "00~q\033[Ay", "\033\033[201", "~b"};
    static const struct {
        int key;
        bool pasted;
    } expected[] = {{'a', false}, {KEY_OTHER, false}, {'q', true},       {KEY_UP, true},
                    {'y', true},  {KEY_ESCAPE, true}, {KEY_OTHER, true}, {'b', false}};
    struct key_input input = {.count = 0};
    struct key_event event;
    size_t found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        feed(&input, pieces[i]);
        for (; key_input_next(&input, 0, &event); found++) {
            assert_true(found < sizeof expected / sizeof *expected);
            assert_int_equal(event.key, expected[found].key);
            assert_int_equal(event.pasted, expected[found].pasted);
        }
    }
    assert_int_equal(found, sizeof expected / sizeof *expected);
}

static void test_mouse(void **state)
{
    struct key_event event = key_of("\033[<0;5;15M");

    (void)state;
    assert_int_equal(event.key, KEY_CLICK);
    assert_int_equal(event.column, 4);
    assert_int_equal(event.row, 14);
    assert_int_equal(key_of("\033[<0;5;15m").key, KEY_OTHER); /* released */
    assert_int_equal(key_of("\033[<2;5;15M").key, KEY_OTHER); /* another button */
    assert_int_equal(key_of("\033[<64;200;60M").key, KEY_WHEEL_UP);
    assert_int_equal(key_of("\033[<69;1;1M").key, KEY_WHEEL_DOWN); /* with Shift */
    assert_int_equal(key_of("\033[<0;0;0M").key, KEY_OTHER);
    assert_int_equal(key_of("\033[<0;99999999999999999999;1M").key, KEY_CLICK); /* somewhere */
    assert_int_equal(key_of("\033[<0M").key, KEY_OTHER);
    assert_int_equal(key_of("\033[<0;1;1;1M").key, KEY_OTHER);
}

static void test_pieces(void **state)
{
    static const char bytes[] = "\033[<0;12;3M\xe6\xbc\xa2x";
    struct key_input input = {.count = 0};
    struct key_event event;
    int keys[8];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        feed(&input, (const char[]){bytes[i], '\0'});
        while (key_input_next(&input, 0, &event))
            keys[count++] = event.key;
    }
    assert_int_equal(count, 3);
    assert_int_equal(keys[0], KEY_CLICK);
    assert_int_equal(keys[1], 0x6f22);
    assert_int_equal(keys[2], 'x');
}

static void test_escape_and_more(void **state)
{
    struct key_input input = {.count = 0};
    struct key_event event;

    (void)state;
    feed(&input, "\033");
    assert_int_equal(key_input_next(&input, 0, &event), 0); /* something may follow */
    feed(&input, "q");                                      /* Alt-q: the escape, and q */
    assert_int_equal(key_input_next(&input, 0, &event), 1);
    assert_int_equal(event.key, KEY_ESCAPE);
    assert_int_equal(key_input_next(&input, 0, &event), 1);
    assert_int_equal(event.key, 'q');
}

/* A flood of bytes that are no key never fills the buffer for good. */
static void test_flood(void **state)
{
    struct key_input input = {.count = 0};
    struct key_event event;
    int pipe_ends[2];

    (void)state;
    assert_int_equal(pipe(pipe_ends), 0);
    for (size_t i = 0; i < 100; i++) {
        char bytes[64];

        memset(bytes, ';', sizeof bytes);
        memcpy(bytes, "\033[", 2);
        assert_int_equal(write(pipe_ends[1], bytes, sizeof bytes), sizeof bytes);
        assert_int_equal(key_input_read(&input, pipe_ends[0]), 0);
        while (key_input_next(&input, 0, &event))
            ;
    }
    close(pipe_ends[1]);
    assert_true(input.count <= KEY_BYTES_MAX);
    input.count = 0;
    assert_true(key_input_read(&input, pipe_ends[0]) < 0); /* the end */
    close(pipe_ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_paste),
        cmocka_unit_test(test_mouse),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_escape_and_more),
        cmocka_unit_test(test_flood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
