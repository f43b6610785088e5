/* test_accelerator.c: the device that a section makes of an accelerator, and the arguments of its
 * worker. */
#include "daemon/devices/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

extern const struct device_driver device_driver_accelerator;

static struct device_config section_of(double speed, double bandwidth)
{
    static char name[] = "acc0", none[] = "";

    return (struct device_config){.name = name,
                                  .kind = &device_driver_accelerator.kind,
                                  .enabled = true,
                                  .slots = -1,
                                  .speed = speed,
                                  .bandwidth = bandwidth,
                                  .memory = UINT64_C(2) << 30,
                                  .calibration = none,
                                  .outside_file = none};
}

static struct json_object *config_of(const struct device *device)
{
    JSON_AUTO struct json_object *arguments = json_object_new_array();

    device_driver_accelerator.arguments(device, 0, arguments);
    assert_int_equal(json_object_array_length(arguments), 2);
    assert_string_equal(json_object_get_string(json_object_array_get_idx(arguments, 0)),
                        "--device-config");
    return json_tokener_parse(json_object_get_string(json_object_array_get_idx(arguments, 1)));
}

static void is_faster_and_has_the_memory_that_its_section_says(void **state)
{
    static const struct device_driver *const drivers[] = {&device_driver_accelerator, NULL};
    struct device_config section = section_of(1, 0);
    struct config config = {.devices = &section, .device_count = 1};
    struct devices devices = {.drivers = drivers};
    struct error error = {0};
    struct device *device = devices_add_section(&devices, &config, &section, &error);
    JSON_AUTO struct json_object *told = NULL;

    (void)state;
    assert_non_null(device);
    assert_string_equal(device->id, "accelerator-acc0");
    assert_string_equal(devices.type_names[device->type],
                        "simulated 30x, memory 10x, 5e-06 s a launch");
    assert_int_equal(device->memory_total, UINT64_C(2) << 30);
    assert_int_equal(device->slots, 1);
    told = config_of(device);
    assert_string_equal(json_get_string(told, "kind", ""), "simulated"); /* the worker's backend */
    assert_true(json_get_double(told, "speed", 0) == 30);
    assert_true(json_get_double(told, "bandwidth", 0) == 10);
    assert_int_equal(json_get_int(told, "memory", 0), INT64_C(2) << 30);
    assert_float_equal(device_driver_accelerator.step_seconds(device, 3, 1000), 0.1 + 0.005, 1e-12);
    devices_close(&devices);
}

static void its_section_multiplies(void **state)
{
    const struct device_config section = section_of(0.5, 2);
    const struct device device = {.driver = &device_driver_accelerator, .config = &section};
    JSON_AUTO struct json_object *told = config_of(&device);

    (void)state;
    assert_true(json_get_double(told, "speed", 0) == 15);
    assert_true(json_get_double(told, "bandwidth", 0) == 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_faster_and_has_the_memory_that_its_section_says),
        cmocka_unit_test(its_section_multiplies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
