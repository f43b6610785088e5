/* test_host_probe.c: the CPU probe on this machine and on made-up ones. */
#include "daemon/devices/host_probe.h"
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void make_folders(const char *path)
{
    char full[300];

    snprintf(full, sizeof full, "%s%s", temporary_folder, path);
    for (char *slash = full + strlen(temporary_folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
}

static void make_file(const char *path, const char *content)
{
    FILE *file;

    make_folders(path);
    file = fopen(temporary_path(path), "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void make_machine(void)
{
    make_file("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
                               "MemAvailable:   12000000 kB\n");
    make_file("/proc/cpuinfo",
              "processor\t: 0\nmodel\t\t: 79\nmodel name\t: Some Processor @ 2.0GHz\n"
              "flags\t\t: fpu avx avx2 fma unheard_of avx512f\n\n"
              "processor\t: 1\nmodel name\t: Some Processor @ 2.0GHz\n");
    make_file("/etc/machine-id", "0123456789abcdef\n");
}

static bool has_feature(const struct host_probe *probe, const char *name)
{
    for (int i = 0; i < probe->feature_count; i++)
        if (strcmp(probe->features[i], name) == 0)
            return true;
    return false;
}

static void without_limits_the_machine_counts(void **state)
{
    struct host_probe probe, again;
    struct error error = {0};
    cpu_set_t allowed;

    (void)state;
    make_machine();
    assert_int_equal(host_probe_read(temporary_folder, &probe, &error), 0);
    assert_string_equal(probe.model, "Some Processor @ 2.0GHz");
    assert_int_equal(probe.feature_count, 4);
    assert_true(has_feature(&probe, "avx2") && has_feature(&probe, "avx512f"));
    assert_false(has_feature(&probe, "avx512bw"));
    assert_int_equal(probe.memory_total, 16000000ull * 1024);
    assert_int_equal(host_probe_memory_used(temporary_folder, &probe), 4000000ull * 1024);
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_int_equal(probe.threads, CPU_COUNT(&allowed));
    assert_int_equal(host_probe_read(temporary_folder, &again, &error), 0);
    assert_string_equal(probe.id, again.id);
}

/* The smallest limit of the cgroup and of those above it counts. */
static void limits_of_cgroups_count(void **state)
{
    struct host_probe probe;
    struct error error = {0};

    (void)state;
    make_machine();
    make_file("/proc/self/cgroup", "1:name=systemd:/x\n0::/outer/inner\n");
    make_file("/sys/fs/cgroup/outer/cpu.max", "50000 100000\n");
    make_file("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
    make_file("/sys/fs/cgroup/outer/memory.max", "4096000000\n");
    make_file("/sys/fs/cgroup/outer/memory.current", "3000000000\n");
    make_file("/sys/fs/cgroup/outer/memory.stat",
              "anon 5\ninactive_file 1000000000\nactive_file 7\n");
    make_file("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
    make_file("/sys/fs/cgroup/outer/inner/memory.current", "1000000000\n");
    assert_int_equal(host_probe_read(temporary_folder, &probe, &error), 0);
    assert_true(probe.cores == 0.5);
    assert_int_equal(probe.threads, 1);
    assert_int_equal(probe.memory_total, 4096000000ull);
    assert_int_equal(host_probe_memory_used(temporary_folder, &probe), 2000000000ull);
}

/* What others use on the machine does not count in a cgroup that is empty. */
static void others_on_the_machine_do_not_fill_the_cgroup(void **state)
{
    struct host_probe probe;
    struct error error = {0};

    (void)state;
    make_machine();
    make_file("/proc/self/cgroup", "0::/\n");
    make_file("/sys/fs/cgroup/memory.max", "1000000000\n");
    make_file("/sys/fs/cgroup/memory.current", "100000000\n");
    assert_int_equal(host_probe_read(temporary_folder, &probe, &error), 0);
    assert_int_equal(host_probe_memory_used(temporary_folder, &probe), 100000000ull);
}

static void nothing_to_read_is_an_error(void **state)
{
    struct host_probe probe;
    struct error error = {0};

    (void)state;
    assert_int_equal(host_probe_read(temporary_folder, &probe, &error), -EIO);
    assert_non_null(strstr(error.text, "/proc/meminfo"));
}

static void this_machine(void **state)
{
    struct host_probe probe;
    struct error error = {0};

    (void)state;
    assert_int_equal(host_probe_read("", &probe, &error), 0);
    assert_true(probe.threads >= 1 && probe.cores > 0);
    assert_true(probe.memory_total > 64 << 20);
    assert_in_range(host_probe_memory_used("", &probe), 1, probe.memory_total);
}

static void pressure(void **state)
{
    (void)state;
    assert_true(isnan(host_probe_pressure(temporary_folder, "cpu")));
    make_file("/proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.00 total=8\n");
    make_file("/proc/pressure/memory", "full avg10=1\n");
    assert_true(host_probe_pressure(temporary_folder, "cpu") == 0.125);
    assert_true(isnan(host_probe_pressure(temporary_folder, "memory")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_limits_the_machine_counts, temporary_folder_make,
                                        temporary_folder_remove),
        cmocka_unit_test_setup_teardown(limits_of_cgroups_count, temporary_folder_make,
                                        temporary_folder_remove),
        cmocka_unit_test_setup_teardown(others_on_the_machine_do_not_fill_the_cgroup,
                                        temporary_folder_make, temporary_folder_remove),
        cmocka_unit_test_setup_teardown(nothing_to_read_is_an_error, temporary_folder_make,
                                        temporary_folder_remove),
        cmocka_unit_test_setup_teardown(pressure, temporary_folder_make, temporary_folder_remove),
        cmocka_unit_test(this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
