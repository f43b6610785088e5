/* table_bins.h: columns of numbers as piecewise linear features (Gorishniy, Rubachev and Babenko
 * 2022, "On Embeddings for Numerical Features in Tabular Deep Learning", arXiv:2203.05556, section
 * 3.2). The quantiles of a column divide its numbers into bins. Feature i of a number says how much
 * of bin i lies below the number: 0 to 1. A linear layer over these features can bend at every
 * edge, as a tree can split there. Internal to the folder. */
#pragma once

#include "base/error.h"

#include <stdint.h>

enum { TABLE_BINS_MAX = 64 };

/* Numbers of a column, drawn from its cells, whose quantiles stand for those of all cells. All
 * zero: empty. */
struct table_sample {
    double *values; /* owned */
    int32_t count, capacity;
    int64_t seen; /* numbers so far */
};

/* Counts a number. 0 or -ENOMEM with a sentence. */
int table_sample_add(struct table_sample *sample, double value, struct error *error);
void table_sample_release(struct table_sample *sample);

/* The edges of at most `bins` bins: quantiles, each different from the last. `*count` is one more
 * than there are bins; 0, with NULL, if the numbers have fewer than three different edges, so that
 * bins would say nothing more than the number. The caller frees `*edges`. Sorts the sample. 0 or
 * -ENOMEM with a sentence. */
int table_bins_find(struct table_sample *sample, int bins, double **edges, int32_t *count,
                    struct error *error);

/* Writes the features of a number, of which there are count - 1. The first and the last go on
 * beyond their bins, by at most three times the bin's width. */
void table_bins_encode(const double *edges, int32_t count, double value, float *features);
