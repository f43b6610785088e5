/* test_spool.c: lines of a spool: valid, invalid, complete and torn. */
#include "daemon/folder/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define METRIC(n, step)                                                                            \
    "{\"n\":" #n ",\"time\":1.5,\"type\":\"metric\",\"step\":" #step ",\"values\":{\"loss\":0.5}}" \
    "\n"

static void whole_lines(void **state)
{
    static const char text[] = METRIC(1, 10) METRIC(2, 20) "{\"n\":3,\"ti";
    struct spool_position position = {.offset = 1000};
    struct spool_batch batch;

    (void)state;
    assert_int_equal(spool_batch_parse(&position, text, sizeof text - 1, false, &batch), 0);
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.records[1].type, SPOOL_METRIC);
    assert_int_equal(batch.records[1].n, 2);
    assert_int_equal(batch.skipped, 0);
    assert_int_equal(batch.after.offset, 1000 + 2 * (sizeof METRIC(1, 10) - 1));
    assert_int_equal(batch.after.n, 2);
    spool_batch_release(&batch);
    /* the same if nothing will follow: the torn record is dropped, with a warning */
    assert_int_equal(spool_batch_parse(&position, text, sizeof text - 1, true, &batch), 0);
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.skipped, 1);
    assert_non_null(strstr(batch.complaint, "cut off"));
    assert_int_equal(batch.after.offset, 1000 + sizeof text - 1);
    spool_batch_release(&batch);
}

#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void garbage(void **state)
{
    static const char *const bad[] = {
        "no json",
        "[1]",
        "{}",
        "{\"n\":0,\"time\":1,\"type\":\"warning\",\"message\":\"x\"}",
        "{\"n\":1,\"type\":\"warning\",\"message\":\"x\"}",
        "{\"n\":1,\"time\":1,\"type\":\"nonsense\"}",
        "{\"n\":1,\"time\":1}",
        "{\"n\":1,\"time\":1,\"type\":\"warning\"}",
        "{\"n\":1,\"time\":1,\"type\":\"warning\",\"message\":7}",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":-1,\"values\":{}}",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1,\"values\":{\"a\":\"b\"}}",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1.5,\"values\":{}}",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1}",
        "{\"n\":1,\"time\":1e999,\"type\":\"warning\",\"message\":\"x\"}",
        "{\"n\":1,\"n\":2,\"time\":1,\"type\":\"warning\",\"message\":\"x\"}",
        "{\"n\":1,\"time\":1,\"type\":\"warning\",\"message\":\"\xff\"}",
        "\x01\x02\x03",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1,\"values\":{\"\":1}}",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1,\"values\":{\"a\\u001b\":1}}",
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1,\"values\":{\"" HUNDRED HUNDRED
        "\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spool_position position = {0};
        struct spool_batch batch;
        char text[512];
        int length = snprintf(text, sizeof text, "%s\n" METRIC(4, 10), bad[i]);

        assert_int_equal(spool_batch_parse(&position, text, (size_t)length, false, &batch), 0);
        assert_int_equal(batch.skipped, 1);
        assert_true(batch.complaint[0] != '\0');
        assert_int_equal(batch.count, 1);
        assert_int_equal(batch.gap, 3);
        assert_int_equal(batch.after.offset, length);
        spool_batch_release(&batch);
    }
}

static void null_values_and_extra_fields(void **state)
{
    static const char text[] =
        "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1,\"epoch\":null,\"values\":{\"loss\":"
        "null},\"more\":[1]}\n"
        "{\"n\":2,\"time\":1,\"type\":\"start\",\"device\":\"cpu\",\"steps\":null}\n";
    struct spool_position position = {0};
    struct spool_batch batch;

    (void)state;
    assert_int_equal(spool_batch_parse(&position, text, sizeof text - 1, false, &batch), 0);
    assert_int_equal(batch.count, 2);
    spool_batch_release(&batch);
}

/* What the database gets of a record is bounded. */
static void bounds(void **state)
{
    char text[16384] = "{\"n\":1,\"time\":1,\"type\":\"metric\",\"step\":1,\"values\":{";
    struct spool_record record;
    struct error error = {0};
    size_t length;

    (void)state;
    for (int i = 0; i < SPOOL_NUMBERS_MAX; i++)
        sprintf(text + strlen(text), "\"m%d\":1,", i);
    length = strlen(text);
    strcpy(text + length - 1, "}}");
    assert_int_equal(spool_record_parse(text, strlen(text), &record, &error), 0);
    spool_record_release(&record);
    strcpy(text + length - 1, ",\"more\":1}}");
    assert_int_equal(spool_record_parse(text, strlen(text), &record, &error), -EINVAL);
    assert_non_null(strstr(error.text, "at most 256"));

    strcpy(text, "{\"n\":1,\"time\":1,\"type\":\"error\",\"message\":\"x");
    for (int i = 0; i < SPOOL_TEXT_MAX; i++)
        strcat(text, "é");
    strcat(text, "\"}");
    assert_int_equal(spool_record_parse(text, strlen(text), &record, &error), 0);
    assert_int_equal(strlen(json_get_string(record.object, "message", "")), SPOOL_TEXT_MAX - 1);
    spool_record_release(&record);
}

static void numbers_must_rise(void **state)
{
    static const char text[] = METRIC(5, 1) METRIC(5, 2) METRIC(4, 3) METRIC(6, 4);
    struct spool_position position = {.n = 4};
    struct spool_batch batch;

    (void)state;
    assert_int_equal(spool_batch_parse(&position, text, sizeof text - 1, false, &batch), 0);
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.skipped, 2);
    assert_int_equal(batch.gap, 0);
    assert_int_equal(batch.after.n, 6);
    spool_batch_release(&batch);
}

/* Reads a file to its end batch by batch, as the daemon does. */
static void read_all(int file, bool ended, int64_t *records, int64_t *skipped, int64_t *last)
{
    struct spool_position position = {0};
    struct spool_batch batch;
    struct error error;

    *records = *skipped = 0;
    do {
        assert_int_equal(spool_read(file, &position, ended, &batch, &error), 0);
        for (size_t i = 0; i < batch.count; i++)
            *last = batch.records[i].n;
        *records += (int64_t)batch.count;
        *skipped += batch.skipped;
        position = batch.after;
        spool_batch_release(&batch);
    } while (batch.more);
}

static int temporary_file(void)
{
    const char *folder = getenv("TMPDIR");
    int file = open(folder ? folder : "/tmp", O_TMPFILE | O_RDWR, 0600);

    assert_true(file >= 0);
    return file;
}

static void many_records(void **state)
{
    int file = temporary_file();
    int64_t records, skipped, last = 0;

    (void)state;
    for (int n = 1; n <= 5000; n++)
        dprintf(file, "{\"n\":%d,\"time\":1,\"type\":\"progress\",\"step\":%d}\n", n, n);
    read_all(file, false, &records, &skipped, &last);
    assert_int_equal(records, 5000);
    assert_int_equal(skipped, 0);
    assert_int_equal(last, 5000);
    close(file);
}

static void long_lines(void **state)
{
    int file = temporary_file();
    int64_t records, skipped, last = 0;
    char *filling = malloc(700001);

    (void)state;
    memset(filling, 'x', 700000);
    filling[700000] = '\0';
    dprintf(file, "{\"n\":1,\"time\":1,\"type\":\"warning\",\"message\":\"%s\"}\n", filling);
    for (int i = 0; i < 20; i++) /* 14 MB in one line */
        dprintf(file, "%s", filling);
    dprintf(file, "\n" METRIC(2, 5));
    read_all(file, true, &records, &skipped, &last);
    assert_int_equal(records, 2);
    assert_int_equal(skipped, 1);
    assert_int_equal(last, 2);
    free(filling);
    close(file);
}

/* A hole of a terabyte is skipped at once, and the lines behind it are read. */
static void a_hole_costs_nothing(void **state)
{
    static const off_t size = (off_t)1 << 40;
    int file = temporary_file();
    int64_t records, skipped, last = 0;

    (void)state;
    dprintf(file, METRIC(1, 5));
    assert_int_equal(ftruncate(file, size), 0);
    read_all(file, false, &records, &skipped, &last);
    assert_int_equal(records, 1);
    assert_int_equal(skipped, 1);
    lseek(file, 0, SEEK_END);
    dprintf(file, "\n" METRIC(2, 6));
    read_all(file, true, &records, &skipped, &last);
    assert_int_equal(records, 2);
    assert_int_equal(skipped, 1);
    assert_int_equal(last, 2);
    close(file);
}

/* Records of programs other than traind-worker: without type or number. */
static void short_lines(void **state)
{
    static const char text[] = "{\"step\": 10.0, \"epoch\": 1, \"loss\": NaN, \"a\": 2}\n"
                               "{\"progress\": 0.25}\n" METRIC(1, 10) "{\"step\": 11, \"a\": 3}\n";
    struct spool_position position = {0};
    struct spool_batch batch;
    struct json_object *values;

    (void)state;
    assert_int_equal(spool_batch_parse(&position, text, sizeof text - 1, false, &batch), 0);
    assert_int_equal(batch.skipped, 0);
    assert_int_equal(batch.count, 4);
    assert_int_equal(batch.records[0].type, SPOOL_METRIC);
    assert_int_equal(json_get_int(batch.records[0].object, "step", -1), 10);
    assert_true(batch.records[0].time > 1e9);
    values = json_get(batch.records[0].object, "values");
    assert_int_equal(json_object_object_length(values), 2);
    assert_null(json_get(values, "loss"));
    assert_true(json_get_double(values, "a", 0) == 2);
    assert_int_equal(batch.records[1].type, SPOOL_PROGRESS);
    assert_true(json_get_double(batch.records[1].object, "progress", 0) == 0.25);
    assert_int_equal(batch.records[3].n, 0);
    assert_int_equal(batch.after.n, 1); /* only records of the long form have numbers */
    assert_int_equal(batch.gap, 0);
    spool_batch_release(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines),
        cmocka_unit_test(short_lines),
        cmocka_unit_test(garbage),
        cmocka_unit_test(null_values_and_extra_fields),
        cmocka_unit_test(bounds),
        cmocka_unit_test(numbers_must_rise),
        cmocka_unit_test(many_records),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(a_hole_costs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
