/* data_formats.h: the formats of data that a specification may name: one list, from which the
 * schema, its help and checks, the documentation and enum dataset_format follow. The readers stand
 * in engine/data/, one file each. */
#pragma once

/* What a format's samples are. */
enum data_format_trait {
    DATA_FORMAT_TEXT = 1,       /* symbols: for a model that begins with an embedding */
    DATA_FORMAT_VALUES = 2,     /* may have values to predict, for mean squared error */
    DATA_FORMAT_LABEL_FILE = 4, /* their labels lie in a file of their own */
    DATA_FORMAT_GENERATED = 8   /* a command makes them */
};

/* enum dataset_format has DATASET_<upper>; a specification and messages say <lower>. Then come the
 * traits, what it is in a few words, and the keys of `data`, data.train and data.test
 * (proto/job_spec_schema_data.c) that it has, each with its default as JSON; NULL: the key's own,
 * or none. A key that no row names belongs to all. */
/* clang-format off */
#define DATA_FORMATS(FORMAT)                                                                      \
    FORMAT(IDX, idx, DATA_FORMAT_LABEL_FILE, "images and labels as MNIST has them, also .gz",     \
           {"images", NULL}, {"labels", NULL}, {"normalize", "\"standard\""}, {"augment", NULL},  \
           {"label_noise", NULL})                                                                 \
    FORMAT(CSV, csv, DATA_FORMAT_VALUES, "one sample a line",                                     \
           {"path", NULL}, {"label_column", NULL}, {"header", NULL}, {"delimiter", NULL},         \
           {"comment", NULL}, {"shape", NULL}, {"divide_by", NULL},                               \
           {"normalize", "\"standard\""}, {"augment", NULL}, {"label_noise", NULL})               \
    FORMAT(TEXT, text, DATA_FORMAT_TEXT, "UTF-8",                                                 \
           {"path", NULL}, {"normalize", "\"none\""})                                             \
    FORMAT(CIFAR, cifar_binary, 0, "records of label and 3x32x32 bytes",                          \
           {"path", NULL}, {"label_bytes", NULL}, {"normalize", "\"standard\""},                  \
           {"augment", NULL}, {"label_noise", NULL})                                              \
    FORMAT(NPY, npy, DATA_FORMAT_VALUES | DATA_FORMAT_LABEL_FILE, "arrays of NumPy",              \
           {"labels", NULL}, {"path", NULL}, {"shape", NULL}, {"layout", NULL},                   \
           {"normalize", "\"standard\""}, {"augment", NULL}, {"label_noise", NULL})               \
    FORMAT(IMAGE_FOLDER, image_folder, 0, "PNG and JPEG files, a subfolder for each class",       \
           {"path", NULL}, {"color", NULL}, {"resize", NULL}, {"normalize", "\"standard\""},      \
           {"augment", NULL}, {"label_noise", NULL})                                              \
    FORMAT(GENERATE, generate, DATA_FORMAT_VALUES | DATA_FORMAT_GENERATED, "what a command makes",\
           {"command", NULL}, {"samples", NULL}, {"chunk", NULL}, {"values", NULL},               \
           {"seed", NULL}, {"shape", NULL}, {"normalize", "\"standard\""}, {"augment", NULL},     \
           {"label_noise", NULL})
/* clang-format on */
