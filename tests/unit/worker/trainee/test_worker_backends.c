/* test_worker_backends.c: the backend that a device's name, or its configuration, stands for. */
#include "worker/trainee/worker_backends.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *kind_of(const char *name, const char *config)
{
    const struct worker_options options = {.device_config = config};
    const struct worker_backend *backend = worker_backend_find(&options, name);

    return backend ? backend->kind : "none";
}

static void names_stand_for_kinds(void **state)
{
    (void)state;
    assert_string_equal(kind_of("auto", NULL), "cpu");
    for (size_t i = 0; i < worker_backend_count; i++) {
        const struct worker_backend *backend = &worker_backends[i];

        if (backend->naming == WORKER_NAMED_BY_CONFIG) {
            assert_string_equal(kind_of(backend->kind, NULL), "none");
            assert_non_null(backend->configure);
        } else {
            assert_string_equal(kind_of(backend->kind, NULL), backend->kind);
        }
    }
    assert_string_equal(kind_of("cuda:0", NULL), "cuda");
    assert_string_equal(kind_of("cuda:32767", NULL), "cuda");
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(kind_of((const char *const[]){"cuda:", "cuda:x", "cuda:-1",
                                                          "cuda:32768", "cuda0", "cpu:0", ""}[i],
                                    NULL),
                            "none");
}

static void configurations_stand_for_kinds(void **state)
{
    (void)state;
    assert_string_equal(kind_of("cuda:0", "{\"kind\": \"simulated\"}"), "simulated");
    /* another function, which reads it, reports what is wrong */
    assert_string_equal(kind_of("sim0", "{\"kind\": \"cuda\"}"), "simulated");
    assert_string_equal(kind_of("sim0", "{"), "simulated");
}

/* The daemon lets a process see one device, which then is its first. */
static void a_device_that_is_seen_alone_is_the_first(void **state)
{
    const struct worker_options options = {0};
    const struct worker_backend *cuda = worker_backend_find(&options, "cuda:3");

    (void)state;
    unsetenv(cuda->visible);
    assert_int_equal(worker_backend_index(cuda, "cuda:3"), 3);
    assert_int_equal(worker_backend_index(cuda, "cuda"), 0);
    worker_backend_see("cpu", "this machine"); /* it sees all devices */
    assert_null(getenv(cuda->visible));
    worker_backend_see("cuda:3", "GPU-3");
    assert_string_equal(getenv(cuda->visible), "GPU-3");
    assert_int_equal(worker_backend_index(cuda, "cuda:3"), 0);
    unsetenv(cuda->visible);
    assert_int_equal(worker_backend_index(&worker_backends[0], "auto"), 0);
}

static void what_is_built_in_needs_no_plugin(void **state)
{
    const struct worker_options options = {0};
    const struct backend *backend = NULL;
    struct error error;

    (void)state;
    assert_int_equal(worker_backend_load(worker_backend_find(&options, "cpu"), "/no/such/file",
                                         &backend, &error),
                     0);
    assert_ptr_equal(backend, backend_cpu());
    assert_int_equal(worker_backend_load(worker_backend_find(&options, "cuda"), "/no/such/file",
                                         &backend, &error),
                     -ENOENT);
    assert_non_null(strstr(error.text, "the backend for cuda cannot be loaded"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stand_for_kinds),
        cmocka_unit_test(configurations_stand_for_kinds),
        cmocka_unit_test(a_device_that_is_seen_alone_is_the_first),
        cmocka_unit_test(what_is_built_in_needs_no_plugin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
