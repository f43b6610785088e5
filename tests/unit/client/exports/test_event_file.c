/* test_event_file.c: event files byte by byte as TensorBoard's own writer writes them; files that
 * are opened again after an interrupted write, by two at once, and files of somebody else. */
#include "base/cleanup.h"
#include "base/file.h"
#include "client/exports/crc32c.h"
#include "client/exports/event_file.h"
#include "client/exports/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { SIZE_MAX_READ = 1 << 20 };

/* Two records of tensorboard.summary.writer.record_writer (TensorBoard 2.21): the version at time
 * 1.0; "train/loss" 0.5 at step 300 and time 2.5. */
static const unsigned char version_record[] = {
    0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xf0, 0x3f, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e,
    0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0x86, 0xbf, 0x57, 0x7a};
static const unsigned char scalar_record[] = {
    0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x7b, 0xec, 0xf6, 0x09,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x40, 0x10, 0xac, 0x02, 0x2a, 0x13,
    0x0a, 0x11, 0x0a, 0x0a, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x2f, 0x6c, 0x6f, 0x73,
    0x73, 0x15, 0x00, 0x00, 0x00, 0x3f, 0x0c, 0xb8, 0x36, 0x73};

static const struct event_mark first_mark = {.job = 7, .cursor = 41, .attempt = 2, .values = 1};

static char *path_new(void)
{
    char *path = NULL;

    assert_true(asprintf(&path, "%s/event-file.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                         getpid()) > 0);
    return path;
}

static size_t content_read(char **content)
{
    AUTO_FREE char *path = path_new();
    size_t size;

    assert_int_equal(file_read(AT_FDCWD, path, SIZE_MAX_READ, content, &size, NULL), 0);
    return size;
}

static void content_write(const void *content, size_t size)
{
    AUTO_FREE char *path = path_new();
    AUTO_CLOSE int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(file_write_all(file, content, size), 0);
}

/* Makes a file with one value, in one batch, and closes it. */
static void file_make(void)
{
    struct event_file file;

    assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, NULL), 0);
    assert_int_equal(file.size, 0);
    event_file_add_scalar(&file, "train/loss", 300, 2.5, 0.5);
    assert_int_equal(event_file_commit(&file, &first_mark, 2.5, NULL), 0);
    event_file_close(&file);
}

static int remove_file(void **state)
{
    AUTO_FREE char *path = path_new();

    (void)state;
    unlink(path);
    return 0;
}

static void test_checksums(void **state)
{
    unsigned char bytes[32];

    (void)state;
    /* RFC 3720, appendix B.4 */
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x62A8AB43);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x46DD794E);
    assert_int_equal(crc32c("123456789", 9), 0xE3069283); /* the check value of the algorithm */
    assert_int_equal(crc32c("", 0), 0);
}

static void test_bytes_of_tensorboard(void **state)
{
    AUTO_FREE char *content = NULL;

    (void)state;
    file_make();
    assert_true(content_read(&content) > sizeof version_record + sizeof scalar_record);
    assert_memory_equal(content, version_record, sizeof version_record);
    assert_memory_equal(content + sizeof version_record, scalar_record, sizeof scalar_record);
}

static void test_goes_on_after_the_mark(void **state)
{
    struct event_file file;

    (void)state;
    file_make();
    assert_int_equal(event_file_open(&file, path_new(), 7, 9.0, NULL), 0);
    assert_int_equal(file.mark.cursor, first_mark.cursor);
    assert_int_equal(file.mark.attempt, first_mark.attempt);
    assert_int_equal(file.mark.values, first_mark.values);
    assert_false(file.mark.ended);
    assert_int_equal(file.pending.size, 0); /* no second head */
    event_file_close(&file);
}

/* Whatever an interrupted write leaves behind, the next export has the file as it was before. */
static void test_interrupted_at_every_byte(void **state)
{
    AUTO_FREE char *before = NULL, *after = NULL;
    size_t whole, longer;
    struct event_file file;

    (void)state;
    file_make();
    whole = content_read(&before);
    assert_int_equal(event_file_open(&file, path_new(), 7, 9.0, NULL), 0);
    event_file_add_scalar(&file, "a", 301, 3.5, 1);
    assert_int_equal(
        event_file_commit(&file, &(struct event_mark){.job = 7, .cursor = 42}, 3.5, NULL), 0);
    event_file_close(&file);
    longer = content_read(&after);
    for (size_t size = 0; size < longer; size++) {
        AUTO_FREE char *left = NULL;
        size_t expected = size < whole ? 0 : whole;

        content_write(after, size);
        assert_int_equal(event_file_open(&file, path_new(), 7, 9.0, NULL), 0);
        assert_int_equal(file.size, expected);
        assert_int_equal(file.mark.cursor, expected ? 41 : 0);
        event_file_close(&file);
        assert_int_equal(content_read(&left), expected);
        assert_memory_equal(left, before, expected);
    }
}

static void test_damage_is_cut_off(void **state)
{
    AUTO_FREE char *content = NULL;
    struct event_file file;
    size_t size;

    (void)state;
    file_make();
    size = content_read(&content);
    for (size_t at = 0; at < size; at++) {
        content[at] ^= 0x10;
        content_write(content, size);
        content[at] ^= 0x10;
        assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, NULL), 0);
        assert_int_equal(file.size, 0);
        event_file_close(&file);
    }
}

static void test_one_writer_at_a_time(void **state)
{
    struct event_file first, second;
    struct error error = {0};

    (void)state;
    assert_int_equal(event_file_open(&first, path_new(), 7, 1.0, NULL), 0);
    assert_int_equal(event_file_open(&second, path_new(), 7, 1.0, &error), -EBUSY);
    assert_non_null(strstr(error.text, "another trainctl is writing"));
    event_file_close(&first);
    assert_int_equal(event_file_open(&second, path_new(), 7, 1.0, &error), 0);
    event_file_close(&second);
}

static void test_refuses_what_is_not_its_own(void **state)
{
    AUTO_FREE char *path = path_new(), *large = calloc(1, 5 << 20);
    struct event_file file;
    struct error error = {0};

    (void)state;
    file_make();
    assert_int_equal(event_file_open(&file, path_new(), 8, 1.0, &error), -EINVAL);
    assert_non_null(strstr(error.text, "no event file of job 8"));
    content_write(large, 5 << 20);
    assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, &error), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, &error), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, &error), -EISDIR);
    assert_int_equal(rmdir(path), 0);
}

/* A limit on the size of files does what a full disk does: a part is written, then an error. */
static void test_full_disk(void **state)
{
    AUTO_FREE char *before = NULL, *after = NULL;
    struct rlimit limit, unlimited;
    struct event_file file;
    struct error error = {0};
    size_t size;

    (void)state;
    file_make();
    size = content_read(&before);
    assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, NULL), 0);
    for (int i = 0; i < 100; i++)
        event_file_add_scalar(&file, "a", i, i, i);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    limit = unlimited;
    limit.rlim_cur = size + 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(event_file_commit(&file, &(struct event_mark){.job = 7}, 1.0, &error), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_non_null(strstr(error.text, "cannot write"));
    assert_int_equal(content_read(&after), size);
    assert_memory_equal(after, before, size);
    /* the same file can be written once there is room */
    event_file_add_scalar(&file, "a", 1, 1, 1);
    assert_int_equal(
        event_file_commit(&file, &(struct event_mark){.job = 7, .cursor = 50}, 1.0, NULL), 0);
    event_file_close(&file);
    assert_int_equal(event_file_open(&file, path_new(), 7, 1.0, NULL), 0);
    assert_int_equal(file.mark.cursor, 50);
    event_file_close(&file);
}

static void test_tags(void **state)
{
    static const char *const names[][2] = {
        {"train_loss", "train/loss"},       {"validation_accuracy", "validation/accuracy"},
        {"last_test_mcc", "last_test/mcc"}, {"val_loss", "val/loss"},
        {"eval_a_b", "eval/a_b"},           {"loss", "loss"},
        {"learning_rate", "learning_rate"}, {"train_", "train_"},
        {"train_a/b", "train_a/b"},         {"trainer_loss", "trainer_loss"},
        {"validation_ü", "validation/ü"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char tag[200];

        assert_string_equal(tensorboard_tag(names[i][0], tag, sizeof tag), names[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums),
        cmocka_unit_test_teardown(test_bytes_of_tensorboard, remove_file),
        cmocka_unit_test_teardown(test_goes_on_after_the_mark, remove_file),
        cmocka_unit_test_teardown(test_interrupted_at_every_byte, remove_file),
        cmocka_unit_test_teardown(test_damage_is_cut_off, remove_file),
        cmocka_unit_test_teardown(test_one_writer_at_a_time, remove_file),
        cmocka_unit_test(test_refuses_what_is_not_its_own),
        cmocka_unit_test_teardown(test_full_disk, remove_file),
        cmocka_unit_test(test_tags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
