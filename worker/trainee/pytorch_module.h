/* pytorch_module.h: an exported model as a Python file beside its weights: the network as a PyTorch
 * module, the preprocessing of its training data, the names of its classes. It needs torch alone
 * (torchvision for its networks). */
#pragma once

#include "base/error.h"
#include "engine/train/checkpoint.h"
#include "worker/trainee/worker_setup.h"

/* What the file needs to know of a model beside its weights, as JSON for a checkpoint's metadata;
 * malloc'd. NULL with a sentence. */
char *pytorch_module_describe(const struct worker_setup *setup, struct error *error);

/* The path of the module for the weights at `weights`: beside them, a name that Python can import.
 * The caller frees. NULL with a sentence where a file is there that no export has written. */
char *pytorch_module_path(const char *weights, struct error *error);

/* Writes the module for the weights at `weights`, which are the checkpoint's. -ERROR_UNSUPPORTED
 * with a sentence where the checkpoint does not describe its model: an earlier program wrote it. */
int pytorch_module_write(const struct checkpoint *checkpoint, const char *weights, const char *path,
                         struct error *error);
