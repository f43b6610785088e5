/* test_sample_rows.c: samples go into buckets of all resolutions, whose number is bounded, whatever
 * the clock does. */
#include "daemon/store/connection.h"
#include "daemon/store/sample_rows.h"
#include "daemon/store/statement.h"
#include "tests/support/temporary_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const double begin = 1700000000 - 1700000000 % 10800; /* of a bucket of each resolution */
enum { ALL_PLACES = 390 + 1500 + 3072 + 5850, FOUND_MAX = 8 };

struct fixture {
    struct store_connection *connection;
};

static void connection_open(struct fixture *fixture)
{
    struct error error = {0};

    if (store_connection_open(temporary_folder, STORE_READ_WRITE, &fixture->connection, &error))
        fail_msg("%s", error.text);
}

static int fixture_begin(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};

    assert_non_null(fixture);
    assert_int_equal(temporary_folder_make(state), 0);
    if (store_prepare(temporary_folder, NULL, &error) < 0)
        fail_msg("%s", error.text);
    connection_open(fixture);
    *state = fixture;
    return 0;
}

static int fixture_end(void **state)
{
    struct fixture *fixture = *state;

    store_connection_close(fixture->connection);
    free(fixture);
    return temporary_folder_remove(state);
}

static void run(const struct fixture *fixture, const char *sql)
{
    assert_int_equal(sqlite3_exec(store_database(fixture->connection), sql, NULL, NULL, NULL),
                     SQLITE_OK);
}

static void store(const struct fixture *fixture, struct sample *samples, size_t count)
{
    struct error error = {0};

    if (samples_store(fixture->connection, samples, count, &error) < 0)
        fail_msg("%s", error.text);
}

static void store_one(const struct fixture *fixture, const char *device, double time, double value)
{
    store(fixture, &(struct sample){device, SAMPLE_UTILISATION, time, value}, 1);
}

static int64_t count(const struct fixture *fixture, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t number;

    assert_int_equal(
        sqlite3_prepare_v2(store_database(fixture->connection), sql, -1, &statement, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

struct found {
    struct sample_bucket buckets[FOUND_MAX];
    size_t count;
};

static void take(void *data, const struct sample_bucket *bucket)
{
    struct found *found = data;

    assert_true(found->count < FOUND_MAX);
    found->buckets[found->count++] = *bucket;
}

/* The buckets of a device that hold the times, in seconds after `begin`. */
static struct found find(const struct fixture *fixture, const char *device, size_t resolution,
                         double from, double to)
{
    struct sample_span span = {.resolution = &sample_resolutions[resolution]};
    struct found found = {0};
    struct error error = {0};

    span.first = (int64_t)(begin + from) / span.resolution->seconds;
    span.last = (int64_t)(begin + to) / span.resolution->seconds;
    if (samples_read(fixture->connection, device, &span, take, &found, &error) < 0)
        fail_msg("%s", error.text);
    return found;
}

static void samples_go_into_all_resolutions(void **state)
{
    struct fixture *fixture = *state;
    struct sample samples[] = {
        {"gpu", SAMPLE_UTILISATION, begin + 1, 0.25},
        {"gpu", SAMPLE_MEMORY_USED, begin + 1, 7e10},
        {"", SAMPLE_QUEUED, begin + 1, 3},
        {"gpu", SAMPLE_UTILISATION, begin + 9, 0.75},
        {"gpu", SAMPLE_UTILISATION, begin + 12, 0.1},
    };
    struct found found;

    store(fixture, samples, sizeof samples / sizeof *samples);
    found = find(fixture, "gpu", 0, 0, 19);
    assert_int_equal(found.count, 3);
    for (size_t i = 0; i < 2; i++) { /* both of the first ten seconds, in any order */
        const struct sample_bucket *bucket = &found.buckets[i];

        assert_int_equal(bucket->number, begin / 10);
        if (bucket->quantity == SAMPLE_MEMORY_USED) {
            assert_int_equal(bucket->samples, 1);
            assert_true(bucket->total == 7e10);
            continue;
        }
        assert_int_equal(bucket->samples, 2);
        assert_float_equal(bucket->total, 1, 1e-9);
        assert_float_equal(bucket->least, 0.25, 1e-9);
        assert_float_equal(bucket->greatest, 0.75, 1e-9);
    }
    assert_int_equal(found.buckets[2].number, begin / 10 + 1);
    for (size_t r = 1; r < SAMPLE_RESOLUTIONS; r++) {
        found = find(fixture, "gpu", r, 0, 59);
        assert_int_equal(found.count, 2);
        for (size_t i = 0; i < 2; i++)
            if (found.buckets[i].quantity == SAMPLE_UTILISATION) {
                assert_int_equal(found.buckets[i].samples, 3);
                assert_float_equal(found.buckets[i].least, 0.1, 1e-9);
            }
    }
    assert_int_equal(find(fixture, "", 0, 0, 9).count, 1);
    assert_int_equal(find(fixture, "other", 0, 0, 9).count, 0);
}

/* As after a restart, or a kill between two transactions: the bucket goes on. */
static void a_bucket_goes_on(void **state)
{
    struct fixture *fixture = *state;
    struct found found;

    store_one(fixture, "gpu", begin + 100, 1);
    store_connection_close(fixture->connection);
    connection_open(fixture);
    store_one(fixture, "gpu", begin + 108, 0);
    found = find(fixture, "gpu", 0, 100, 100);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.buckets[0].samples, 2);
    assert_float_equal(found.buckets[0].total, 1, 1e-9);
    assert_true(found.buckets[0].least == 0 && found.buckets[0].greatest == 1);
}

static void the_rows_of_a_series_are_bounded(void **state)
{
    struct fixture *fixture = *state;
    double time = begin;

    run(fixture, "BEGIN");
    for (int i = 0; i < 4000; i++, time += 10)
        store_one(fixture, "gpu", time, 0.5);
    assert_int_equal(count(fixture, "SELECT count(*) FROM sample_bucket WHERE resolution = 10"),
                     390);
    assert_int_equal(count(fixture, "SELECT count(*) FROM sample_bucket WHERE resolution = 900"),
                     45);
    for (int i = 0; i < 6200; i++, time += 10800)
        store_one(fixture, "gpu", time, 0.5);
    assert_int_equal(count(fixture, "SELECT count(*) FROM sample_bucket WHERE resolution = 10800"),
                     5850);
    assert_true(count(fixture, "SELECT count(*) FROM sample_bucket") <= ALL_PLACES);
    run(fixture, "COMMIT");
    time -= 10800;
    assert_int_equal(find(fixture, "gpu", 3, time - begin, time - begin).count, 1);
    assert_int_equal(find(fixture, "gpu", 3, 0, 0).count, 0); /* its place was taken */
}

/* What is left of a device that is not sampled any more goes as the places are taken. */
static void a_device_that_is_gone_ages(void **state)
{
    struct fixture *fixture = *state;

    store_one(fixture, "pulled", begin, 0.5);
    run(fixture, "BEGIN");
    for (int i = 1; i <= 390; i++)
        store_one(fixture, "gpu", begin + 10 * i, 0.5);
    run(fixture, "COMMIT");
    assert_int_equal(find(fixture, "pulled", 0, 0, 0).count, 0);
    assert_int_equal(find(fixture, "pulled", 1, 0, 0).count, 1);
    assert_int_equal(count(fixture,
                           "SELECT count(*) FROM sample_bucket WHERE series = (SELECT id FROM"
                           " sample_series WHERE device = 'pulled') AND resolution = 10"),
                     0);
}

static void a_clock_that_jumps_costs_only_the_places_that_it_took(void **state)
{
    struct fixture *fixture = *state;
    struct found found;

    store_one(fixture, "gpu", begin, 0.5);
    store_one(fixture, "gpu", begin + 20, 0.5);
    store_one(fixture, "gpu", begin + 1e9 + 3900 - fmod(1e9, 3900), 1); /* the place of `begin` */
    store_one(fixture, "gpu", 17, 1);                                   /* 1970 */
    store_one(fixture, "gpu", begin + 30, 0.5);
    assert_int_equal(find(fixture, "gpu", 0, 0, 0).count, 0);
    assert_int_equal(find(fixture, "gpu", 0, 20, 39).count, 2);
    store_one(fixture, "gpu", begin + 21, 0.7); /* set back a little */
    found = find(fixture, "gpu", 0, 20, 29);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.buckets[0].samples, 2);
}

static void impossible_samples_are_passed_over(void **state)
{
    struct fixture *fixture = *state;
    struct sample samples[] = {
        {"gpu", SAMPLE_UTILISATION, begin, NAN},      {"gpu", SAMPLE_UTILISATION, begin, INFINITY},
        {"gpu", SAMPLE_UTILISATION, begin, -1e300},   {"gpu", SAMPLE_UTILISATION, NAN, 0.5},
        {"gpu", SAMPLE_UTILISATION, -5, 0.5},         {"gpu", SAMPLE_UTILISATION, 1e300, 0.5},
        {"gpu", SAMPLE_UTILISATION, begin + 5, 0.75},
    };
    struct found found;

    store(fixture, samples, sizeof samples / sizeof *samples);
    assert_int_equal(count(fixture, "SELECT count(*) FROM sample_bucket"), SAMPLE_RESOLUTIONS);
    found = find(fixture, "gpu", 0, 0, 9);
    assert_int_equal(found.buckets[0].samples, 1);
    store(fixture, samples, 0);
}

/* Both samples want one place of the finest ring. */
static void one_transaction_over_a_jump(void **state)
{
    struct fixture *fixture = *state;
    struct sample samples[] = {{"gpu", SAMPLE_JOBS, begin, 1},
                               {"gpu", SAMPLE_JOBS, begin + 3900, 2}};

    store(fixture, samples, 2);
    assert_int_equal(
        find(fixture, "gpu", 0, 0, 0).count + find(fixture, "gpu", 0, 3900, 3900).count, 1);
    assert_int_equal(count(fixture, "SELECT max(samples) FROM sample_bucket WHERE resolution = 10"),
                     1);
    assert_int_equal(find(fixture, "gpu", 1, 0, 3900).count, 2);
}

static void devices_are_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    char name[32];

    store_one(fixture, SAMPLE_QUEUE, begin - 1e6, 1); /* never forgotten */
    for (int i = 0; i < SAMPLE_DEVICES_MAX + 5; i++) {
        snprintf(name, sizeof name, "gpu-%d", i);
        store_one(fixture, name, begin + i * 10, 0.5);
    }
    assert_int_equal(count(fixture, "SELECT count(DISTINCT device) FROM sample_series"),
                     SAMPLE_DEVICES_MAX + 1);
    assert_int_equal(count(fixture, "SELECT count(DISTINCT series) FROM sample_bucket"),
                     SAMPLE_DEVICES_MAX + 1);
    assert_int_equal(samples_exist(fixture->connection, "gpu-4", &error), 0);
    assert_int_equal(samples_exist(fixture->connection, "gpu-5", &error), 1);
    assert_int_equal(samples_exist(fixture->connection, SAMPLE_QUEUE, &error), 1);
    store_one(fixture, "gpu-4", begin + 1e6, 0.5); /* it returns; gpu-5 goes */
    assert_int_equal(samples_exist(fixture->connection, "gpu-4", &error), 1);
    assert_int_equal(samples_exist(fixture->connection, "gpu-5", &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_go_into_all_resolutions, fixture_begin,
                                        fixture_end),
        cmocka_unit_test_setup_teardown(a_bucket_goes_on, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(the_rows_of_a_series_are_bounded, fixture_begin,
                                        fixture_end),
        cmocka_unit_test_setup_teardown(a_device_that_is_gone_ages, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(a_clock_that_jumps_costs_only_the_places_that_it_took,
                                        fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(impossible_samples_are_passed_over, fixture_begin,
                                        fixture_end),
        cmocka_unit_test_setup_teardown(one_transaction_over_a_jump, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(devices_are_bounded, fixture_begin, fixture_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
