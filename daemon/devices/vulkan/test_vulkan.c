/* test_vulkan.c: what the answer of `traind-worker probe` says of the devices of Vulkan, and which
 * of them are GPUs that CUDA drives, too. */
#include "daemon/devices/device.h"
#include "daemon/devices/vulkan/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct vulkan_reading *reading_of(const char *text)
{
    struct vulkan_reading *reading = calloc(1, sizeof *reading);
    JSON_AUTO struct json_object *answer = json_tokener_parse(text);

    assert_non_null(reading);
    assert_non_null(answer);
    vulkan_reading_take(reading, answer);
    return reading;
}

/* The largest heap of the device's own counts; what others hold is what the budget lacks. */
static void takes_what_the_driver_says(void **state)
{
    struct vulkan_reading *reading = reading_of(
        "{'devices':[{'device':'vulkan:1','id':'vulkan-00','type':'discrete','model':'M',"
        "'driver':'radv 22','features':'discrete vulkan-1.3','heaps':["
        "{'on_device':false,'bytes':9000,'budget':8000,'used':0},"
        "{'on_device':true,'bytes':256,'budget':256,'used':0},"
        "{'on_device':true,'bytes':4000,'budget':3000,'used':10}]}]}");
    const struct vulkan_device *device = &reading->devices[0];

    (void)state;
    assert_int_equal(reading->count, 1);
    assert_string_equal(device->name, "vulkan:1");
    assert_string_equal(device->type, "discrete");
    assert_int_equal(device->memory_total, 4000);
    assert_int_equal(device->memory_used, 1000);
    assert_true(device->use_is_known && !device->shares_memory && !device->is_software);
    assert_int_equal(json_object_array_length(device->heaps), 3);
    vulkan_reading_free(reading);
}

static void a_driver_without_budget_knows_no_use(void **state)
{
    struct vulkan_reading *reading = reading_of(
        "{'devices':[{'device':'vulkan:0','id':'vulkan-01','is_software':true,"
        "'shares_memory':true,'heaps':[{'on_device':true,'bytes':4000,'budget':0,'used':0}]}]}");

    (void)state;
    assert_int_equal(reading->devices[0].memory_used, 0);
    assert_true(!reading->devices[0].use_is_known && reading->devices[0].shares_memory &&
                reading->devices[0].is_software);
    vulkan_reading_free(reading);
}

static void wrong_answers_make_no_device(void **state)
{
    static const char *const wrong[] = {
        "{'devices':[],'reason':'no driver for Vulkan is installed'}",
        "{'devices':7,'reason':'no driver for Vulkan is installed'}",
        "{'devices':[{'device':'vulkan:0'},[]],'reason':'no driver for Vulkan is installed'}",
        "{'devices':[{'id':'vulkan-00'}],'reason':'no driver for Vulkan is installed'}"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct vulkan_reading *reading = reading_of(wrong[i]);

        assert_int_equal(reading->count, 0);
        assert_string_equal(reading->obstacle, "no driver for Vulkan is installed");
        vulkan_reading_free(reading);
    }
}

static void more_devices_than_fit_are_left_out(void **state)
{
    JSON_AUTO struct json_object *answer = json_object_new_object();
    struct json_object *list = json_object_new_array();
    struct vulkan_reading *reading = calloc(1, sizeof *reading);

    (void)state;
    assert_non_null(reading);
    json_set(answer, "devices", list);
    for (int i = 0; i < VULKAN_DEVICES_MAX + 5; i++)
        json_object_array_add(list, json_tokener_parse("{'device':'vulkan:0','id':'vulkan-00'}"));
    vulkan_reading_take(reading, answer);
    assert_int_equal(reading->count, VULKAN_DEVICES_MAX);
    vulkan_reading_free(reading);
}

/* Who asks while an answer is taken waits for the next one, and nobody is forgotten. There is no
 * worker beside this program, so each reading fails at once. */
static struct vulkan_probe *asked;
static int readings, told[2];

static void on_told(void *data)
{
    ++*(int *)data;
}

static void ask_again(struct daemon *daemon, const struct vulkan_reading *reading)
{
    (void)daemon;
    assert_true(reading->failed && reading->obstacle[0]);
    if (readings++ == 0)
        vulkan_probe_read(asked, on_told, &told[1]);
}

static void who_asks_meanwhile_is_told(void **state)
{
    static const struct device_driver *const none[] = {NULL};
    struct devices devices = {.drivers = none};
    struct daemon daemon = {.devices = &devices};

    (void)state;
    asked = vulkan_probe_new(&daemon, "", ask_again);
    vulkan_probe_read(asked, on_told, &told[0]);
    assert_int_equal(readings, 2);
    assert_int_equal(told[0], 1);
    assert_int_equal(told[1], 1);
    vulkan_probe_free(asked);
}

static void the_same_uuid_is_the_same_gpu(void **state)
{
    (void)state;
    assert_true(vulkan_is_same_gpu("vulkan-0a1b-22", "GPU-0a1b-22"));
    assert_false(vulkan_is_same_gpu("vulkan-0a1b-22", "GPU-0a1b-23"));
    assert_false(vulkan_is_same_gpu("vulkan-0a1b-22", "cpu"));
    assert_false(vulkan_is_same_gpu("GPU-0a1b-22", "GPU-0a1b-22"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_the_driver_says),
        cmocka_unit_test(a_driver_without_budget_knows_no_use),
        cmocka_unit_test(wrong_answers_make_no_device),
        cmocka_unit_test(more_devices_than_fit_are_left_out),
        cmocka_unit_test(who_asks_meanwhile_is_told),
        cmocka_unit_test(the_same_uuid_is_the_same_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
