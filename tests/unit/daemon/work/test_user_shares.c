/* test_user_shares.c: the weights of users in [Jobs] Shares. */
#include "daemon/work/user_shares.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void names_and_numbers(void **state)
{
    struct user_shares shares;
    struct error error;

    (void)state;
    assert_int_equal(user_shares_read("root:2.5  4242:0.5,7:3", &shares, &error), 0);
    assert_int_equal(shares.count, 3);
    assert_true(user_shares_weight(&shares, 0) == 2.5);
    assert_true(user_shares_weight(&shares, 4242) == 0.5);
    assert_true(user_shares_weight(&shares, 7) == 3);
    assert_true(user_shares_weight(&shares, 8) == 1);
    user_shares_release(&shares);
    assert_int_equal(user_shares_read("", &shares, &error), 0);
    assert_true(user_shares_weight(&shares, 0) == 1);
    user_shares_release(&shares);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *text, *sentence;
    } wrong[] = {
        {"root", "\"root\" is not"},
        {"root:0", "weights above 0; \"root:0\" is not"},
        {"root:-2", "weights above 0; \"root:-2\" is not"},
        {"root:x", "weights above 0"},
        {"root:1x", "weights above 0"},
        {"root:inf", "weights above 0"},
        {"root:1 no-such-user:1", "no user \"no-such-user\""},
        {":1", "no user \"\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct user_shares shares;
        struct error error;

        assert_int_equal(user_shares_read(wrong[i].text, &shares, &error), -EINVAL);
        if (!strstr(error.text, wrong[i].sentence))
            fail_msg("%s: %s", wrong[i].text, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(mistakes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
