/* data_formats.h: the data formats that a specification may name. The schema, its help and checks,
 * the documentation and enum dataset_format are made from this list. Each format's reader is a file
 * in engine/data/. */
#pragma once

/* Properties of a format's samples. */
enum data_format_trait {
    DATA_FORMAT_TEXT = 1,       /* each symbol is predicted from those before it */
    DATA_FORMAT_VALUES = 2,     /* targets may be numbers, for mean squared error */
    DATA_FORMAT_LABEL_FILE = 4, /* the labels are in a separate file */
    DATA_FORMAT_GENERATED = 8,  /* a command writes the samples */
    DATA_FORMAT_SYMBOLS = 16,   /* symbols, for a model whose first layer is an embedding */
    DATA_FORMAT_IMAGES = 32     /* files of images */
};

/* Columns: DATASET_<upper> of enum dataset_format; the name in specifications and messages; the
 * traits; a short description; then the format's keys of `data`, data.train and data.test
 * (proto/job_spec_schema_data.c), each with its default as JSON. NULL: the default in the key's own
 * row, if any. A key that no row names belongs to all formats. */
/* clang-format off */
#define DATA_FORMATS(FORMAT)                                                                      \
    FORMAT(IDX, idx, DATA_FORMAT_LABEL_FILE, "images and labels in MNIST's format, also .gz",     \
           {"images", NULL}, {"labels", NULL}, {"normalize", "\"standard\""}, {"augment", NULL},  \
           {"label_noise", NULL})                                                                 \
    FORMAT(CSV, csv, DATA_FORMAT_VALUES, "one sample a line",                                     \
           {"path", NULL}, {"label_column", NULL}, {"header", NULL}, {"delimiter", NULL},         \
           {"comment", NULL}, {"shape", NULL}, {"divide_by", NULL},                               \
           {"normalize", "\"standard\""}, {"augment", NULL}, {"label_noise", NULL})               \
    FORMAT(TABLE, table, DATA_FORMAT_VALUES,                                                      \
           "one sample a line, of numbers, categories and dates",                                 \
           {"path", NULL}, {"label_column", NULL}, {"targets", NULL}, {"features", NULL},         \
           {"ignore", NULL}, {"categories", NULL}, {"missing", NULL}, {"missing_values", NULL},   \
           {"decimal", NULL}, {"day_first", NULL}, {"bins", NULL}, {"weight_column", NULL}, {"header", NULL},     \
           {"delimiter", "\"auto\""}, {"comment", "\"\""}, {"normalize", "\"standard\""},          \
           {"label_noise", NULL})                                                                 \
    FORMAT(CSV_SEQUENCES, csv_sequences, DATA_FORMAT_SYMBOLS | DATA_FORMAT_VALUES,                \
           "a sequence of symbols and its label a line",                                          \
           {"path", NULL}, {"tokens", NULL}, {"kmer", NULL}, {"kmer_stride", NULL},               \
           {"length", NULL}, {"sequence_column", NULL}, {"label_column", NULL}, {"header", NULL}, \
           {"delimiter", NULL}, {"comment", NULL}, {"normalize", "\"none\""},                     \
           {"label_noise", NULL}, {"length_buckets", NULL})                                                                 \
    FORMAT(FASTA, fasta, DATA_FORMAT_SYMBOLS | DATA_FORMAT_VALUES, "sequences, also .gz",          \
           {"path", NULL}, {"tokens", NULL}, {"kmer", NULL}, {"kmer_stride", NULL},               \
           {"length", NULL}, {"class_of_file", NULL}, {"label_column", NULL},                     \
           {"delimiter", "\" \""}, {"empty_records", NULL}, {"normalize", "\"none\""},            \
           {"label_noise", NULL}, {"length_buckets", NULL})                                                                 \
    FORMAT(TIME_SERIES, time_series, DATA_FORMAT_VALUES,                                          \
           "a table whose rows are moments, in sliding windows",                                  \
           {"path", NULL}, {"input", NULL}, {"horizon", NULL}, {"stride", NULL},                  \
           {"features", NULL}, {"targets", NULL}, {"rows", NULL}, {"newest_first", NULL},         \
           {"first_label", NULL}, {"season", NULL}, {"header", NULL}, {"delimiter", NULL},        \
           {"comment", NULL}, {"normalize", "\"standard\""})                                      \
    FORMAT(TEXT, text, DATA_FORMAT_TEXT | DATA_FORMAT_SYMBOLS, "UTF-8",                                                 \
           {"path", NULL}, {"normalize", "\"none\""})                                             \
    FORMAT(CIFAR, cifar_binary, 0, "records of label and 3x32x32 bytes",                          \
           {"path", NULL}, {"label_bytes", NULL}, {"normalize", "\"standard\""},                  \
           {"augment", NULL}, {"label_noise", NULL})                                              \
    FORMAT(NPY, npy, DATA_FORMAT_VALUES | DATA_FORMAT_LABEL_FILE, "arrays of NumPy",              \
           {"labels", NULL}, {"path", NULL}, {"lengths", NULL}, {"sample_weights", NULL},         \
           {"shape", NULL}, {"layout", NULL},                                                     \
           {"normalize", "\"standard\""}, {"augment", NULL}, {"label_noise", NULL},               \
           {"length_buckets", NULL})               \
    FORMAT(IMAGE_FOLDER, image_folder, DATA_FORMAT_IMAGES, "images, a subfolder for each class",                 \
           {"path", NULL}, {"color", NULL}, {"resize", NULL}, {"resize_shorter", NULL},             \
           {"center_crop", NULL}, {"normalize", "\"standard\""},                                 \
           {"augment", NULL}, {"label_noise", NULL})                                              \
    FORMAT(IMAGE_CSV, image_csv, DATA_FORMAT_VALUES | DATA_FORMAT_IMAGES,                          \
           "a table of paths of images and their labels",                                         \
           {"path", NULL}, {"images_folder", NULL}, {"image_column", NULL},                       \
           {"label_column", NULL}, {"targets", NULL}, {"header", NULL}, {"delimiter", NULL},      \
           {"comment", NULL}, {"color", NULL}, {"resize", NULL}, {"resize_shorter", NULL},        \
           {"center_crop", NULL}, {"normalize", "\"standard\""}, {"augment", NULL},               \
           {"label_noise", NULL})                                                                 \
    FORMAT(GENERATE, generate, DATA_FORMAT_VALUES | DATA_FORMAT_GENERATED, "written by a command",\
           {"command", NULL}, {"samples", NULL}, {"chunk", NULL}, {"values", NULL},               \
           {"seed", NULL}, {"shape", NULL}, {"normalize", "\"standard\""}, {"augment", NULL},     \
           {"label_noise", NULL})
/* clang-format on */
