/* test_search_rows.c: what trials have measured becomes results at rungs, a bounded number at a
 * time. */
#include "daemon/store/connection.h"
#include "daemon/store/search_rows.h"
#include "tests/support/store_fixture.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RUNGS = 30, ROOM = 7 };

static const char fill_sql[] =
    "INSERT INTO job (id, name, kind, state, uid, user, priority, spec, submitted, attempt) VALUES"
    "  (1, 'x', 'command', 'running', 5, 'u', 0, '{}', 100, 1);"
    "INSERT INTO metric (job, name, step, time, value) VALUES"
    "  (1, 'a', 2, 1, 0.5), (1, 'a', 40, 2, 0.75);";

static const struct search search = {.algorithm = SEARCH_NONE,
                                     .metric = "a",
                                     .by_steps = true,
                                     .most = RUNGS,
                                     .interval = 1,
                                     .trials = 1};

/* What came, in its order. */
struct taken {
    uint32_t count;
    uint32_t calls;
};

static void take(void *data, const struct search_row *row)
{
    struct taken *taken = data;

    assert_int_equal(row->rung, taken->count++);
    assert_true(row->value == (row->rung < 2 ? 0.5 : 0.75));
}

static int add_all(struct store_connection *connection, void *data, struct error *error)
{
    struct taken *taken = data;
    unsigned room = 0;

    assert_int_equal(sqlite3_exec(store_database(connection), fill_sql, NULL, NULL, NULL),
                     SQLITE_OK);
    while (room == 0) {
        uint32_t before = taken->count;

        room = ROOM;
        taken->calls++;
        assert_int_equal(search_results_add(connection, &search, 1, 1, &room, take, taken, error),
                         0);
        assert_int_equal(taken->count - before, ROOM - room);
    }
    return 0;
}

/* One measurement lies behind 28 rungs: each gets its result once, over five calls. */
static void one_measurement_is_stored_in_slices(void **state)
{
    struct store_fixture fixture;
    struct taken taken = {0};

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, add_all, NULL, &taken);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
    assert_int_equal(taken.count, RUNGS);
    assert_int_equal(taken.calls, RUNGS / ROOM + 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_measurement_is_stored_in_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
