/* table_reader.h: the reading of one table: table.c reads its rows twice, table_places.c finds its
 * columns, table_encoding.c turns the rows into samples. Internal to the folder. */
#pragma once

#include "engine/data/csv_table.h"
#include "engine/data/table_columns.h"

#include <stdint.h>

struct table_reader {
    const struct dataset_config *config;
    const struct dataset *reference;
    struct dataset *dataset;
    struct csv_table table;
    struct table_columns *columns; /* the set's own, or the reference's, which stays as it is */
    int32_t *column_of;            /* [columns of this table]: in `columns`, -1: none */
    struct label_names labels;     /* CLASS */
    struct label_names groups;     /* of dataset.split_keys */
    bool has_dates;                /* those are dates, because the first one is */
    int64_t row;                   /* of the present reading, with those that are left out */
    int64_t rows, capacity;
    int64_t dropped, without_target, unknown, unmarked; /* rows; and cells */
    double *lowest, *highest;                           /* VALUE: of each value to predict */
    bool told_of_header;
};

/* The columns of the training table, as the configuration marks them. `context` of these three is
 * a struct table_reader. */
int table_columns_begin(void *context, struct error *error);
/* Finds the columns of the training table in this one. */
int table_columns_match(void *context, struct error *error);
/* Appends a row to the samples, or leaves it out and counts why. */
int table_encode_row(void *context, const char *row, const char *end, struct error *error);
