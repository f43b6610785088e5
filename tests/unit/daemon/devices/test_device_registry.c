/* test_device_registry.c: rules that every driver of the registry must keep. */
#include "daemon/devices/registry/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void kinds_have_names_of_their_own(void **state)
{
    const struct device_kind *kind;
    int hosts = 0, by_section = 0;

    (void)state;
    for (size_t i = 0; (kind = device_registry_kind(i)); i++) {
        assert_ptr_equal(kind, &device_registry[i]->kind);
        assert_ptr_equal(device_kind_find(device_registry_kind, kind->name), kind);
        assert_string_not_equal(kind->name, DEVICES_GPU);
        assert_string_not_equal(kind->name, DEVICES_ANY);
        assert_int_equal(strspn(kind->name, "abcdefghijklmnopqrstuvwxyz0123456789-"),
                         strlen(kind->name));
        assert_true(i < DEVICE_KINDS_MAX);
        hosts += kind->is_host;
        by_section += kind->naming == DEVICE_NAMED_BY_SECTION;
    }
    assert_int_equal(hosts, 1);
    assert_true(by_section >= 1);
    assert_non_null(device_kind_find(device_registry_kind, DEVICE_HOST));
    assert_null(device_kind_find(device_registry_kind, "abacus"));
}

static void what_a_kind_promises_its_driver_does(void **state)
{
    (void)state;
    for (size_t i = 0; device_registry[i]; i++) {
        const struct device_driver *driver = device_registry[i];

        if (driver->kind.has_backend)
            assert_non_null(driver->plugin);
        if (driver->plugin || driver->warm_workers)
            assert_true(driver->kind.has_backend);
        if (driver->sharing)
            assert_true(driver->sharing->name && driver->sharing->title &&
                        driver->sharing->variable && driver->sharing->program);
        if (driver->start)
            assert_non_null(driver->stop);
        if (driver->kind.naming == DEVICE_NAMED_BY_SECTION) {
            assert_non_null(driver->configure); /* its memory and slots */
            assert_non_null(driver->arguments); /* how the worker must compute */
        }
    }
}

/* The user's own variables win over those for a command's devices. */
static void environments_leave_what_is_there(void **state)
{
    static const struct device_environment command = {
        .ids = "an-id", .memory_part = 0.5, .memory_declared = true};

    (void)state;
    for (size_t i = 0; device_registry[i]; i++) {
        JSON_AUTO struct json_object *variables = json_object_new_object();
        JSON_AUTO struct json_object *before = NULL;

        if (!device_registry[i]->environment)
            continue;
        device_registry[i]->environment(&command, variables);
        json_object_object_foreach (variables, name, value) {
            assert_non_null(value);
            if (strncmp(name, "TRAIND_", 7) != 0) /* those are ours, whatever a job says */
                json_set_string(variables, name, "mine");
        }
        before = json_tokener_parse(json_text(variables, NULL));
        device_registry[i]->environment(&command, variables);
        assert_true(json_object_equal(variables, before));
    }
}

/* A section makes a device of each kind that allows it, with the configured memory. */
static void sections_make_devices(void **state)
{
    const struct device_kind *kind;

    (void)state;
    for (size_t i = 0; (kind = device_registry_kind(i)); i++) {
        char name[] = "d0", none[] = "";
        struct device_config section = {.name = name,
                                        .kind = kind,
                                        .enabled = true,
                                        .slots = -1,
                                        .speed = 2,
                                        .memory = 4096,
                                        .calibration = none,
                                        .outside_file = none};
        struct config config = {.devices = &section, .device_count = 1};
        struct devices devices = {.drivers = device_registry};
        struct error error = {0};
        struct device *device;
        JSON_AUTO struct json_object *arguments = json_object_new_array();

        if (!device_section_makes_device(&section))
            continue;
        device = devices_add_section(&devices, &config, &section, &error);
        assert_non_null(device);
        assert_ptr_equal(device->driver, device_registry[i]);
        assert_int_equal(device->memory_total, 4096);
        assert_true(device->trains && device->slots >= 1);
        assert_true(device_matches(device, kind->name) && device_matches(device, DEVICES_GPU));
        assert_ptr_equal(devices_find(&devices, device->id), device);
        device->driver->arguments(device, 0, arguments);
        assert_true(json_object_array_length(arguments) > 0);
        devices_close(&devices);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_have_names_of_their_own),
        cmocka_unit_test(what_a_kind_promises_its_driver_does),
        cmocka_unit_test(environments_leave_what_is_there),
        cmocka_unit_test(sections_make_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
