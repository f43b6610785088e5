/* test_probe_nvidia.c: the probe of NVIDIA devices, against a stand-in for the driver's library
 * (tests/libraries/fake_nvml.c). */
#include "base/file.h"
#include "daemon/devices/nvidia/monitor.h"

#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char library[512], state_path[512], root[520];
static struct nvidia_probe *probe;

/* Sets what the driver answers from now on. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char text[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert_int_equal(file_replace(AT_FDCWD, state_path, text, strlen(text), 0600, 0, NULL), 0);
}

static int begin(void **state)
{
    const char *temporary = getenv("TMPDIR");
    ssize_t length = readlink("/proc/self/exe", library, sizeof library - 1);
    char *folder;

    (void)state;
    if (length < 0)
        return -1;
    library[length] = '\0';
    folder = strstr(library, "/unit/");
    if (!folder)
        return -1;
    strcpy(folder, "/libraries/fake_nvml.so");
    snprintf(state_path, sizeof state_path, "%s/nvml-state.%d", temporary ? temporary : "/tmp",
             (int)getpid());
    snprintf(root, sizeof root, "%s.root", state_path);
    setenv("FAKE_NVML_STATE", state_path, 1);
    probe = nvidia_probe_new(library, root);
    return probe ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    nvidia_probe_free(probe);
    unlink(state_path);
    return 0;
}

static void facts_of_a_device(void **state)
{
    struct nvidia_reading *reading;
    const struct nvidia_device *device;

    (void)state;
    say("driver 580.159.04\n"
        "gpu GPU-1 total=1000 reserved=100 used=300 model=H200 capability=9.0 temperature=41 "
        "power=120500 energy=5000 utilization=7 ecc=2\n"
        "gpu GPU-2 total=2000\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    assert_string_equal(reading->driver, "580.159.04");
    assert_int_equal(reading->cuda_version, 13000);
    assert_string_equal(reading->obstacle, "");
    assert_int_equal(reading->count, 2);
    device = &reading->devices[0];
    assert_string_equal(device->uuid, "GPU-1");
    assert_string_equal(device->name, "cuda:0");
    assert_string_equal(device->model, "H200");
    assert_int_equal(device->capability[0], 9);
    assert_int_equal(device->capability[1], 0);
    /* the driver's own memory does not count as a program's */
    assert_int_equal(device->memory_total, 900);
    assert_int_equal(device->memory_used, 300);
    assert_int_equal(device->temperature, 41);
    assert_int_equal(device->utilisation, 7);
    assert_true(fabs(device->power - 120.5) < 1e-9);
    assert_true(fabs(device->energy - 5.0) < 1e-9);
    assert_int_equal(device->ecc_errors, 2);
    assert_int_equal(device->health, NVIDIA_HEALTHY);
    assert_string_equal(device->health_reason, "");
    device = &reading->devices[1];
    assert_string_equal(device->name, "cuda:1");
    assert_int_equal(device->temperature, -1); /* it has no such sensor */
    assert_true(isnan(device->power));
    assert_int_equal(device->ecc_errors, -1);
    nvidia_reading_free(reading);
}

/* A driver that does not know its own answers. */
static void nonsense_is_not_known(void **state)
{
    struct nvidia_reading *reading;
    const struct nvidia_device *device;

    (void)state;
    say("driver 1\n"
        "gpu GPU-1 total=1000 reserved=2000 utilization=101 temperature=4294967295 "
        "power=4294967295\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    device = &reading->devices[0];
    assert_int_equal(device->memory_total, 0);
    assert_int_equal(device->utilisation, -1);
    assert_int_equal(device->temperature, -1);
    assert_true(isnan(device->power));
    nvidia_reading_free(reading);
}

static void instances_stand_for_a_divided_gpu(void **state)
{
    struct nvidia_reading *reading;

    (void)state;
    say("driver 1\n"
        "gpu GPU-1 total=1000 mig=1 temperature=50\n"
        "mig MIG-1 parent=GPU-1 instance=3 total=400 used=10\n"
        "mig MIG-2 parent=GPU-1 instance=4 total=500 used=20\n"
        "xid GPU-1 number=64 instance=4\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    assert_int_equal(reading->count, 2);
    assert_string_equal(reading->devices[0].uuid, "MIG-1");
    assert_string_equal(reading->devices[0].name, "cuda:0.0");
    assert_int_equal(reading->devices[0].memory_total, 400);
    assert_int_equal(reading->devices[0].temperature, 50); /* that of its GPU */
    assert_string_equal(reading->devices[1].name, "cuda:0.1");
    nvidia_reading_free(reading);

    /* an error of one instance does not belong to the other; the event came before the first
     * reading */
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    assert_int_equal(reading->devices[0].health, NVIDIA_HEALTHY);
    nvidia_reading_free(reading);
    say("driver 1\n"
        "gpu GPU-1 total=1000 mig=1\n"
        "mig MIG-1 parent=GPU-1 instance=3 total=400\n"
        "mig MIG-2 parent=GPU-1 instance=4 total=500\n"
        "xid GPU-1 number=64 instance=4\n"
        "xid GPU-1 number=64 instance=4\n"
        "xid GPU-1 number=79\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    /* only error 79, which concerns all instances */
    assert_int_equal(reading->devices[0].failures, 1);
    assert_int_equal(reading->devices[1].failures, 2);
    nvidia_reading_free(reading);
}

static void errors_of_programs_are_not_the_devices(void **state)
{
    static const int programs[] = {13, 31, 43, 45, 63, 69, 94}, devices[] = {48, 79, 95, 119};
    struct nvidia_reading *reading;
    char text[512];
    size_t length;

    (void)state;
    say("driver 1\ngpu GPU-1 total=1000\n");
    nvidia_reading_free(nvidia_probe_read(probe, NVIDIA_READ));
    length = (size_t)snprintf(text, sizeof text, "driver 1\ngpu GPU-1 total=1000\n");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "xid GPU-1 number=%d\n",
                                   programs[i]);
    say("%s", text);
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    assert_int_equal(reading->devices[0].health, NVIDIA_HEALTHY);
    nvidia_reading_free(reading);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "xid GPU-1 number=%d\n",
                                   devices[i]);
        say("%s", text);
        reading = nvidia_probe_read(probe, NVIDIA_READ);
        assert_int_equal(reading->devices[0].health, NVIDIA_FAILED);
        assert_int_equal(reading->devices[0].failures, i + 1);
        snprintf(text + length, sizeof text - length, "Xid %d:", devices[i]);
        assert_non_null(strstr(reading->devices[0].health_reason, text + length));
        text[length] = '\0';
        nvidia_reading_free(reading);
    }
}

static void memory_that_fails(void **state)
{
    struct nvidia_reading *reading;

    (void)state;
    say("driver 1\ngpu GPU-1 total=1000 ecc=3 remap_pending=1\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ); /* earlier errors are not reported */
    assert_int_equal(reading->devices[0].health, NVIDIA_HEALTHY);
    assert_non_null(strstr(reading->devices[0].health_reason, "next reset"));
    nvidia_reading_free(reading);
    say("driver 1\ngpu GPU-1 total=1000 ecc=4\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    assert_int_equal(reading->devices[0].health, NVIDIA_FAILED);
    assert_int_equal(reading->devices[0].failures, 1);
    assert_non_null(strstr(reading->devices[0].health_reason, "4 memory errors"));
    nvidia_reading_free(reading);
    say("driver 1\ngpu GPU-1 total=1000 ecc=4 remap_failed=1\n");
    for (int i = 0; i < 2; i++) { /* it is reported once */
        reading = nvidia_probe_read(probe, NVIDIA_READ);
        assert_int_equal(reading->devices[0].failures, 2);
        nvidia_reading_free(reading);
    }
}

static void devices_come_and_go(void **state)
{
    struct nvidia_reading *reading;

    (void)state;
    say("driver 1\ngpu GPU-1 total=1000 used=100\ngpu GPU-2 total=2000\n");
    nvidia_reading_free(nvidia_probe_read(probe, NVIDIA_READ));

    say("driver 1\ngpu GPU-1 total=1000 lost=1\ngpu GPU-2 total=2000\ngpu GPU-3 total=3000\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    assert_int_equal(reading->count, 2); /* a rescan finds the third one */
    assert_string_equal(reading->devices[0].uuid, "GPU-1");
    assert_int_equal(reading->devices[0].health, NVIDIA_LOST);
    assert_non_null(strstr(reading->devices[0].health_reason, "is lost"));
    assert_int_equal(reading->devices[0].memory_total, 1000); /* what is known of it stays */
    assert_int_equal(reading->devices[0].memory_used, 0);
    assert_int_equal(reading->devices[1].health, NVIDIA_HEALTHY);
    nvidia_reading_free(reading);

    say("driver 1\ngpu GPU-2 total=2000\ngpu GPU-3 total=3000\n");
    reading = nvidia_probe_read(probe, NVIDIA_RESCAN);
    assert_int_equal(reading->count, 3);
    assert_int_equal(reading->devices[0].health, NVIDIA_LOST);
    assert_non_null(strstr(reading->devices[0].health_reason, "vanished"));
    assert_string_equal(reading->devices[2].uuid, "GPU-3");
    nvidia_reading_free(reading);

    say("driver 1\ngpu GPU-1 total=1000\ngpu GPU-2 total=2000\ngpu GPU-3 total=3000\n");
    reading = nvidia_probe_read(probe, NVIDIA_RESCAN);
    assert_int_equal(reading->devices[0].health, NVIDIA_HEALTHY);
    nvidia_reading_free(reading);

    /* the driver itself is unloaded */
    say("nothing\n");
    reading = nvidia_probe_read(probe, NVIDIA_RESCAN);
    assert_int_equal(reading->count, 3);
    assert_int_equal(reading->devices[1].health, NVIDIA_LOST);
    assert_non_null(strstr(reading->obstacle, "driver is not loaded"));
    nvidia_reading_free(reading);
}

static void machines_without_a_driver(void **state)
{
    struct nvidia_probe *other = nvidia_probe_new("libnvidia-ml-that-is-not-there.so.1", "");
    struct nvidia_reading *reading;

    (void)state;
    reading = nvidia_probe_read(other, NVIDIA_READ);
    assert_int_equal(reading->count, 0);
    assert_non_null(strstr(reading->obstacle, "cannot be loaded"));
    nvidia_reading_free(reading);
    nvidia_probe_free(other);

    other = nvidia_probe_new("libc.so.6", ""); /* a library that is not NVML */
    reading = nvidia_probe_read(other, NVIDIA_READ);
    assert_non_null(strstr(reading->obstacle, "is not NVIDIA's"));
    nvidia_reading_free(reading);
    nvidia_probe_free(other);
}

/* Starts a child with a child of its own, which waits until it is killed. *grandchild receives its
 * pid. */
static pid_t begin_family(pid_t *grandchild)
{
    int channel[2];
    pid_t child;

    assert_int_equal(pipe(channel), 0);
    child = fork();
    if (child == 0) {
        pid_t pid = fork();

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
        if (pid > 0 && write(channel[1], &pid, sizeof pid) != sizeof pid)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(channel[0], grandchild, sizeof *grandchild), sizeof *grandchild);
    close(channel[0]);
    close(channel[1]);
    return child;
}

static void memory_has_owners(void **state)
{
    struct nvidia_reading *reading;
    const struct nvidia_device *device;
    struct nvidia_use use;
    pid_t child, grandchild, self = getpid();
    const struct passwd *user = getpwuid(getuid());

    (void)state;
    child = begin_family(&grandchild);
    say("driver 1\n"
        "gpu GPU-1 total=10000 used=1500\n"
        "process GPU-1 pid=%d memory=700\n"
        "process GPU-1 pid=%d memory=300\n"
        "process GPU-1 pid=%d memory=350 graphics=1\n",
        (int)grandchild, (int)self, (int)self);
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    device = &reading->devices[0];
    assert_int_equal(device->process_count, 2); /* a process in both lists counts once */
    assert_int_equal(device->processes[0].pid, grandchild);
    assert_true(device->processes[0].visible);
    assert_int_equal(device->processes[0].ancestors[1], child);
    assert_int_equal(device->processes[1].memory, 350);
    assert_string_equal(device->processes[1].command, "test_probe_nvid"); /* 15 letters are kept */
    assert_int_equal(device->processes[1].uid, getuid());
    if (user)
        assert_string_equal(device->processes[1].user, user->pw_name);

    /* the job's pid is that of the child, whose child holds the memory */
    use = nvidia_device_use(device, &child, 1, 5000);
    assert_int_equal(use.ours, 700);
    assert_int_equal(use.outside, 800); /* includes memory that no listed process holds */
    assert_false(use.by_booking);
    use = nvidia_device_use(device, NULL, 0, 0);
    assert_int_equal(use.outside, 1500);
    nvidia_reading_free(reading);
    kill(grandchild, SIGKILL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void processes_that_cannot_be_seen(void **state)
{
    struct nvidia_reading *reading;
    struct nvidia_use use;
    pid_t self = getpid();

    (void)state;
    /* in a container: no list, or pids of the host */
    say("driver 1\n"
        "gpu GPU-1 total=10000 used=1500 list=0\n"
        "gpu GPU-2 total=10000\n"
        "process GPU-2 pid=99999999 memory=900\n");
    reading = nvidia_probe_read(probe, NVIDIA_READ);
    use = nvidia_device_use(&reading->devices[0], &self, 1, 600);
    assert_true(use.by_booking);
    assert_int_equal(use.ours, 600);
    assert_int_equal(use.outside, 900);
    use = nvidia_device_use(&reading->devices[0], &self, 1, 6000);
    assert_int_equal(use.outside, 0);
    use = nvidia_device_use(&reading->devices[0], NULL, 0, 0); /* no job runs there */
    assert_int_equal(use.outside, 1500);
    assert_false(reading->devices[1].processes[0].visible);
    use = nvidia_device_use(&reading->devices[1], &self, 1, 500);
    assert_int_equal(use.outside, 400);
    nvidia_reading_free(reading);
}

/* ---- sleep ----------------------------------------------------------------------------------- */

static const char device_folder[] = "/sys/bus/pci/drivers/nvidia/0000:01:00.0/power";

static void power_set(const char *control, const char *status)
{
    const char *const files[][2] = {{"control", control}, {"runtime_status", status}};
    char path[1024];

    mkdir(root, 0700);
    snprintf(path, sizeof path, "%s%s", root, device_folder);
    for (char *end = path + strlen(root); (end = strchr(end + 1, '/'));) {
        *end = '\0';
        mkdir(path, 0700);
        *end = '/';
    }
    mkdir(path, 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[32];

        snprintf(path, sizeof path, "%s%s/%s", root, device_folder, files[i][0]);
        snprintf(line, sizeof line, "%s\n", files[i][1]);
        assert_int_equal(file_replace(AT_FDCWD, path, line, strlen(line), 0600, 0, NULL), 0);
    }
}

static int end_power(void **state)
{
    char path[1024];

    snprintf(path, sizeof path, "%s%s/control", root, device_folder);
    unlink(path);
    snprintf(path, sizeof path, "%s%s/runtime_status", root, device_folder);
    unlink(path);
    for (char *last = strrchr(path, '/'); last && strlen(path) > strlen(root);
         last = strrchr(path, '/')) {
        *last = '\0';
        rmdir(path);
    }
    return end(state);
}

/* Reads once, and expects this of the first device. */
static void expect(enum nvidia_request request, bool rests, int utilisation, size_t count)
{
    struct nvidia_reading *reading = nvidia_probe_read(probe, request);

    assert_int_equal(reading->rests, rests);
    assert_int_equal(reading->count, count);
    assert_int_equal(reading->devices[0].utilisation, utilisation);
    assert_int_equal(reading->devices[0].memory_used, 100);
    assert_int_equal(reading->devices[0].health, NVIDIA_HEALTHY);
    assert_string_equal(reading->driver, "1");
    assert_int_equal(reading->cuda_version, 13000);
    nvidia_reading_free(reading);
}

static const char idle_gpu[] = "driver 1\ngpu GPU-1 total=1000 used=100 utilization=0 power=9000\n";
static const char busy_gpu[] = "driver 1\ngpu GPU-1 total=1000 used=100 utilization=50\n";
static const char two_gpus[] = "driver 1\ngpu GPU-1 total=1000 used=100 utilization=0\n"
                               "gpu GPU-2 total=1000\n";

static void a_gpu_that_sleeps_is_not_woken(void **state)
{
    struct nvidia_reading *reading;

    (void)state;
    power_set("auto", "suspended");
    say("%s", idle_gpu);
    expect(NVIDIA_READ_UNLESS_IDLE, false, 0, 1); /* nothing is known of it yet */
    say("%s", busy_gpu);
    expect(NVIDIA_READ_UNLESS_IDLE, true, 0, 1);
    reading = nvidia_probe_read(probe, NVIDIA_READ_UNLESS_IDLE);
    assert_true(isnan(reading->devices[0].power));
    nvidia_reading_free(reading);
    expect(NVIDIA_READ, false, 50, 1);
    expect(NVIDIA_READ_UNLESS_IDLE, true, 0, 1);
    power_set("auto", "active"); /* somebody woke it, and it was busy when it was read last */
    expect(NVIDIA_READ_UNLESS_IDLE, false, 50, 1);
    expect(NVIDIA_READ_UNLESS_IDLE, false, 50, 1);
}

/* While the library is initialised, and with every question, it would stay awake. */
static void an_idle_gpu_may_fall_asleep(void **state)
{
    (void)state;
    power_set("auto", "active");
    say("%s", idle_gpu);
    expect(NVIDIA_READ_UNLESS_IDLE, false, 0, 1);
    say("%s", two_gpus);
    expect(NVIDIA_READ_UNLESS_IDLE, true, 0, 1); /* it has just been read */
    expect(NVIDIA_READ, false, 0, 2);            /* the library was initialised anew */
}

/* The search for processes that hold memory of a GPU: none does of one that sleeps. */
static void a_look_wakes_none(void **state)
{
    (void)state;
    power_set("auto", "active");
    say("%s", idle_gpu);
    expect(NVIDIA_READ_UNLESS_IDLE, false, 0, 1);
    say("%s", busy_gpu);
    expect(NVIDIA_READ_UNLESS_IDLE, true, 0, 1); /* it has just been read */
    expect(NVIDIA_READ_UNLESS_ASLEEP, false, 50, 1);
    power_set("auto", "suspended");
    say("%s", two_gpus);
    expect(NVIDIA_READ_UNLESS_ASLEEP, true, 0, 1);
    power_set("auto", "active");
    expect(NVIDIA_READ_UNLESS_ASLEEP, false, 0, 2); /* the library was closed meanwhile */
}

static void a_gpu_that_stays_on_is_read(void **state)
{
    (void)state;
    power_set("on", "active");
    say("%s", idle_gpu);
    expect(NVIDIA_READ_UNLESS_IDLE, false, 0, 1);
    say("%s", two_gpus);
    expect(NVIDIA_READ_UNLESS_IDLE, false, 0, 1); /* … and the library stays initialised */
}

/* ---- the monitor ----------------------------------------------------------------------------- */

struct watcher {
    uv_loop_t loop;
    struct nvidia_monitor *monitor;
    int readings, answers, wanted;
    size_t devices;
    bool rested;
};

static void on_reading(void *data, const struct nvidia_reading *reading)
{
    struct watcher *watcher = data;

    watcher->devices = reading->count;
    if (++watcher->readings >= watcher->wanted)
        uv_stop(&watcher->loop);
}

static void on_refreshed(void *data)
{
    ((struct watcher *)data)->answers++;
}

static void readings_arrive_on_the_loop(void **state)
{
    struct watcher watcher = {.wanted = 1};

    (void)state;
    say("driver 1\ngpu GPU-1 total=1000\n");
    uv_loop_init(&watcher.loop);
    assert_int_equal(nvidia_monitor_start(&watcher.loop, library, root, on_reading, &watcher,
                                          &watcher.monitor, NULL),
                     0);
    nvidia_monitor_refresh(watcher.monitor, on_refreshed, &watcher);
    assert_int_equal(watcher.answers, 0); /* there is no reading yet */
    uv_run(&watcher.loop, UV_RUN_DEFAULT);
    assert_int_equal(watcher.devices, 1);
    assert_non_null(nvidia_monitor_reading(watcher.monitor));
    while (watcher.answers == 0)
        uv_run(&watcher.loop, UV_RUN_ONCE);
    nvidia_monitor_refresh(watcher.monitor, on_refreshed, &watcher);
    assert_int_equal(watcher.answers, 2); /* the reading is recent enough */

    watcher.wanted = watcher.readings + 2;
    nvidia_monitor_watch(watcher.monitor, true); /* it reads without a request */
    uv_run(&watcher.loop, UV_RUN_DEFAULT);
    assert_true(watcher.readings >= watcher.wanted);
    nvidia_monitor_stop(watcher.monitor);
    uv_run(&watcher.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&watcher.loop), 0);
}

static void on_looked(void *data)
{
    struct watcher *watcher = data;

    watcher->answers++;
    watcher->rested = nvidia_monitor_reading(watcher->monitor)->rests;
    uv_stop(&watcher->loop);
}

static void a_look_of_the_monitor_wakes_none_unless_it_must(void **state)
{
    struct watcher watcher = {.wanted = 1};

    (void)state;
    power_set("auto", "suspended");
    say("%s", idle_gpu);
    uv_loop_init(&watcher.loop);
    assert_int_equal(nvidia_monitor_start(&watcher.loop, library, root, on_reading, &watcher,
                                          &watcher.monitor, NULL),
                     0);
    uv_run(&watcher.loop, UV_RUN_DEFAULT);
    watcher.wanted = INT_MAX;
    for (int wakes = 0; wakes < 2; wakes++) {
        nvidia_monitor_look(watcher.monitor, wakes, on_looked, &watcher);
        uv_run(&watcher.loop, UV_RUN_DEFAULT);
        assert_int_equal(watcher.answers, wakes + 1);
        assert_int_equal(watcher.rested, !wakes);
    }
    nvidia_monitor_stop(watcher.monitor);
    uv_run(&watcher.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&watcher.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(facts_of_a_device, begin, end),
        cmocka_unit_test_setup_teardown(nonsense_is_not_known, begin, end),
        cmocka_unit_test_setup_teardown(instances_stand_for_a_divided_gpu, begin, end),
        cmocka_unit_test_setup_teardown(errors_of_programs_are_not_the_devices, begin, end),
        cmocka_unit_test_setup_teardown(memory_that_fails, begin, end),
        cmocka_unit_test_setup_teardown(devices_come_and_go, begin, end),
        cmocka_unit_test_setup_teardown(machines_without_a_driver, begin, end),
        cmocka_unit_test_setup_teardown(memory_has_owners, begin, end),
        cmocka_unit_test_setup_teardown(processes_that_cannot_be_seen, begin, end),
        cmocka_unit_test_setup_teardown(a_gpu_that_sleeps_is_not_woken, begin, end_power),
        cmocka_unit_test_setup_teardown(an_idle_gpu_may_fall_asleep, begin, end_power),
        cmocka_unit_test_setup_teardown(a_look_wakes_none, begin, end_power),
        cmocka_unit_test_setup_teardown(a_gpu_that_stays_on_is_read, begin, end_power),
        cmocka_unit_test_setup_teardown(a_look_of_the_monitor_wakes_none_unless_it_must, begin,
                                        end_power),
        cmocka_unit_test_setup_teardown(readings_arrive_on_the_loop, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
