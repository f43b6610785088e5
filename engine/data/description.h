/* description.h: what a training set was, without its samples: how its columns became features, the
 * names of its classes, its vocabulary. A checkpoint keeps it as text, so that other data can be
 * prepared in the same way where the training data are not. */
#pragma once

#include "engine/data/dataset.h"

/* The description as text of lines; the caller frees it. NULL: no memory. */
char *dataset_description_format(const struct dataset *dataset);

/* What value `index` of those to predict is called in the training data; NULL: it has no name. */
const char *dataset_target_name(const struct dataset *dataset, int32_t index);

/* What a class is called: its name in the training data, else its number, or "unnamed class 7"
 * where other classes have names, which may be numbers. `text` is room for what is made. */
enum { DATASET_CLASS_BYTES = 40 };
const char *dataset_class_name(const struct dataset *dataset, int64_t class,
                               char text[DATASET_CLASS_BYTES]);

/* The described set: it has no samples (is_absent, count 0), and is a `reference` for
 * dataset_open(). Release with dataset_close(). -EINVAL names the line that is damaged; -ENOMEM. */
int dataset_description_parse(const char *text, struct dataset **dataset, struct error *error);
