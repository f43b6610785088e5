/* dataset.h: one opened set of samples, whatever file it came from.
 *
 * A reader (idx.c, csv.c, text_data.c, cifar.c, npy.c) leaves the samples in the form that is
 * smallest in memory: mapped bytes of the file where its layout allows, else a buffer.
 * dataset_gather() turns chosen samples into the rows of a batch: normalised float32, or int32
 * symbols for text.
 *
 * A mapped file must keep its length while it is open (dataset_check_files() notices the ordinary
 * accident); a file that is cut while a sample is copied ends the process with SIGBUS. */
#pragma once

#include "base/error.h"
#include "proto/data_formats.h"
#include "proto/token_kinds.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATASET_RANK_MAX = 4 };

/* The formats of proto/data_formats.h: DATASET_IDX, … */
enum dataset_format {
#define FORMAT(upper, lower, ...) DATASET_##upper,
    DATA_FORMATS(FORMAT)
#undef FORMAT
};
const char *dataset_format_to_string(enum dataset_format format);
int dataset_format_from_string(const char *name); /* -1 when unknown */
/* Whether its samples are symbols, int32 in a batch. */
bool dataset_format_has_symbols(enum dataset_format format);
/* Whether they are symbols of a text, each of which is predicted from those before it. */
bool dataset_format_is_text(enum dataset_format format);
/* Whether the samples are files of images. */
bool dataset_format_is_of_images(enum dataset_format format);

/* The kinds of proto/token_kinds.h: DATASET_TOKENS_CHARACTERS, … */
enum dataset_tokens {
#define KIND(upper, lower, ...) DATASET_TOKENS_##upper,
    TOKEN_KINDS(KIND)
#undef KIND
};
const char *dataset_tokens_to_string(enum dataset_tokens tokens);
int dataset_tokens_from_string(const char *name); /* -1 when unknown */

enum { DATASET_KMER_MAX = 8 };

/* What is to be predicted. */
enum dataset_target {
    DATASET_TARGET_CLASS, /* one int32 label in [0, classes) */
    DATASET_TARGET_VALUE  /* target_width float32 values */
};

/* What values to predict are, where they are not standardised. */
enum dataset_plain {
    DATASET_PLAIN_NOT,           /* standardised, if data.normalize asks for it */
    DATASET_PLAIN_LABELS,        /* each 0 or 1 */
    DATASET_PLAIN_PROBABILITIES, /* of the classes: at least 0, and their sum is 1 */
    DATASET_PLAIN_DIRECTIONS     /* any: vectors whose direction alone counts */
};

/* The samples' element in memory. */
enum dataset_element { DATASET_UINT8, DATASET_FLOAT32, DATASET_INT32 };

enum dataset_header { DATASET_HEADER_AUTO, DATASET_HEADER_YES, DATASET_HEADER_NO };
const char *dataset_header_to_string(enum dataset_header header); /* "auto" "yes" "no" */
int dataset_header_from_string(const char *name);

/* How commas and points of numbers are read. */
enum dataset_decimal {
    DATASET_DECIMAL_AUTO,  /* by points; a number like 1,234 may be meant either way, and is none */
    DATASET_DECIMAL_POINT, /* 1,234 is 1234 */
    DATASET_DECIMAL_COMMA  /* 1,234 is 1.234, and 1.234,5 is 1234.5 */
};
const char *dataset_decimal_to_string(enum dataset_decimal decimal);
int dataset_decimal_from_string(const char *name); /* "auto" "point" "comma" */

/* What becomes of a table's cell without a value. */
enum dataset_missing {
    DATASET_MISSING_INDICATE, /* the column's mean; one more feature says that it was missing */
    DATASET_MISSING_MEAN,
    DATASET_MISSING_DROP, /* the row is left out */
    DATASET_MISSING_ERROR
};
const char *dataset_missing_to_string(enum dataset_missing rule);
int dataset_missing_from_string(const char *name); /* "indicate" "mean" "drop" "error" */

/* What a table's split_column holds: numbers or dates, texts of which equal ones are a group, or
 * texts that say of which part a sample is. */
enum dataset_split_keys { DATASET_KEYS_ORDER, DATASET_KEYS_GROUPS, DATASET_KEYS_PARTS };
/* The parts, as dataset.split_keys has them. */
enum dataset_part { DATASET_PART_TRAIN, DATASET_PART_VALIDATION, DATASET_PART_TEST };

/* Whether an image's channels come first or last in the file; AUTO: first, unless it looks wrong.
 * SEQUENCE: samples are no images, but [steps, features]. */
enum dataset_layout {
    DATASET_LAYOUT_AUTO,
    DATASET_LAYOUT_CHW,
    DATASET_LAYOUT_HWC,
    DATASET_LAYOUT_SEQUENCE
};
int dataset_layout_from_string(const char *name); /* "auto" "chw" "hwc" "sequence" */
const char *dataset_layout_to_string(enum dataset_layout layout);

/* What opening a set tells, and what may end it early; every member may be NULL. The functions are
 * called from the thread that opens the set. */
struct dataset_events {
    void *context;
    /* Something that the user should know although it can be helped. */
    void (*warning)(void *context, const char *text);
    /* Now and then while something takes long: `what` is happening, `done` of
     * `count` (0: unknown). */
    void (*progress)(void *context, const char *what, int64_t done, int64_t count);
    const atomic_int *stop; /* not 0: dataset_open() ends with -EINTR */
};

/* Where a set lies and how it is to be read. Nothing is kept of it after dataset_open(). */
struct dataset_config {
    enum dataset_format format;
    const char *directory; /* relative paths start here; NULL: the working directory */
    /* csv, text, cifar, npy: files, joined in this order; idx: the images; image_folder: the
     * folder; generate: program and arguments, in which {first}, {count}, {seed} and {output} are
     * filled in: it writes count rows to {output}, each the sample's elements, then the values or
     * the label */
    const char *const *paths;
    int path_count;
    const char *labels_path;    /* idx, npy */
    const char *lengths_path;   /* npy, of sequences: struct dataset; NULL: there are none */
    const char *weights_path;   /* npy: of sample_weights; NULL: there are none */
    enum dataset_target target; /* losses of classes want CLASS, those of values VALUE */
    enum dataset_plain plain_targets;
    int32_t classes;                 /* 0: highest label + 1; text: always the vocabulary */
    int64_t shape[DATASET_RANK_MAX]; /* csv, npy, generate: of one sample */
    int rank;                        /* 0: as the file has it; csv: [columns] */
    enum dataset_layout layout;      /* npy */

    struct {
        const char *label_column;   /* "first", "last" (NULL), a number from 0, or a name */
        const char *comment_prefix; /* lines that begin so are left out; NULL: "#"; "": none */
        char delimiter;             /* 0: ',' */
        enum dataset_header header; /* AUTO: yes when no cell of the first row is a number;
                                       csv_sequences has further rules */
        double divide_by;           /* of every feature, not of the target; 0: 1 */
    } csv;
    /* text, sequences: the symbols that a model knows which was trained on an earlier form of the
     * set; NULL: those that occur */
    const struct dataset_vocabulary *vocabulary;
    struct {
        int32_t context;  /* symbols that a sample holds */
        bool labels_each; /* each of them has a label, the symbol after it; else the last one */
        bool streams;     /* with labels_each: see struct dataset */
    } text;
    struct {
        /* of csv.label_column's form; NULL features: all columns but the targets; NULL targets:
         * csv.label_column */
        const char *const *features, *const *targets;
        const char *const *ignored, *const *categories; /* columns; NULL: none */
        const char *const *missing_words;               /* NULL: those of table_cell_is_missing() */
        int feature_count, target_count, ignored_count, category_count, missing_word_count;
        enum dataset_missing missing;
        enum dataset_decimal decimal;
        bool day_first; /* 3/4/2026 is in April */
        int bins;       /* numbers become so many features more, or fewer (table_bins.h); 0: none */
        /* The column that fills dataset.split_keys, of label_column's form; no feature unless
         * `features` names it. NULL: none. Its texts are groups or name parts, or it has numbers
         * and dates to order by */
        const char *split_column;
        const char *weight_column; /* of sample_weights, likewise; NULL: there is none */
        enum dataset_split_keys split_keys;
        /* PARTS: the texts of the samples that validate and that test; others train. Both NULL:
         * the column has words for all three */
        const char *const *validation_values, *const *test_values;
        int validation_value_count, test_value_count;
    } table;
    struct {
        enum dataset_tokens tokens;
        int32_t kmer, kmer_stride; /* KMERS: nucleotides of a token, and from one to the next */
        int64_t length;            /* tokens that a sample is cut or padded to; 0: the longest of
                                      the training set */
        const char *column;        /* csv_sequences: as label_column; NULL: "first" */
    } sequence;
    struct {
        const char *const *class_of_file; /* a label for each of `paths`; NULL: each record's title
                                             has it in the field that csv.label_column names */
        int class_count;
        bool skips_empty; /* records without letters are left out, with a warning */
    } fasta;
    struct {
        int64_t input, horizon; /* rows that a sample holds, and rows after them to predict */
        int64_t stride;         /* rows from a sample to the next; 0: 1 */
        /* of csv.label_column's form; NULL features: all columns of numbers; NULL targets: the last
         * column */
        const char *const *features, *const *targets;
        int feature_count, target_count;
        /* The rows to predict, from the first to before the second, 0 is the oldest; two numbers up
         * to 1 are shares of all rows. { 0, 0 }: all. Samples may begin before the first */
        double rows[2];
        int64_t season;      /* rows before those predicted that series_past() may be asked for */
        bool newest_first;   /* the file's first row is the latest */
        int32_t first_label; /* CLASS: the number of class 0 */
    } series;
    struct {
        int label_bytes; /* 1: CIFAR-10; 2: CIFAR-100, whose second byte (fine) is the label */
    } cifar;
    struct {
        int channels;          /* 1 or 3; 0: 3 */
        const char *column;    /* image_csv: of the paths; NULL: the first */
        const char *folder;    /* image_csv: that paths begin in; NULL: that of the table */
        bool folder_beside;    /* `folder` is in that of the table, if the first image is there */
        int64_t height, width; /* images are resized to it; 0: they are not */
        int64_t shorter;       /* or their shorter side is to this; 0: it is not */
        int64_t crop_height, crop_width; /* of the part in the middle that is kept then; 0: all */
    } image;
    struct {
        int64_t samples; /* of the set */
        int64_t chunk;   /* of one run of the command; the last one's may be fewer */
        uint64_t seed;   /* what {seed} stands for */
        int32_t values;  /* VALUE: numbers to predict; 0: 1 */
        int processes;   /* at once; 0: as many as usable cores */
    } generate;
    bool describes; /* generate: what is not in the cache is described and not made (is_absent) */
    /* What is to be predicted is not known: labels are not read where the format allows it, and are
     * 0. Every row is a sample, also one with missing values that training leaves out. Columns are
     * found by name, and others are left alone. For sets with a reference */
    bool unlabelled;
    /* csv, table, csv_sequences: the rows themselves, which stay where they are, instead of files;
     * paths[0] names them in messages. NULL: the files are read */
    const char *rows;
    size_t row_bytes;
    int64_t rows_line; /* lines of their source before them, beside a header that they begin with */
    const struct dataset_events *events; /* NULL allowed */
};

/* The symbols of a text or of sequences. Characters and bytes ascend; a symbol's number is its
 * place. Nucleotides are A C G T N. A k-mer of A C G T is a number of base 4 whose first digit
 * weighs most; the one after the last is any k-mer that has another letter. */
struct dataset_vocabulary {
    enum dataset_tokens tokens;
    bool bytes; /* symbols are bytes (the text is not UTF-8), else code points */
    int32_t kmer, kmer_stride;
    int32_t count;     /* without the padding */
    bool is_padded;    /* symbol `count` fills the end of short sequences */
    uint32_t *symbols; /* owned; characters and bytes, else NULL */
};

/* The number of symbols, with the padding. */
static inline int32_t dataset_vocabulary_size(const struct dataset_vocabulary *vocabulary)
{
    return vocabulary->count + vocabulary->is_padded;
}

/* value = (raw - mean[g]) * factor[g]; g is the channel of an image (rank 3), the feature of a
 * sequence (rank 2: [rows, features]), else the column. */
enum dataset_normalisation_kind {
    DATASET_NORMALISE_NONE,    /* bytes to [0, 1], floats as they are */
    DATASET_NORMALISE_STANDARD /* mean 0 and standard deviation 1 over the training part */
};
const char *dataset_normalisation_kind_to_string(enum dataset_normalisation_kind kind);
int dataset_normalisation_kind_from_string(const char *name); /* "none" "standard" */

struct dataset_normalisation {
    enum dataset_normalisation_kind kind;
    int64_t groups;
    float *mean, *factor; /* [groups] each, owned; factor = 1 / (population) standard deviation,
                             1 where that is 0 */
    /* The same of the values to predict, which dataset_normalise_targets() applies. */
    int64_t target_groups;
    float *target_mean, *target_factor;
};

/* time_series: the rows of the samples. Row 0 of the set is that of sample 0. */
struct dataset_series {
    int64_t input, horizon, stride;
    int64_t rows;             /* in memory */
    int64_t past;             /* rows of `targets` before row 0, for series_past() */
    int64_t file_first;       /* row of the file, the oldest is 0, that is row 0 */
    int64_t first, end;       /* rows of the file to predict */
    int32_t features, values; /* columns of a sample, and to predict */
    char **names;             /* [features + values], owned; NULL without a header */
    bool newest_first;        /* the file's first row is the latest */
    struct dataset_series_file {
        char *path; /* owned */
        int64_t rows;
    } * files; /* [file_count] in the order in which they are joined; owned */
    int32_t file_count;
};

struct dataset_mapping {
    void *address;
    size_t bytes;
    int descriptor; /* of a mapped file, to notice a change of its length; -1: anonymous memory */
    char *path;
};

struct dataset {
    enum dataset_format format;
    enum dataset_element element;
    enum dataset_target target;
    enum dataset_plain plain_targets;
    int rank;
    int64_t shape[DATASET_RANK_MAX]; /* of one sample: [1,28,28], [64], [context] */
    int64_t sample_elements;         /* their product */
    int64_t count;                   /* samples, at most 2^32 - 1 */
    int32_t classes;                 /* CLASS; 0 for VALUE */
    int32_t target_width;            /* values or labels of a sample */
    bool is_absent; /* described alone: there are no samples to gather or measure */

    /* Samples lie in blocks, one for each buffer or mapped file: sample i of block b, where
     * block_first[b] <= i < block_first[b + 1], begins (i - block_first[b]) * sample_stride bytes
     * after samples[b]. */
    const uint8_t **samples; /* owned, [block_count] */
    int64_t *block_first;    /* owned, [block_count + 1] */
    int block_count;
    size_t sample_stride;
    void *buffer;               /* owned; the samples of csv, text and sequences */
    const uint8_t *byte_labels; /* idx: label i is byte_labels[i] (mapped) */
    int32_t *labels;            /* owned; CLASS where byte_labels is NULL, not text */
    float *targets;             /* owned; VALUE: dataset_targets() */
    /* What 1 in each of the standardised targets is in the file's units, in which metrics are told;
     * owned, [target_width]; NULL: targets are as in the file, or are told as they are */
    double *target_units;
    /* in labels or targets, the place of sample 0's and the distance to those of the next */
    int64_t target_first, target_stride;

    struct dataset_vocabulary vocabulary; /* text, sequences */
    /* sequences: their letters lie one after another, those of sample i begin at letter
     * letter_first[i]; owned, [count + 1] */
    int64_t *letter_first;
    /* sequences of numbers: how many steps of each sample count, 1 to all; the others are padding,
     * which is 0 in a batch. Owned, [count]; NULL: all count */
    int32_t *lengths;
    struct dataset_series series; /* time_series */
    int64_t symbol_count;         /* text: length in symbols; count = symbol_count - context */
    bool labels_each;             /* text: a sample has a label for each of its symbols */
    /* Row r of each batch goes on where row r of the batch before ended: dataset_stream_place().
     * Windows are whole: what is left at the end of a view belongs to none */
    bool streams;
    /* and the first `last_ignored` labels of the set's last sample are -1: the sample before it in
     * dataset_view_all() has them */
    int32_t last_ignored;
    char **column_names; /* csv with a header, table: of the features; owned, or NULL */
    char *target_name;   /* tables with a header: of the label; owned, or NULL */
    /* image_csv with a header: of the columns of values to predict; owned, [value_name_count] */
    char **value_names;
    int32_t value_name_count;
    struct table_columns *table; /* table: how its columns became features; owned */
    /* image_folder, table and sequences with words as labels: [class_count], owned; label i is
     * class_names[i]; NULL: classes have numbers */
    char **class_names;
    int32_t class_count;
    int32_t label_column; /* csv: from 0 */
    /* table with a split_column: of each sample the number of its group or part, or its place in
     * the order; owned, [count]; NULL: there are none */
    double *split_keys;
    /* what each sample counts in the loss of training, 0 or more; owned, [count]; NULL: all
     * alike */
    float *sample_weights;

    struct dataset_mapping *mappings; /* owned */
    int mapping_count;
    size_t memory_bytes; /* anonymous memory held: buffers, labels, unpacked files */
    size_t mapped_bytes; /* mapped from files, in memory only as far as the kernel likes */
};

/* Opens and checks a set. `reference` is the training set that a validation or test set must agree
 * with (shape, classes, columns, vocabulary), NULL for the training set itself. The caller releases
 * the set with dataset_close(); `reference` may go first. On failure a sentence that names the file
 * and the line, column or offset: -ENOENT and the like from opening it, -EINVAL for its content,
 * -ENOMEM. */
int dataset_open(const struct dataset_config *config, const struct dataset *reference,
                 struct dataset **dataset, struct error *error);
void dataset_close(struct dataset *dataset);

/* -ERROR_STALE_FILE with a sentence when a mapped file has changed its
 * length since it was opened. */
int dataset_check_files(const struct dataset *dataset, struct error *error);

/* The values to predict of sample `index`, [target_width]: standardised ones, if
 * dataset_normalise_targets() has been called. */
static inline const float *dataset_targets(const struct dataset *dataset, int64_t index)
{
    return dataset->targets + dataset->target_first + index * dataset->target_stride;
}

/* Some of a set's samples: indices[0..count), or first..first+count when `indices` is NULL. */
struct dataset_view {
    const struct dataset *dataset;
    const uint32_t *indices;
    int64_t first, count;
    /* windows of a text, which are samples `stride` apart (0: 1). `last` is the last sample that
     * belongs to the view; positions behind it stand for it. An epoch in random order begins with
     * one of the first `shifts` samples (0: 1) */
    int64_t stride, last, shifts;
};

static inline int64_t dataset_view_index(const struct dataset_view *view, int64_t position)
{
    int64_t index = view->first + position * (view->stride ? view->stride : 1);

    if (view->indices)
        return (int64_t)view->indices[position];
    return view->stride && index > view->last ? view->last : index;
}

/* Cuts `count` windows into as many streams as a batch has rows, and returns which of them is at
 * `position` of an epoch. The streams are as long as each other or one window longer, the longer
 * ones first: a shorter last batch has these rows. */
static inline int64_t dataset_stream_place(int64_t count, int64_t batch, int64_t position)
{
    int64_t row = position % batch, longer = count % batch;

    return row * (count / batch) + (row < longer ? row : longer) + position / batch;
}

/* How many samples further on the epoch's samples lie than dataset_view_index() says, where they
 * are in random order: a function of seed and epoch (sampler.h). */
int64_t dataset_view_shift(const struct dataset_view *view, uint64_t seed, uint32_t epoch);

/* The whole set as a view. Of a text whose symbols all have labels: windows end to end, so that
 * each symbol but the first is a label once. */
struct dataset_view dataset_view_all(const struct dataset *dataset);

/* Measures the constants over `train` (for NONE they are 0 and 1/255 or 1). For text only NONE is
 * allowed (-EINVAL). Release with dataset_normalisation_release(). */
int dataset_normalisation_measure(enum dataset_normalisation_kind kind,
                                  const struct dataset_view *train,
                                  struct dataset_normalisation *normalisation, struct error *error);
/* The same from constants that are given, [count] each: value = (raw - mean) / deviation, with raw
 * from 0 to 1 where samples are bytes. Those of values to predict are measured over `train`.
 * -EINVAL if the set has not as many groups, or is one of symbols, a table or a time series. */
int dataset_normalisation_given(const double *mean, const double *deviation, size_t count,
                                const struct dataset_view *train,
                                struct dataset_normalisation *normalisation, struct error *error);
void dataset_normalisation_release(struct dataset_normalisation *normalisation);
/* Standardises the values to predict in place, and does nothing where they have no constants. Call
 * it once for each set, with the constants of the training set. -ENOMEM. */
int dataset_normalise_targets(const struct dataset_normalisation *normalisation,
                              struct dataset *dataset, struct error *error);

/* The constants as text for a checkpoint's metadata ("standard 2 0.5,0.25 4,8": kind, groups,
 * means, factors; floats read back to the same bits), malloc'd, NULL without memory; and back. */
char *dataset_normalisation_format(const struct dataset_normalisation *normalisation);
int dataset_normalisation_parse(const char *text, const struct dataset *dataset,
                                struct dataset_normalisation *normalisation, struct error *error);

/* Bytes of one sample's row and of one sample's target in a batch. */
size_t dataset_sample_bytes(const struct dataset *dataset);
size_t dataset_target_bytes(const struct dataset *dataset);

/* The lengths of the samples `indices`, [count]; the set must have lengths. */
void dataset_gather_lengths(const struct dataset *dataset, const uint32_t *indices, int64_t count,
                            int32_t *lengths);

/* The number of steps (tokens, or rows of features) of a sample without the padding; that of its
 * first dimension unless it is a sequence. */
int64_t dataset_sample_length(const struct dataset *dataset, int64_t index);

/* Writes the samples `indices` (count of them) as consecutive rows: float32 [count][shape…], or
 * int32 [count][context or length] for symbols; and their targets: int32 [count] or float32
 * [count][target_width]. `normalisation` is not used for symbols and may be NULL there.
 * Thread-safe, allocates nothing. -ERANGE with a sentence for an index beyond the set. */
int dataset_gather(const struct dataset *dataset, const struct dataset_normalisation *normalisation,
                   const uint32_t *indices, int64_t count, void *samples, void *targets,
                   struct error *error);

/* Writes the samples alone as the set has them, [count][shape…] bytes: of a set of bytes. */
int dataset_gather_bytes(const struct dataset *dataset, const uint32_t *indices, int64_t count,
                         uint8_t *samples, struct error *error);

/* Text to symbols and back. encode: at most `capacity` symbols of the NUL-terminated `text`, their
 * number in `count`; -EINVAL with a sentence naming the first one outside the vocabulary. decode:
 * writes the bytes of a character (UTF-8 or one byte, at most 4) and returns how many. */
int dataset_vocabulary_encode(const struct dataset_vocabulary *vocabulary, const char *text,
                              int32_t *symbols, size_t capacity, size_t *count,
                              struct error *error);
int dataset_vocabulary_decode(const struct dataset_vocabulary *vocabulary, int32_t symbol,
                              char bytes[4]);
/* The vocabulary as text for a checkpoint's metadata ("utf-8 a 20 41": hexadecimal; "padded utf-8
 * 41", "padded nucleotides", "padded kmers 6 1"), malloc'd; and back. */
char *dataset_vocabulary_format(const struct dataset_vocabulary *vocabulary);
int dataset_vocabulary_parse(const char *text, struct dataset_vocabulary *vocabulary,
                             struct error *error);
void dataset_vocabulary_release(struct dataset_vocabulary *vocabulary);

/* What any model of a text must beat, in nats per symbol over the validation part. */
struct text_baselines {
    double uniform; /* log(vocabulary) */
    double bigram;  /* -log p(symbol | symbol before it), counted over the training part with one
                       added to each count (Laplace) */
};
int text_baselines(const struct dataset_view *train, const struct dataset_view *validation,
                   struct text_baselines *baselines, struct error *error);

/* Where label or value `number` of sample `index` stands: the file, and the row of data in it, the
 * first is 1. */
const char *series_place(const struct dataset *dataset, int64_t index, int number, int64_t *row);

/* ---- forecasts that a model of a time series must beat ---- */

/* The values of all columns to predict, `back` rows before the first one that sample `index`
 * predicts: 1 is the last known row. In the units of dataset_targets(). NULL: the set has no such
 * row. */
const float *series_past(const struct dataset *dataset, int64_t index, int64_t back);

/* Mean errors over all values that a view predicts, in the units of dataset_targets(). NAN: the set
 * lacks the rows, or no season was given. */
struct series_baselines {
    double last_mse, last_mae;     /* every row is like the last known one */
    double season_mse, season_mae; /* every row is like that of the latest known season */
};
/* `season` in rows, such as 24 for hours that are alike from day to day; 0: none. */
struct series_baselines series_baselines(const struct dataset_view *view, int64_t season);
