/* label_names.h: the labels of a set as words, numbered by their first occurrence while a file is
 * read. In the end they are numbers of classes, or names, which are sorted. Internal to the
 * folder. */
#pragma once

#include "engine/data/dataset.h"

struct label_names {
    struct label_name {
        char *text;       /* owned */
        const char *path; /* of the file where it occurs first */
        int64_t line;
    } * names;
    int32_t count, capacity;
    int32_t *slots; /* open addressing: number of the name, -1: empty; a power of 2 */
    int32_t slot_count;
};

/* The number of the label, which is added if it is new; `path` must live as long as the names.
 * -EINVAL if there are more than a million different ones. */
int label_names_number(struct label_names *names, const char *text, size_t length, const char *path,
                       int64_t line, struct error *error);

/* Whether the labels of the set are names. They are numbers if those of more than half of the
 * samples are: another one among them ("NA") is a mistake, -EINVAL. */
int label_names_find_kind(const struct label_names *names, const struct dataset *dataset,
                          bool *words, struct error *error);
/* "FILE:LINE: the label "…" " and the remedy; returns -EINVAL. */
int label_names_report(const struct label_name *name, const char *remedy, struct error *error);

/* Turns the numbers in dataset->labels (dataset->count of them) into classes: whole numbers from 0
 * if the labels of most samples are numbers, else the places of the sorted names, which the set
 * takes over. With a `reference` they are its classes. -EINVAL names the line of a label that is no
 * class. */
int label_names_resolve(struct label_names *names, const struct dataset_config *config,
                        const struct dataset *reference, struct dataset *dataset,
                        struct error *error);
void label_names_release(struct label_names *names);
