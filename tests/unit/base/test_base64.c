/* test_base64.c: the vectors of RFC 4648 section 10, and what is refused. */
#include "base/base64.h"
#include "base/cleanup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const vectors[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const char *bytes = vectors[i][0], *text = vectors[i][1];
        AUTO_FREE char *encoded = malloc(base64_encoded_size(strlen(bytes)));
        AUTO_FREE void *decoded = NULL;
        size_t size;

        assert_int_equal(base64_encoded_size(strlen(bytes)), strlen(text) + 1);
        base64_encode(bytes, strlen(bytes), encoded);
        assert_string_equal(encoded, text);
        assert_int_equal(base64_decode(text, strlen(text), &decoded, &size, NULL), 0);
        assert_int_equal(size, strlen(bytes));
        assert_memory_equal(decoded, bytes, size);
    }
}

static void test_refused(void **state)
{
    static const char *const broken[] = {"Zg=", "Z", "Zm9v!", "Zg==Zg==", "Zm\xff"};

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        void *decoded = NULL;
        size_t size;

        assert_int_equal(base64_decode(broken[i], strlen(broken[i]), &decoded, &size, NULL),
                         -EINVAL);
        assert_null(decoded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
