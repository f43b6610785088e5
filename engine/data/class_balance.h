/* class_balance.h: epochs in which all classes occur equally often, whatever their shares of the
 * set: each sample's class is drawn uniformly, then one of its samples (PyTorch's
 * WeightedRandomSampler with weights of 1 / the size of the class). So samples of small classes
 * return within an epoch, and some of large ones do not occur. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"

#include <stddef.h>
#include <stdint.h>

/* The places in a view of the samples of each class. */
struct class_balance {
    int32_t classes;  /* those that have samples */
    int64_t *first;   /* class c has places[first[c] .. first[c + 1]); owned, [classes + 1] */
    uint32_t *places; /* owned, [count of the view] */
};

/* Reads the labels of the view, whose target is a class. Release with class_balance_free().
 * -ENOMEM, or what reading a sample fails with. */
int class_balance_create(const struct dataset_view *view, struct class_balance **balance,
                         struct error *error);
void class_balance_free(struct class_balance *balance); /* NULL is allowed */
size_t class_balance_bytes(const struct class_balance *balance, int64_t count);

/* How many classes have no sample of the set, whose target is a class; `*first` is the lowest of
 * them. 0 also where that is not known. */
int32_t class_balance_unused(const struct dataset *dataset, int32_t *first);

/* Fills order[0..count) with places in the view: a pure function of (seed, epoch), by the stream
 * PHILOX_BALANCE. */
void class_balance_draw(const struct class_balance *balance, uint64_t seed, uint32_t epoch,
                        uint32_t *order, int64_t count);
