/* reader.h: functions that the readers of engine/data/ and dataset.c share. Internal to the
 * folder. */
#pragma once

#include "engine/data/dataset.h"

/* Opens a file of the set, maps it (a gzip file is recognised by its first bytes and unpacked into
 * anonymous memory) and appends it to dataset->mappings. `*mapping` is valid until the next call.
 * An empty file is an error. */
int reader_map(struct dataset *dataset, const char *directory, const char *path,
               const struct dataset_mapping **mapping, struct error *error);

/* Appends an existing mapping with a copy of `path`. On failure it releases the mapping. */
int reader_adopt_mapping(struct dataset *dataset, const struct dataset_mapping *mapping,
                         const char *path, struct error *error);

/* "directory/path", or the path alone when it is absolute or `directory` NULL; malloc'd, NULL
 * without memory. */
char *reader_path_join(const char *directory, const char *path);

enum { READER_DROP_BYTES = 1 << 22 };
/* Releases the pages between the two, which are not read again. So a file and the data made from it
 * need not be in memory together. Returns the first byte that is kept. Call it whenever
 * READER_DROP_BYTES were read. */
const uint8_t *reader_drop_pages(const uint8_t *from, const uint8_t *to);

/* Where the text of a file of lines begins, behind a byte order mark. NULL with a sentence: it is
 * UTF-16, or its lines end in CR alone. */
const char *reader_text_begin(const struct dataset_mapping *mapping, struct error *error);

/* The encoding of a text that has to be converted, by iconv's name: "UTF-16", "UTF-32BE", …; NULL:
 * none has. */
const char *reader_find_encoding(const uint8_t *bytes, size_t size);

/* -EINVAL with a sentence: the file is one of another program, by the bytes that it begins with. */
int reader_check_text(const struct dataset_mapping *mapping, struct error *error);

/* The same for what is to be a table: neither a web page, XML nor JSON. */
int reader_check_table(const struct dataset_mapping *mapping, struct error *error);

/* Replaces the latest mapping by one of UTF-8 with lines that end in LF, if it is UTF-16, UTF-32 or
 * its lines end in CR alone. `*mapping` is the latest one then. -EINVAL: it is damaged, or no text
 * but a file of another program. */
int reader_decode_text(struct dataset *dataset, const struct dataset_mapping **mapping,
                       struct error *error);

/* Releases one mapping; later ones move up. */
void reader_drop_mapping(struct dataset *dataset, int index);
/* Releases the mappings: for readers that have copied what they need. */
void reader_unmap_all(struct dataset *dataset);

/* Appends a block of `count` samples that begin at `samples`. */
int reader_add_block(struct dataset *dataset, const uint8_t *samples, int64_t count,
                     struct error *error);

/* Where the raw sample `index` (below count) begins. */
const uint8_t *reader_sample(const struct dataset *dataset, int64_t index);

/* Sets shape, rank and sample_elements. */
void reader_set_shape(struct dataset *dataset, const int64_t *shape, int rank);

/* "[1,28,28]" */
char *reader_format_shape(const int64_t *shape, int rank, char *output, size_t size);

/* The number of classes that labels are checked against: the reference's, else the configuration's;
 * 0 when the labels decide. */
int32_t reader_class_limit(const struct dataset_config *config, const struct dataset *reference);

/* Makes labels or values of 0 for `count` samples, of what is to be predicted and is not known. */
int reader_zero_labels(struct dataset *dataset, int64_t count, struct error *error);

/* Reads a label that is written as a truth value, as pandas writes them: "True" is 1, "false" 0. */
bool plain_label_parse(enum dataset_plain plain, const char *text, size_t length, double *value);
/* Why a value to predict is none for the loss, as the end of a sentence; NULL: it is one. */
const char *plain_target_fault(enum dataset_plain plain, double value);
/* Whether the values of a sample are no probabilities, or those of all classes. */
bool plain_targets_add_up(enum dataset_plain plain, const float *values, int64_t count,
                          double *sum);
/* The same of a table's row; -EINVAL names its line. */
int plain_targets_check_row(enum dataset_plain plain, const float *values, int64_t count,
                            const char *path, int64_t line, struct error *error);
/* Checks all values of the set that are to be predicted. */
int plain_targets_check(const struct dataset *dataset, const char *path, struct error *error);

/* Index of the first value that is infinite or not a number, -1 when all are finite. */
int64_t reader_find_nonfinite(const float *values, int64_t count);

/* Tells the user of something that can be helped (events->warning). */
void reader_warn(const struct dataset_config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

int reader_out_of_memory(const char *path, struct error *error);

/* The readers, one for each line of DATA_FORMATS: idx_read, … Each fills a zeroed set whose
 * `format` and `target` are set; dataset_open() releases it after a failure. */
typedef int dataset_reader(const struct dataset_config *config, const struct dataset *reference,
                           struct dataset *dataset, struct error *error);
#define DECLARE_READER(upper, lower, ...) dataset_reader lower##_read;
DATA_FORMATS(DECLARE_READER)
#undef DECLARE_READER

/* Reads a decimal number ("-1.5e3"; no blanks, no hexadecimal, no infinity) that begins at `text`
 * and ends before `end`: correctly rounded and whatever the locale. Returns what follows it, NULL
 * when there is no number. */
const char *number_parse(const char *text, const char *end, double *value);

enum { NUMBER_TEXT_BYTES = 32 };
/* The number with as few digits as make it again: 0.1, not 0.10000000000000001. Returns `text`. */
char *number_format(double value, char text[NUMBER_TEXT_BYTES]);

/* One code point of UTF-8, or one byte when `bytes`; `text` < `end` and well-formed. */
uint32_t vocabulary_next(bool bytes, const uint8_t **text, const uint8_t *end);
/* A symbol for a message: '"é" (U+00E9)', 'byte 0xFF'. */
char *vocabulary_name_symbol(bool bytes, uint32_t symbol, char *output, size_t size);
/* The number of a symbol; -1 if the vocabulary lacks it. */
int32_t vocabulary_find(const struct dataset_vocabulary *vocabulary, uint32_t symbol);

/* Views of a text whose symbols all have labels, of the samples [first, first + samples): windows
 * end to end, of which the last one begins earlier where they do not come out even; and windows for
 * training, which every epoch shifts (dataset_view_shift()). */
struct dataset_view text_windows(const struct dataset *dataset, int64_t first, int64_t samples);
struct dataset_view text_training_windows(const struct dataset *dataset, int64_t first,
                                          int64_t samples);
