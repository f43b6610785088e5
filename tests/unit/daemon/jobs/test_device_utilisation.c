/* test_device_utilisation.c: the utilisation of a device by each user of a sharing service,
 * computed from step times; when that of a command is measured. */
#include "base/clock.h"
#include "daemon/devices/registry/registry.h"
#include "daemon/jobs/device_utilisation.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ATTEMPTS = 2 };

static const struct device_sharing service = {.name = "shared", .title = "a service"};

struct scene {
    struct jobs jobs;
    struct daemon daemon;
    struct devices devices;
    struct device device;
    struct predictions_table predictions;
    struct workload_table workloads;
    struct job job[ATTEMPTS];
    struct attempt attempt[ATTEMPTS];
    struct device_claim *there[ATTEMPTS];
};

static const double alone_seconds = 0.001;

/* Makes clients that train on one GPU, and whose workload was measured alone before. */
static struct scene *scene_make(void)
{
    struct scene *scene = calloc(1, sizeof *scene);

    scene->jobs.stopping = true; /* this test makes no decisions */
    scene->daemon.jobs = &scene->jobs;
    scene->jobs.daemon = &scene->daemon;
    scene->devices.list[0] = &scene->device;
    scene->devices.count = scene->devices.type_count = 1;
    strcpy(scene->devices.type_names[0], "a GPU");
    predictions_init(&scene->predictions, &scene->devices, NULL);
    scene->workloads.predictions = &scene->predictions;
    scene->device.driver = &device_driver_nvidia;
    scene->device.slots = -1;
    scene->device.claims = scene->there;
    scene->device.claim_count = ATTEMPTS;
    for (int i = 0; i < ATTEMPTS; i++) {
        struct attempt *attempt = &scene->attempt[i];

        scene->job[i].kind = JOB_NATIVE;
        scene->job[i].workload = workload_take(&scene->workloads, 1000, JOB_NATIVE, "a");
        assert_non_null(scene->job[i].workload);
        *attempt = (struct attempt){.daemon = &scene->daemon,
                                    .job = &scene->job[i],
                                    .claim = {.attempt = attempt,
                                              .devices = {&scene->device},
                                              .device_count = 1,
                                              .shared_by = &service},
                                    .report = {.has_progress = true}};
        scene->there[i] = &attempt->claim;
    }
    scene->job[0].workload->planned = true;
    workload_observe(scene->job[0].workload, 0, alone_seconds, 100);
    return scene;
}

static void scene_free(struct scene *scene)
{
    for (int i = 0; i < ATTEMPTS; i++)
        workload_drop(&scene->workloads, scene->job[i].workload);
    workload_table_release(&scene->workloads);
    predictions_release(&scene->predictions);
    free(scene);
}

static double share_after(struct scene *scene, double seconds)
{
    device_utilisation_take_steps(&scene->attempt[0], seconds);
    return scene->job[0].workload->service_share_on[0];
}

static void clients_tell_of_their_share(void **state)
{
    struct scene *scene = scene_make();

    (void)state;
    assert_true(fabs(share_after(scene, alone_seconds * 1.5) - 0.75) < 1e-9);
    scene_free(scene);
}

static void who_is_no_client_is_not_charged_to_them(void **state)
{
    struct scene *scene = scene_make();

    (void)state;
    scene->attempt[1].claim.shared_by = NULL;
    assert_true(share_after(scene, alone_seconds * 1.5) == 0);
    scene->attempt[1].claim.gone = true; /* a client that trains alone is not charged, either */
    assert_true(share_after(scene, alone_seconds * 1.5) == 0);
    scene_free(scene);
}

/* Whether a reading of an idle GPU counts for a command that runs there alone. */
static bool is_measured(double ran_for, double held_for)
{
    struct scene *scene = scene_make();
    struct device_claim *claim = &scene->attempt[0].claim;
    bool measured;

    scene->job[0].kind = JOB_COMMAND;
    scene->device.claim_count = 1;
    scene->attempt[0].started = clock_now() - ran_for;
    claim->shared_by = NULL;
    claim->holds_since = held_for > 0 ? clock_now() - held_for : 0;
    device_utilisation_take(&scene->daemon, &scene->device, 0.1);
    measured = claim->utilisation_is_measured;
    scene_free(scene);
    return measured;
}

/* A command imports its libraries first, and does not use the GPU yet. */
static void a_command_is_measured_when_it_holds_memory(void **state)
{
    (void)state;
    assert_false(is_measured(30, 0));
    assert_false(is_measured(30, 5));
    assert_true(is_measured(30, 11));
    assert_true(is_measured(61, 0));
}

/* The GPU is busy with, and steps are slowed down by, a job that came by another way. */
static void another_way_to_the_gpu_is_no_measurement(void **state)
{
    struct scene *scene = scene_make();
    struct device way = {.driver = &device_driver_vulkan, .slots = -1};
    struct device_claim *claim = &scene->attempt[0].claim, *others[] = {&scene->attempt[1].claim};

    (void)state;
    device_share_ledger(&way, &scene->device, true);
    way.claims = others;
    scene->device.claim_count = way.claim_count = 1;
    scene->attempt[0].started = scene->attempt[1].started = clock_now() - 100;
    scene->attempt[1].claim.devices[0] = &way;
    claim->shared_by = NULL;
    scene->job[0].kind = JOB_COMMAND;
    assert_false(device_utilisation_take_steps(&scene->attempt[0], alone_seconds * 2));
    assert_false(device_utilisation_take_steps(&scene->attempt[1], alone_seconds * 2));
    device_utilisation_take(&scene->daemon, &scene->device, 0.1);
    assert_false(claim->utilisation_is_measured);
    way.claim_count = 0;
    assert_true(device_utilisation_take_steps(&scene->attempt[0], alone_seconds));
    device_utilisation_take(&scene->daemon, &scene->device, 0.1);
    assert_true(claim->utilisation_is_measured);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_measured_when_it_holds_memory),
        cmocka_unit_test(another_way_to_the_gpu_is_no_measurement),
        cmocka_unit_test(clients_tell_of_their_share),
        cmocka_unit_test(who_is_no_client_is_not_charged_to_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
