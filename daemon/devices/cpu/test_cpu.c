/* test_cpu.c: the energy counters of the processors, read below a folder that stands for the
 * machine's: two packages, their parts, counters that begin again, and none that may be read. */
#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/devices/cpu/rapl.h"
#include "daemon/devices/host_probe.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[64];

/* Writes a file below the root, and makes its folders. */
static void put(const char *path, const char *text)
{
    char full[PATH_MAX];
    FILE *file;

    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void put_domain(const char *domain, const char *name, const char *energy)
{
    const char *const files[][2] = {
        {"name", name}, {"max_energy_range_uj", "1000000000\n"}, {"energy_uj", energy}};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "/sys/class/powercap/%s/%s", domain, files[i][0]);
        put(path, files[i][1]);
    }
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/traind-rapl.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[100];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void test_packages(void **state)
{
    static struct rapl rapl;
    double joules;

    (void)state;
    put_domain("intel-rapl:0", "package-0\n", "5000000\n");
    put_domain("intel-rapl:1", "package-1-die-0\n", "999000000\n");
    put_domain("intel-rapl:2", "psys\n", "1\n");
    put_domain("intel-rapl:0:0", "core\n", "1\n");
    put_domain("intel-rapl-mmio:0", "package-0\n", "1\n");
    put("/sys/class/powercap/dtpm/name", "package-7\n");
    rapl_open(&rapl, root);
    assert_int_equal(rapl.count, 2);
    assert_true(rapl_read(&rapl, &joules));
    assert_float_equal(joules, 0, 1e-12);
    put_domain("intel-rapl:0", "package-0\n", "7500000\n");
    put_domain("intel-rapl:1", "package-1-die-0\n", "500000\n"); /* it began again */
    assert_true(rapl_read(&rapl, &joules));
    assert_float_equal(joules, 2.5 + 1.5, 1e-12);
    put_domain("intel-rapl:0", "package-0\n", "8500000\n");
    assert_true(rapl_read(&rapl, &joules));
    assert_float_equal(joules, 5, 1e-12);
    put_domain("intel-rapl:0", "package-0\n", "no number\n");
    assert_false(rapl_read(&rapl, &joules));
}

static void test_none(void **state)
{
    static struct rapl rapl;
    double joules;

    (void)state;
    rapl_open(&rapl, root);
    assert_int_equal(rapl.count, 0);
    assert_false(rapl_read(&rapl, &joules));
    put_domain("intel-rapl:0", "package-0", "");
    rapl_open(&rapl, root);
    assert_int_equal(rapl.count, 0);
    rapl_open(&rapl, "/sys/class/powercap/no/such/folder");
    assert_int_equal(rapl.count, 0);
}

static void test_busy_seconds(void **state)
{
    double ticks = (double)sysconf(_SC_CLK_TCK);

    (void)state;
    assert_true(isnan(host_probe_busy_seconds(root)));
    put("/proc/stat", "cpu  100 20 3 99999 88888 4 5 777 60 50\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
    assert_float_equal(host_probe_busy_seconds(root), 132 / ticks, 1e-9);
    put("/proc/stat", "intr 5\n");
    assert_true(isnan(host_probe_busy_seconds(root)));
    assert_true(host_probe_busy_seconds("") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_packages, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_none, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_busy_seconds, make_root, remove_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
