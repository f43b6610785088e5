/* prediction_writer.h: writes predictions as CSV, JSON lines or an array of NumPy: of classes their
 * names and probabilities, of values the numbers in the units of the training data. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "worker/trainee/worker_setup.h"

#include <stdint.h>

enum prediction_format { PREDICTION_CSV, PREDICTION_JSONL, PREDICTION_NPY };
DECLARE_STRING_TABLE(prediction_format, enum prediction_format);

struct prediction_writer_config {
    const struct worker_setup *setup; /* of the model; outlives the writer */
    const char *path;                 /* NULL or "-": standard output */
    enum prediction_format format;
    int top;            /* the likeliest classes to write; 0: one */
    bool probabilities; /* of all classes */
    bool paths;         /* a first column, or member, names each sample by its path */
};

struct prediction_writer;

/* Some samples' predictions as the format has them. */
struct predictions {
    char *text;
    size_t length;
    int64_t count, undefined; /* undefined: of these samples an output is no finite number */
};

/* A file appears at `path` when it is whole. -EINVAL with a sentence for what the format does not
 * hold. Release with prediction_writer_abort(), which leaves no file. */
int prediction_writer_open(const struct prediction_writer_config *config,
                           struct prediction_writer **writer, struct error *error);
/* Prints `count` samples: the model's outputs, [count][outputs], and where they have paths those,
 * [count], else NULL. Threads may do so at the same time. The caller frees the text, also after a
 * failure. */
int prediction_writer_print(const struct prediction_writer *writer, const float *outputs,
                            char *const *paths, int64_t count, struct predictions *predictions,
                            struct error *error);
int prediction_writer_add(struct prediction_writer *writer, const struct predictions *predictions,
                          struct error *error);
/* Answers a row that cannot be read; only JSON lines can. */
bool prediction_writer_answers_errors(const struct prediction_writer *writer);
void prediction_writer_add_error(struct prediction_writer *writer, const char *sentence);
/* Of how many samples so far an output is no finite number. */
int64_t prediction_writer_undefined(const struct prediction_writer *writer);
/* Hands over to the reader of a pipe what was written so far. */
int prediction_writer_flush(struct prediction_writer *writer, struct error *error);
int prediction_writer_finish(struct prediction_writer *writer, struct error *error);
void prediction_writer_abort(struct prediction_writer *writer); /* NULL allowed */
