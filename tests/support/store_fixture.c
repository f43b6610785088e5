/* store_fixture.c: see the header. */
#include "tests/support/store_fixture.h"

#include "base/cleanup.h"
#include "daemon/store/statement.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

void store_fixture_begin(struct store_fixture *fixture)
{
    const char *temporary = getenv("TMPDIR");

    snprintf(fixture->directory, sizeof fixture->directory, "%s/store.XXXXXX",
             temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(fixture->directory));
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
}

void store_fixture_open(struct store_fixture *fixture)
{
    struct error error = {0};

    if (store_open(&fixture->loop, fixture->directory, NULL, &fixture->store, &error) < 0)
        fail_msg("%s", error.text);
}

void store_fixture_close(struct store_fixture *fixture)
{
    store_close(TAKE_POINTER(fixture->store));
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
}

void store_fixture_remove(const struct store_fixture *fixture, const char *name)
{
    char path[320];

    snprintf(path, sizeof path, "%s/%s", fixture->directory, name);
    unlink(path);
}

void store_fixture_end(struct store_fixture *fixture)
{
    static const char *const names[] = {"traind.db",          "traind.db-wal",
                                        "traind.db-shm",      "checkpoints.db",
                                        "checkpoints.db-wal", "checkpoints.db-shm"};

    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        store_fixture_remove(fixture, names[i]);
    assert_int_equal(rmdir(fixture->directory), 0);
}

static int count_rows(struct store_connection *connection, void *data, struct error *error)
{
    static const char count[] = "SELECT count(*) FROM job";
    AUTO_STATEMENT struct statement row = statement_open(connection, count, error);

    if (statement_next(&row) != 1)
        return row.result < 0 ? row.result : -EIO;
    *(int64_t *)data = statement_int(&row, 0);
    return 0;
}

int64_t store_fixture_rows(struct store_fixture *fixture)
{
    int64_t rows = -1;

    store_read(fixture->store, count_rows, NULL, &rows);
    while (store_pending(fixture->store) > 0)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    return rows;
}
