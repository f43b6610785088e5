/* sequences.h: collects sequences and their labels into a set, for the readers of files that hold
 * such (csv_sequences.c, fasta.c). Letters come in pieces, so that a sequence may be wrapped over
 * several lines. Internal to the folder. */
#pragma once

#include "engine/data/label_names.h"

/* Where a piece of a sequence stands; line and column (of the character) from 1. */
struct sequence_place {
    const char *path;
    int64_t line, column;
};

struct sequences {
    const struct dataset_config *config;
    const struct dataset *reference;        /* NULL: the training set */
    const struct dataset_vocabulary *known; /* the symbols that may occur; NULL: any */
    struct dataset *dataset;
    struct label_names names;

    int64_t letter_count, letter_capacity; /* in dataset->buffer */
    int64_t capacity;                      /* sequences that the arrays have room for */
    int64_t letter_limit;                  /* of a sequence; the rest is left out; 0: none */
    int64_t open_letters;                  /* of the sequence that is being read, with the rest */
    struct sequence_place open_place;      /* where that one begins */
    int64_t longest, cut;                  /* tokens of the longest one; sequences cut */
    struct sequence_place first_cut;

    /* characters: numbers by code point, -1: not met. In the order of their first occurrence, until
     * sequences_end() sorts them, unless `known` has numbered them. */
    int32_t *numbers; /* owned */
    uint32_t *met;    /* owned */
    int32_t met_count, met_capacity;
};

/* The caller releases with sequences_release(), whether this worked or not. */
int sequences_begin(struct sequences *sequences, const struct dataset_config *config,
                    const struct dataset *reference, struct dataset *dataset, struct error *error);
void sequences_release(struct sequences *sequences);

/* Appends a piece of the present sequence. -EINVAL names the first letter that is none. */
int sequences_add(struct sequences *sequences, const struct sequence_place *place, const char *text,
                  size_t length, struct error *error);
/* Ends the present sequence: `label` is its class or, for values, a number. -EINVAL if it is empty
 * or too short for one token. */
int sequences_close(struct sequences *sequences, const struct sequence_place *place,
                    const char *label, size_t length, struct error *error);

/* Makes the set of what was collected, and tells the user of what was cut. */
int sequences_end(struct sequences *sequences, struct error *error);
