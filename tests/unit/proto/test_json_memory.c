/* test_json_memory.c: whichever allocation fails, json_parse() returns the whole object or an
 * error. It never returns an object in which something is missing. */
#include "proto/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* How many allocations are still granted; below 0: all. */
static long granted = -1;
static bool refused, for_good;

#if defined(__SANITIZE_ADDRESS__)
/* The sanitizer has an allocator of its own. */
static const bool refuses = false;
#else
static const bool refuses = true;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
#define EXPORTED __attribute__((visibility("default")))

static bool refuse(void)
{
    if (granted < 0)
        return false;
    if (granted > 0) {
        granted--;
        return false;
    }
    refused = true;
    if (!for_good)
        granted = -1;
    return true;
}

EXPORTED void *malloc(size_t bytes)
{
    return refuse() ? NULL : __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    return refuse() ? NULL : __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *old, size_t bytes)
{
    return refuse() ? NULL : __libc_realloc(old, bytes);
}
#endif

/* No text has keys: json-c 0.16 itself crashes if it has no memory for a key. */
static const char *const texts[] = {
    "null",
    " 5 ",
    "{}",
    "[1,2.5,true,null,\"text\"]",
    "[[\"one\",\"two\",[{}]],\"a text of more than thirty-two bytes\",[],1,2,3,4,5,6,7,8,9] ",
};

/* Refuses the allocation behind the first `count` ones. Returns whether the text needs that
 * many. */
static bool parse_with(const char *text, struct json_object *whole, long count)
{
    JSON_AUTO struct json_object *object = NULL;
    struct error error = {0};
    int result;

    refused = false;
    granted = count;
    result = json_parse(text, strlen(text), &object, &error);
    granted = -1;
    if (result == 0) {
        assert_true(json_object_equal(object, whole));
    } else {
        assert_true(refused);
        assert_null(object);
        assert_int_equal(result, -ENOMEM);
        assert_non_null(strstr(error.text, "no memory for"));
    }
    return refused;
}

static void test_refused(void **state)
{
    (void)state;
    if (!refuses) {
        print_message("the sanitizer's allocator refuses nothing\n");
        skip();
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        JSON_AUTO struct json_object *whole = NULL;

        assert_int_equal(json_parse(texts[i], strlen(texts[i]), &whole, NULL), 0);
        for (int once = 0; once < 2; once++) {
            long count = 0;

            for_good = !once;
            while (parse_with(texts[i], whole, count))
                count++;
            assert_true(count > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests_name("json_memory", tests, NULL, NULL);
}
