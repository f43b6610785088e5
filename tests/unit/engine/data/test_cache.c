/* test_cache.c: cached data sets are made once, and all processes map them. A file that is not
 * exactly as expected is never used. Where there is no place for files, a set is made in memory. */
#include "engine/data/cache.h"
#include "tests/support/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 1000, ELEMENTS = 3 * 40 * 40 }; /* several chunks of checksums */

struct making {
    int calls;
    uint8_t first; /* by which the samples' values begin */
    /* pipes: one tells that it is making the set, on the other it waits before it goes on; -1:
     * none */
    int begun, go;
};

static char warnings[4096];
static int waits; /* the descriptor on which a wait for another process is reported; -1: none */
static atomic_int stop;

static void on_warning(void *context, const char *text)
{
    (void)context;
    snprintf(warnings + strlen(warnings), sizeof warnings - strlen(warnings), "%s\n", text);
}

static void on_progress(void *context, const char *what, int64_t done, int64_t count)
{
    (void)context;
    (void)done;
    if (count == 0 && strstr(what, "another worker") && waits >= 0)
        assert_int_equal(write(waits, "w", 1), 1);
}

static const struct dataset_events events = {
    .warning = on_warning, .progress = on_progress, .stop = &stop};

static int make(void *context, void *samples, void *targets, struct error *error)
{
    struct making *making = context;
    uint8_t *pixels = samples;
    int32_t *labels = targets;
    char byte;

    making->calls++;
    if (making->begun >= 0 && write(making->begun, "b", 1) != 1)
        return error_set(error, -EPIPE, "the test is gone");
    if (making->go >= 0 && read(making->go, &byte, 1) != 1)
        return error_set(error, -EPIPE, "the test is gone");
    for (size_t i = 0; i < (size_t)COUNT * ELEMENTS; i++)
        pixels[i] = (uint8_t)(making->first + i * 7);
    for (int i = 0; i < COUNT; i++)
        labels[i] = i % 10;
    return 0;
}

static struct making making;

static struct cache_entry entry_of(char identity, char content)
{
    struct cache_entry entry = {.source = "the numbers of the test",
                                .element = DATASET_UINT8,
                                .rank = 3,
                                .shape = {3, 40, 40},
                                .count = COUNT,
                                .target_width = 1,
                                .make = make,
                                .context = &making,
                                .events = &events};

    memset(entry.identity, identity, sizeof entry.identity - 1);
    memset(entry.content, content, sizeof entry.content - 1);
    return entry;
}

static const char *cache_path(char identity, const char *suffix)
{
    static char path[512];
    char name[SHA256_HEX_SIZE] = "";

    memset(name, identity, sizeof name - 1);
    snprintf(path, sizeof path, "%s/cache/traind/datasets/%s%s", getenv("TMPDIR"), name, suffix);
    return path;
}

static int reset(void **state)
{
    char command[600];

    (void)state;
    snprintf(command, sizeof command, "%s/cache", getenv("TMPDIR"));
    setenv("XDG_CACHE_HOME", command, 1);
    unsetenv("TRAIND_CACHE_LIMIT");
    snprintf(command, sizeof command, "rm -rf '%s/cache'", getenv("TMPDIR"));
    assert_int_equal(system(command), 0);
    making = (struct making){.begun = -1, .go = -1};
    warnings[0] = '\0';
    waits = -1;
    stop = 0;
    return 0;
}

static void check_set(const struct dataset *dataset, uint8_t first)
{
    assert_int_equal(dataset->count, COUNT);
    assert_int_equal(dataset->sample_elements, ELEMENTS);
    for (size_t i = 0; i < (size_t)COUNT * ELEMENTS; i++)
        if (dataset->samples[0][i] != (uint8_t)(first + i * 7))
            fail_msg("byte %zu is wrong", i);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(dataset->labels[i], i % 10);
}

/* Makes a set as dataset_open() would give it to a reader; dataset_close() closes it. */
static struct dataset *obtain(const struct cache_entry *entry)
{
    struct dataset *dataset = calloc(1, sizeof *dataset);
    struct error error = {0};

    if (cache_obtain(entry, dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

static void obtain_and_check(const struct cache_entry *entry)
{
    struct dataset *dataset = obtain(entry);

    check_set(dataset, making.first);
    dataset_close(dataset);
}

static void test_made_once(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    struct dataset *dataset;
    struct stat status;

    (void)state;
    assert_false(cache_has(&entry));
    obtain_and_check(&entry);
    assert_int_equal(making.calls, 1);
    assert_true(cache_has(&entry));
    dataset = obtain(&entry);
    assert_int_equal(making.calls, 1);
    assert_string_equal(warnings, "");
    check_set(dataset, 0);
    assert_int_equal(stat(cache_path('a', ".data"), &status), 0);
    assert_int_equal(dataset->mapped_bytes, status.st_size);
    assert_int_equal(dataset->memory_bytes, COUNT * 4);
    assert_int_equal(status.st_mode & 0777, 0600);
    dataset_close(dataset);
    assert_int_equal(access(cache_path('a', ".tmp"), F_OK), -1);
}

/* `damage` changes the file: it is named, made again, and used from then on. */
static void check_damage(void (*damage)(const char *path), const char *warning)
{
    struct cache_entry entry = entry_of('a', '1');

    reset(NULL);
    obtain_and_check(&entry);
    damage(cache_path('a', ".data"));
    making.first = 100;
    obtain_and_check(&entry);
    assert_int_equal(making.calls, 2);
    if (!strstr(warnings, warning) || !strstr(warnings, cache_path('a', ".data")) ||
        !strstr(warnings, "made again"))
        fail_msg("\"%s\" is not in \"%s\"", warning, warnings);
    obtain_and_check(&entry);
    assert_int_equal(making.calls, 2);
}

static void overwrite(const char *path, off_t place, const char *bytes)
{
    int descriptor = open(path, O_WRONLY);

    assert_true(descriptor >= 0);
    assert_int_equal(pwrite(descriptor, bytes, strlen(bytes), place), strlen(bytes));
    close(descriptor);
}

static off_t size_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

static void cut_short(const char *path)
{
    assert_int_equal(truncate(path, size_of(path) - 1), 0);
}
static void cut_header(const char *path)
{
    assert_int_equal(truncate(path, 100), 0);
}
static void cut_all(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}
static void lengthen(const char *path)
{
    overwrite(path, size_of(path), "more");
}
static void damage_magic(const char *path)
{
    overwrite(path, 0, "x");
}
static void damage_version(const char *path)
{
    overwrite(path, 16, "\x07");
}
static void damage_header(const char *path)
{
    overwrite(path, 240, "x");
}
static void damage_first_sample(const char *path)
{
    overwrite(path, 4096, "\xaa");
}
static void damage_late_sample(const char *path)
{
    overwrite(path, 4096 + (off_t)COUNT * ELEMENTS - 1, "\xaa");
}
static void damage_label(const char *path)
{
    overwrite(path, 4096 + (off_t)COUNT * ELEMENTS + 8, "\x09");
}
static void damage_checksums(const char *path)
{
    overwrite(path, size_of(path) - 1, "x");
}
static void open_to_others(const char *path)
{
    assert_int_equal(chmod(path, 0666), 0);
}

static void test_damage(void **state)
{
    (void)state;
    check_damage(cut_short, "is truncated");
    check_damage(cut_header, "is truncated");
    check_damage(cut_all, "is empty");
    check_damage(lengthen, "instead of");
    check_damage(damage_magic, "no file of the cache");
    check_damage(damage_version, "another version");
    check_damage(damage_header, "damaged header");
    check_damage(damage_first_sample, "damaged near byte 4096");
    check_damage(damage_late_sample, "damaged near byte");
    check_damage(damage_label, "damaged near byte");
    check_damage(damage_checksums, "damaged checksums");
    check_damage(open_to_others, "written by somebody else");
}

static void test_changed_source(void **state)
{
    struct cache_entry entry = entry_of('a', '1'), changed = entry_of('a', '2');

    (void)state;
    obtain_and_check(&entry);
    making.first = 5;
    assert_false(cache_has(&changed));
    obtain_and_check(&changed);
    assert_int_equal(making.calls, 2);
    assert_non_null(strstr(warnings, "made before the numbers of the test changed"));
}

static void test_other_set(void **state)
{
    struct cache_entry entry = entry_of('a', '1'), other = entry_of('b', '1');
    char from[512];

    (void)state;
    obtain_and_check(&entry);
    snprintf(from, sizeof from, "%s", cache_path('a', ".data"));
    assert_int_equal(rename(from, cache_path('b', ".data")), 0);
    making.first = 9;
    obtain_and_check(&other);
    assert_int_equal(making.calls, 2);
    assert_non_null(strstr(warnings, "belongs to another data set, the numbers of the test"));
}

static void test_failure_leaves_nothing(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    struct dataset dataset = {0};
    struct error error = {0};

    (void)state;
    making.go = open("/dev/null", O_RDONLY); /* its pipe gives nothing to read, so make() fails */
    assert_int_equal(cache_obtain(&entry, &dataset, &error), -EPIPE);
    assert_string_equal(error.text, "the test is gone");
    assert_int_equal(access(cache_path('a', ".data"), F_OK), -1);
    assert_int_equal(access(cache_path('a', ".tmp"), F_OK), -1);
    close(making.go);
}

static void test_no_place(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    struct dataset *dataset;

    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/no/such/place", 1);
    dataset = obtain(&entry);
    check_set(dataset, 0);
    assert_int_equal(dataset->mapped_bytes, 0);
    assert_true(dataset->memory_bytes > (size_t)COUNT * ELEMENTS);
    assert_non_null(strstr(warnings, "not kept for the next run"));
    assert_non_null(strstr(warnings, "/proc/no/such/place"));
    dataset_close(dataset);
    assert_false(cache_has(&entry));
}

static void test_home(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    char path[600];

    (void)state;
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", getenv("TMPDIR"), 1);
    obtain_and_check(&entry);
    snprintf(path, sizeof path, "%s/.cache/traind/datasets/%s.data", getenv("TMPDIR"),
             entry.identity);
    assert_int_equal(access(path, R_OK), 0);
    unsetenv("HOME");
    obtain_and_check(&entry);
    assert_int_equal(making.calls, 2);
    assert_non_null(strstr(warnings, "HOME"));
}

/* If files do not fit together, those unused for the longest time are deleted. A file in use stays
 * readable. */
static void test_limit(void **state)
{
    struct cache_entry entries[] = {entry_of('a', '1'), entry_of('b', '1'), entry_of('c', '1')};
    static const struct timespec past[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct dataset *first;

    (void)state;
    setenv("TRAIND_CACHE_LIMIT", "10 MiB", 1); /* two of them */
    first = obtain(&entries[0]);
    obtain_and_check(&entries[1]);
    assert_int_equal(utimensat(AT_FDCWD, cache_path('a', ".data"), past, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, cache_path('b', ".data"), past, 0), 0);
    obtain_and_check(&entries[0]); /* marks it as used */
    obtain_and_check(&entries[2]);
    assert_int_equal(access(cache_path('a', ".data"), F_OK), 0);
    assert_int_equal(access(cache_path('b', ".data"), F_OK), -1);
    assert_int_equal(access(cache_path('c', ".data"), F_OK), 0);
    assert_int_equal(making.calls, 3);
    assert_string_equal(warnings, "");
    setenv("TRAIND_CACHE_LIMIT", "1 MiB", 1);
    obtain_and_check(&entries[1]);
    assert_non_null(strstr(warnings, "the cache may hold 1"));
    assert_int_equal(access(cache_path('a', ".data"), F_OK), 0);
    setenv("TRAIND_CACHE_LIMIT", "plenty", 1);
    obtain_and_check(&entries[1]);
    assert_non_null(strstr(warnings, "TRAIND_CACHE_LIMIT is \"plenty\""));
    check_set(first, 0);
    dataset_close(first);
}

/* ---- several workers ---- */

/* Forks a child that obtains the set. The child's ends of the pipes are in `making` and `waits`. */
static pid_t fork_worker(const struct cache_entry *entry)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct dataset dataset = {0};
        struct error error = {0};
        int r = cache_obtain(entry, &dataset, &error);

        _exit(r < 0 ? 1 : 10 + making.calls);
    }
    return pid;
}

static int end_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void expect_byte(int descriptor)
{
    char byte;

    assert_int_equal(read(descriptor, &byte, 1), 1);
}

static void test_two_at_once(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    int begun[2], go[2], waiting[2];
    pid_t first, second;

    (void)state;
    assert_true(pipe(begun) == 0 && pipe(go) == 0 && pipe(waiting) == 0);
    making.begun = begun[1];
    making.go = go[0];
    first = fork_worker(&entry);
    expect_byte(begun[0]); /* the first is making it */
    waits = waiting[1];
    second = fork_worker(&entry);
    expect_byte(waiting[0]); /* the second waits for it */
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(end_of(first), 11);
    assert_int_equal(end_of(second), 10);
    making.go = -1;
    obtain_and_check(&entry);
    assert_int_equal(making.calls, 0);
    for (int i = 0; i < 2; i++) {
        close(begun[i]);
        close(go[i]);
        close(waiting[i]);
    }
}

/* If the process that makes the set is killed, the next one makes it, whether it waited or comes
 * later. */
static void test_killed(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    int begun[2], go[2], waiting[2];
    pid_t first, second;

    (void)state;
    assert_true(pipe(begun) == 0 && pipe(go) == 0 && pipe(waiting) == 0);
    making.begun = begun[1];
    making.go = go[0];
    first = fork_worker(&entry);
    expect_byte(begun[0]);
    waits = waiting[1];
    second = fork_worker(&entry);
    expect_byte(waiting[0]);
    kill(first, SIGKILL);
    assert_int_equal(end_of(first), -SIGKILL);
    expect_byte(begun[0]); /* the second is making it */
    kill(second, SIGKILL);
    assert_int_equal(end_of(second), -SIGKILL);
    assert_int_equal(access(cache_path('a', ".data"), F_OK), -1);
    assert_int_equal(access(cache_path('a', ".tmp"), F_OK), 0);
    making.go = making.begun = -1;
    obtain_and_check(&entry);
    assert_int_equal(making.calls, 1);
    assert_int_equal(access(cache_path('a', ".tmp"), F_OK), -1);
    for (int i = 0; i < 2; i++) {
        close(begun[i]);
        close(go[i]);
        close(waiting[i]);
    }
}

/* What a killed worker left is removed when room is made for another set. Files that are being made
 * are not. */
static void test_abandoned(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    int folder, descriptor;
    char *path;
    struct error error;

    (void)state;
    folder = cache_folder_open(&path, &error);
    assert_true(folder >= 0);
    close(openat(folder, "old.tmp", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(cache_folder_try_lock(folder, "new.tmp", &descriptor, &error), 0);
    obtain_and_check(&entry);
    assert_int_equal(faccessat(folder, "old.tmp", F_OK, 0), -1);
    assert_int_equal(faccessat(folder, "new.tmp", F_OK, 0), 0);
    close(descriptor);
    close(folder);
    free(path);
}

static void test_stop(void **state)
{
    struct cache_entry entry = entry_of('a', '1');
    struct dataset dataset = {0};
    struct error error = {0};
    int begun[2], go[2];
    pid_t first;

    (void)state;
    assert_true(pipe(begun) == 0 && pipe(go) == 0);
    making.begun = begun[1];
    making.go = go[0];
    first = fork_worker(&entry);
    expect_byte(begun[0]);
    stop = 1; /* the wish to stop comes while another worker makes it */
    assert_int_equal(cache_obtain(&entry, &dataset, &error), -EINTR);
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(end_of(first), 11);
    assert_int_equal(cache_obtain(&entry, &dataset, &error), -EINTR); /* while it is checked */
    for (int i = 0; i < 2; i++) {
        close(begun[i]);
        close(go[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_made_once, reset),
        cmocka_unit_test_setup(test_damage, reset),
        cmocka_unit_test_setup(test_changed_source, reset),
        cmocka_unit_test_setup(test_other_set, reset),
        cmocka_unit_test_setup(test_failure_leaves_nothing, reset),
        cmocka_unit_test_setup(test_no_place, reset),
        cmocka_unit_test_setup(test_home, reset),
        cmocka_unit_test_setup(test_limit, reset),
        cmocka_unit_test_setup(test_two_at_once, reset),
        cmocka_unit_test_setup(test_killed, reset),
        cmocka_unit_test_setup(test_abandoned, reset),
        cmocka_unit_test_setup(test_stop, reset),
    };

    if (!getenv("TMPDIR"))
        setenv("TMPDIR", "/tmp", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
