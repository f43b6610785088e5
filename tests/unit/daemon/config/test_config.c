/* test_config.c: the configuration's defaults, files and drop-ins, and the sentences of its
 * errors. */
#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/config/config.h"
#include "daemon/devices/registry/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[200], path[256];

static int make_folder(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/config.XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/traind.conf", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int read_text(const char *text, struct config *config, struct error *error)
{
    assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0600, 0, NULL), 0);
    config_init(config, device_registry_kind);
    return config_read_file(config, path, error);
}

static void values_of_each_type(void **state)
{
    struct config config;
    struct error error = {0};

    (void)state;
    assert_int_equal(read_text("# comment\n"
                               "[Access]\n"
                               "AdminGroup = wheel\n"
                               "MessageTimeout=500 ms\n"
                               "\n"
                               "[Jobs]\n"
                               "CpuSlots = 4\n"
                               "HighWatermarkRatio = 0.5\n"
                               "[Checkpoints]\n"
                               "DatabaseLimit = 1 GiB\n",
                               &config, &error),
                     0);
    assert_string_equal(config.admin_group, "wheel");
    assert_true(config.message_timeout_seconds == 0.5);
    assert_int_equal(config.cpu_slots, 4);
    assert_true(config.high_watermark_ratio == 0.5);
    assert_int_equal(config.database_limit_bytes, 1 << 30);
    assert_int_equal(config.retry_limit, 3); /* a default */
    config_release(&config);
}

static void mistakes_name_line_and_remedy(void **state)
{
    static const struct {
        const char *text, *sentence;
    } mistakes[] = {
        {"[Jobs]\n\nCpuSlot = 4\n",
         "traind.conf:3: there is no key \"CpuSlot\"; did you mean \"CpuSlots\"?"},
        {"[Job]\nCpuSlots = 4\n",
         "traind.conf:2: there is no section \"Job\"; did you mean \"Jobs\"?"},
        {"[Jobs]\nCpuSlots = many\n",
         "traind.conf:2: CpuSlots has to be a whole number, not \"many\""},
        {"[Jobs]\nCpuSlots = 1.5\n", "traind.conf:2: CpuSlots has to be a whole number"},
        {"[Jobs]\nCpuSlots = -1\n", "traind.conf:2: CpuSlots has to lie between 0 and 1024"},
        {"[Jobs]\nHighWatermarkRatio = nan\n",
         "traind.conf:2: HighWatermarkRatio has to be a number"},
        {"[Jobs]\nStopGrace = -1 s\n", "traind.conf:2: StopGrace"},
        {"[Checkpoints]\nDatabaseLimit = 12 elephants\n", "has to be a size"},
        {"[Access]\nMessageTimeout = \n", "traind.conf:2: MessageTimeout has to be a duration"},
        {"CpuSlots = 4\n", "traind.conf:1: the key \"CpuSlots\" is in no section: a line such as "
                           "[Jobs] has to come before it"},
        {"[Jobs\nCpuSlots = 4\n", "traind.conf:2: the key \"CpuSlots\" is in no section"},
        {"[Jobs]\nwhat is this\n", "traind.conf:2: neither"},
        {"[Jobs\n", "traind.conf:1: neither"},
        {"[Jobs]\nHighWatermarkRatio = 1.2\n",
         "traind.conf:2: HighWatermarkRatio has to lie between 0 and 1, not \"1.2\""},
        {"[Jobs]\nLowWatermarkRatio = 0.9\n",
         "traind.conf:2: LowWatermarkRatio (0.9) may not be above HighWatermarkRatio (0.85)"},
        {"[Device]\nSpeed = 2\n",
         "traind.conf:2: the section of a device names it, such as [Device cpu]"},
        {"[Nvidia]\nBackend = traind-cuda.so\n",
         "traind.conf:2: Backend has to be installed, or an absolute path, not \"traind-cuda.so\""},
        {"[Vulkan]\nBackend = instaled\n",
         "traind.conf:2: Backend has to be installed, or an absolute path, not \"instaled\""},
        {"[Device cpu]\nLowWatermarkRatio = 0.5\nHighWatermarkRatio = 0.4\nSlots = 2\n",
         "traind.conf:3: of the device \"cpu\", LowWatermarkRatio (0.5) may not be above "
         "HighWatermarkRatio (0.4)"},
        {"[Device cuda:0]\nLowWatermarkRatio = 0.8\n[Jobs]\nHighWatermarkRatio = 0.7\n",
         "traind.conf:2: of the device \"cuda:0\", LowWatermarkRatio (0.8)"},
        {"[Device cpu]\nHighWatermarkRatio = 1.01\n", "traind.conf:2: HighWatermarkRatio has to"},
        {"[Device sim0]\n\nSpeed = 10\nMemory = 1G\n",
         "traind.conf:3: there is no device \"sim0\": a simulated one says so with Kind"},
        {"[Device sim0]\nKind = cuda\n", "traind.conf:2: the kind of the device \"sim0\" is"},
        {"[Device sim0]\nKind = magic\n", "traind.conf:2: the kind of the device \"sim0\" is"},
        {"[Device cpu]\nKind = simulated\n",
         "traind.conf:2: the kind of the device \"cpu\" is cpu"},
        {"[Device cuda:0]\nMemory = 1G\n",
         "traind.conf:2: Memory is for simulated devices; \"cuda:0\" is a real one"},
        {"[Device cuda:x]\nSlots = 1\n", "traind.conf:2: \"cuda:\" stands before a number"},
        {"[Device auto]\nKind = simulated\n", "traind.conf:2: \"auto\" stands for more than one"},
        {"[Device cuda]\nKind = simulated\n", "traind.conf:2: \"cuda\" stands for more than one"},
        {"[Device simulated]\nKind = simulated\n",
         "traind.conf:2: \"simulated\" stands for more than one device where jobs name theirs; "
         "give this one another name, such as \"simulated0\""},
        {"[Device a b]\nKind = simulated\n", "traind.conf:2: the name of a device has letters"},
        {"[Device ]\nKind = simulated\n", "traind.conf:2: the name of a device has letters"},
        {"[Device a123456789b123456789c123456789d123456789e123456789]\nKind = simulated\n",
         "traind.conf:2: the name of a device has at most 31 characters"},
        {"[Device sim0]\nKind = simulated\nSped = 2\n",
         "traind.conf:3: there is no key \"Sped\"; did you mean \"Speed\"?"},
        {"[Device sim0]\nKind = simulated\nSpeed = 0\n", "traind.conf:3: Speed has to lie"},
        {"[Device sim0]\nKind = simulated\nEnabled = maybe\n",
         "traind.conf:3: Enabled has to be yes or no, not \"maybe\""},
        {"[Device sim0]\nKind = simulated\nOutsideFile = here\n",
         "traind.conf:3: OutsideFile has to be an absolute path"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct config config;
        struct error error = {0};

        assert_true(read_text(mistakes[i].text, &config, &error) < 0);
        if (!strstr(error.text, mistakes[i].sentence))
            fail_msg("%s\nwas answered by: %s", mistakes[i].text, error.text);
        config_release(&config);
    }
}

static void devices_have_sections(void **state)
{
    struct config config;
    struct error error = {0};
    const struct device_config *sim, *cpu;

    (void)state;
    assert_int_equal(read_text("[Device sim0]\n"
                               "Kind = simulated\nSpeed = 10\nMemory = 4 GiB\n"
                               "LaunchLatency = 20 us\nOutsideFile = /tmp/outside\n"
                               "LowWatermarkRatio = 0.2\nSlots = 3\n"
                               "[Device cpu]\nEnabled = no\n"
                               "[Device cuda:1]\nHighWatermarkRatio = 0\n"
                               "[Jobs]\nHighWatermarkRatio = 0.5\n"
                               "[Device sim0]\nSlots = 4\n",
                               &config, &error),
                     0);
    assert_int_equal(config.device_count, 3);
    assert_null(config_device(&config, "sim1"));
    sim = config_device(&config, "sim0");
    assert_string_equal(sim->kind->name, "simulated");
    assert_true(sim->speed == 10 && sim->bandwidth == 0 && sim->launch_seconds == 20 * 1e-6);
    assert_true(sim->memory == UINT64_C(4) << 30 && sim->slots == 4 && sim->enabled);
    assert_string_equal(sim->outside_file, "/tmp/outside");
    assert_true(config_high_watermark(&config, sim) == 0.5);
    assert_true(config_low_watermark(&config, sim) == 0.2);
    cpu = config_device(&config, "cpu");
    assert_string_equal(cpu->kind->name, "cpu");
    assert_true(!cpu->enabled && cpu->slots == -1);
    /* it is not configured, so it is lowered to the high one */
    assert_true(config_low_watermark(&config, cpu) == 0.5);
    assert_true(config_low_watermark(&config, NULL) == 0.5);
    assert_string_equal(config.devices[2].kind->name, "cuda");
    assert_true(config_high_watermark(&config, &config.devices[2]) == 0);
    assert_true(config_low_watermark(&config, &config.devices[2]) == 0); /* 0 means no limit */
    config.devices[2].low_watermark_ratio = 0.6; /* with the exception of this one */
    assert_true(config_low_watermark(&config, &config.devices[2]) == 0.6);
    config.devices[2].low_watermark_ratio = NAN;
    config.low_watermark_ratio = 0.4;
    assert_true(config_low_watermark(&config, &config.devices[2]) == 0.4);
    config_release(&config);
}

static void a_line_too_long_for_the_parser_is_refused(void **state)
{
    struct config config;
    struct error error = {0};
    char text[1200] = "[Access]\nAdminGroup = ";
    size_t length = strlen(text);

    (void)state;
    memset(text + length, 'x', 1000);
    text[length + 1000] = '\n';
    text[length + 1001] = '\0';
    assert_true(read_text(text, &config, &error) < 0);
    assert_non_null(strstr(error.text, "traind.conf:2: the line is too long"));
    config_release(&config);
}

static void drop_ins_come_after_the_file_in_order(void **state)
{
    static const struct {
        const char *name, *text;
    } files[] = {{"20-b.conf", "[Jobs]\nCpuSlots = 20\n"},
                 {"10-a.conf", "[Jobs]\nCpuSlots = 10\nRetryLimit = 7\n"},
                 {"30-c.conf.off", "[Jobs]\nCpuSlots = 30\n"},
                 {".hidden.conf", "[Jobs]\nCpuSlots = 40\n"}};
    struct config config;
    struct error error = {0};
    char drop_ins[300], name[400];

    (void)state;
    assert_int_equal(file_replace(AT_FDCWD, path, "[Jobs]\nCpuSlots = 2\n", 20, 0600, 0, NULL), 0);
    snprintf(drop_ins, sizeof drop_ins, "%s.d", path);
    assert_int_equal(mkdir(drop_ins, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", drop_ins, files[i].name);
        assert_int_equal(
            file_replace(AT_FDCWD, name, files[i].text, strlen(files[i].text), 0600, 0, NULL), 0);
    }
    config_init(&config, device_registry_kind);
    assert_int_equal(config_read(&config, path, &error), 0);
    assert_int_equal(config.cpu_slots, 20);
    assert_int_equal(config.retry_limit, 7);
    config_release(&config);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", drop_ins, files[i].name);
        unlink(name);
    }
    assert_int_equal(rmdir(drop_ins), 0);

    assert_int_equal(unlink(path), 0);
    config_init(&config, device_registry_kind);
    assert_int_equal(config_read(&config, path, &error), 0); /* neither has to exist */
    config_release(&config);
}

/* A drop-in, or their folder, that exists and cannot be read is not left out in silence. */
static void what_cannot_be_read_is_an_error(void **state)
{
    struct config config;
    struct error error = {0};
    char drop_ins[300], name[400];

    (void)state;
    snprintf(drop_ins, sizeof drop_ins, "%s.d", path);
    snprintf(name, sizeof name, "%s/10-a.conf", drop_ins);
    assert_int_equal(mkdir(drop_ins, 0700), 0);
    assert_int_equal(mkdir(name, 0700), 0); /* can be opened, but not read */
    config_init(&config, device_registry_kind);
    assert_int_equal(config_read(&config, path, &error), -EISDIR);
    assert_non_null(strstr(error.text, name));
    assert_int_equal(rmdir(name), 0);
    assert_int_equal(symlink("nowhere", name), 0);
    assert_int_equal(config_read(&config, path, &error), -ENOENT);
    assert_non_null(strstr(error.text, name));
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(drop_ins), 0);

    assert_int_equal(symlink(drop_ins, drop_ins), 0); /* a loop */
    assert_int_equal(config_read(&config, path, &error), -ELOOP);
    assert_non_null(strstr(error.text, drop_ins));
    assert_int_equal(unlink(drop_ins), 0);
    config_release(&config);
}

/* The printed documents equal those in the repository. */
static void printed_forms_are_in_the_repository(void **state)
{
    static const struct {
        enum config_form form;
        const char *name;
    } forms[] = {{CONFIG_MARKDOWN, "docs/configuration.md"}, {CONFIG_FILE, "etc/traind.conf"}};

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        AUTO_FREE char *printed = NULL, *stored = NULL;
        size_t size;
        FILE *output = open_memstream(&printed, &size);

        config_print(forms[i].form, device_registry_kind, output);
        fclose(output);
        assert_int_equal(file_read(AT_FDCWD, forms[i].name, 1 << 20, &stored, &size, NULL), 0);
        assert_string_equal(printed, stored);
    }
}

static void the_printed_file_is_valid(void **state)
{
    struct config config;
    struct error error = {0};

    (void)state;
    config_init(&config, device_registry_kind);
    assert_int_equal(config_read_file(&config, "etc/traind.conf", &error), 0);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_of_each_type, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(mistakes_name_line_and_remedy, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(devices_have_sections, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_line_too_long_for_the_parser_is_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(drop_ins_come_after_the_file_in_order, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_an_error, make_folder,
                                        remove_folder),
        cmocka_unit_test(printed_forms_are_in_the_repository),
        cmocka_unit_test(the_printed_file_is_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
