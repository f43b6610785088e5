/* store_fixture.h: a store in a temporary folder, for cmocka tests. */
#pragma once

#include "daemon/store/store.h"

struct store_fixture {
    uv_loop_t loop;
    struct store *store;
    char directory[256];
};

/* An empty folder and a loop; the store is not open yet. */
void store_fixture_begin(struct store_fixture *fixture);
void store_fixture_open(struct store_fixture *fixture);
void store_fixture_close(struct store_fixture *fixture);
/* Removes a file of the folder, if it is there. */
void store_fixture_remove(const struct store_fixture *fixture, const char *name);
/* Closes the loop and removes the databases and the folder. */
void store_fixture_end(struct store_fixture *fixture);
/* The jobs in the store, which is open. */
int64_t store_fixture_rows(struct store_fixture *fixture);
