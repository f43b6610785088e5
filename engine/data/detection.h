/* detection.h: what lies at a path, before anybody has said it: the format, and which files belong
 * together as samples, labels and test set. Names and the first bytes tell; only the reader of the
 * format checks the rest. */
#pragma once

#include "engine/data/dataset.h"

enum { DETECTION_FILES_MAX = 4096, DETECTION_NOTES_MAX = 8 };

/* The files of a set. */
struct detection_set {
    char *paths[DETECTION_FILES_MAX]; /* owned; as a specification has them */
    int path_count;                   /* 0: there is no such set */
    char *labels;                     /* owned; idx, npy */
};

struct detection {
    enum dataset_format format;
    struct detection_set train, test;
    char *classes[DETECTION_FILES_MAX]; /* owned; FASTA with a file for each class */
    int64_t samples;                    /* of the training set; 0: not known */
    int64_t shape[DATASET_RANK_MAX];    /* of one sample */
    int rank;                           /* 0: not known */
    int32_t class_count;                /* 0: not known, or numbers are to be predicted */
    bool has_values;                    /* npy: the labels are numbers to predict */
    bool sizes_differ;                  /* images; the shape is that of the first */
    bool is_dna;                        /* FASTA: no other letters than those of nucleotides */
    int label_bytes;                    /* cifar_binary */
    char *notes[DETECTION_NOTES_MAX];   /* owned; what was assumed, a sentence each */
    int note_count;
};

/* Looks at a file or a folder. Release with detection_release(), whether this worked or not.
 * -EINVAL with a sentence: nothing that is known, or several things; -ENOENT and the like. */
int detection_open(const char *path, struct detection *detection, struct error *error);
void detection_release(struct detection *detection);
void detection_note(struct detection *detection, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
