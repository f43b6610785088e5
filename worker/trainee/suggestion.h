/* suggestion.h: specifications that would learn from data, of which nobody has said anything. */
#pragma once

#include "engine/data/detection.h"
#include "engine/data/table_inspection.h"
#include "proto/json.h"

/* What there is to choose from, the best default first: {"task", "model", "about",
 * "specification"} each. `table`: of the first file, if the format is a table, which is predicted
 * with the decimal sign of `config`; else NULL. What is assumed is added to the detection's notes.
 * The caller owns the array; it is empty if nothing can be learnt. */
struct json_object *suggestions_new(struct detection *detection,
                                    const struct table_inspection *table,
                                    const struct dataset_config *config);

/* Those of a table (suggestion_table.c). */
void suggestions_add_table(struct json_object *choices, struct detection *detection,
                           const struct table_inspection *table,
                           const struct dataset_config *config);

/* A model and how it is trained, as JSON. */
struct suggestion_recipe {
    const char *about; /* for a person who chooses */
    const char *model, *train;
    /* Epochs are so many that this many samples are trained with, within the two limits; 0: the
     * recipe has steps */
    int64_t samples, least, most;
};
/* Appends a choice; `data` is taken over. `is_of_values`: numbers are predicted. */
void suggestion_add(struct json_object *choices, const char *task,
                    const struct suggestion_recipe *recipe, struct json_object *data,
                    int64_t samples, bool is_of_values);
/* {"train": {"format", "path"}, "test": {"path"}} of a detection. */
struct json_object *suggestion_data_new(const struct detection *detection, const char *format);
/* The recipes for images of the detection's shape. */
void suggestions_add_images(struct json_object *choices, struct detection *detection);
/* Those of a table that names an image in each row and its class (suggestion_images.c); `choices`
 * is empty. */
void suggestions_add_image_table(struct json_object *choices, struct detection *detection,
                                 const struct table_inspection *table);
/* The recipes for sequences of symbols, of `longest` bytes at most (0: not known). */
void suggestions_add_sequences(struct json_object *choices, struct json_object *data, bool is_dna,
                               int64_t samples, int64_t longest);
