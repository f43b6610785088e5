/* row_reader.h: reads a table piece by piece, so that its length takes no memory, and so that rows
 * which come through a pipe are answered as they come. Each piece is a set of its own, read as the
 * whole table would be. */
#pragma once

#include "engine/data/dataset.h"

struct row_reader;

/* Whether tables of that format are read in pieces; sequences are only where a pipe brings them. */
bool row_reader_reads(enum dataset_format format, bool pipe);

/* Begins to read config->paths[0], or the descriptor if it is not negative: then the path names it
 * in messages. `config` and `reference` outlive the reader; `config->unlabelled` says whether what
 * is to be predicted is read, too. Release with row_reader_close(). */
int row_reader_open(const struct dataset_config *config, const struct dataset *reference,
                    int descriptor, struct row_reader **reader, struct error *error);
void row_reader_close(struct row_reader *reader); /* NULL allowed */

/* Waits for the next rows and opens them: as many as are there, at most `most`. `*dataset` is NULL
 * behind the last one; the caller closes it. After -EINVAL, which names the line, the next call
 * goes on behind these rows. */
int row_reader_next(struct row_reader *reader, int64_t most, struct dataset **dataset,
                    struct error *error);
/* How many rows the latest row_reader_next() took. */
int64_t row_reader_count(const struct row_reader *reader);
/* Goes back to the beginning of the rows of the latest row_reader_next(), which failed. */
void row_reader_retry(struct row_reader *reader);
