/* pytorch_module.h: writes an exported model as a Python file beside its weights: the network as a
 * PyTorch module, the preprocessing of its training data, and the names of its classes. The file
 * needs only torch (torchvision for torchvision's networks). */
#pragma once

#include "base/error.h"
#include "engine/train/checkpoint.h"
#include "worker/trainee/worker_setup.h"

/* Describes what the file needs besides the weights, as JSON for a checkpoint's metadata. The
 * caller frees it. NULL with a sentence. */
char *pytorch_module_describe(const struct worker_setup *setup, struct error *error);

/* The names of the classes as an array of JSON; NULL: they have none. */
struct json_object *pytorch_module_classes(const struct dataset *train);
/* Those of the features of a table; NULL for other data. */
struct json_object *pytorch_module_features(const struct dataset *train);
/* Those of the values to predict; NULL: they have none. */
struct json_object *pytorch_module_targets(const struct dataset *train);
/* The number of tokens of a sample, if `description` is of a model of sequences; else 0. */
int64_t pytorch_module_sequence_length(const char *description);

/* The path of the module: beside the weights at `weights`, with a name that Python can import. The
 * caller frees it. NULL with a sentence if a file is there that no export wrote. */
char *pytorch_module_path(const char *weights, struct error *error);

/* Writes the module for the checkpoint's weights at `weights`. -ERROR_UNSUPPORTED with a sentence
 * if the checkpoint does not describe its model because an earlier version wrote it. */
int pytorch_module_write(const struct checkpoint *checkpoint, const char *weights, const char *path,
                         struct error *error);
