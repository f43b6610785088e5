/* worker_export_c.h: `traind-worker export --c`. */
#pragma once

#include "worker/trainee/worker_options.h"

/* Writes the model of options->input as one C file, options->c_file. -ERROR_UNSUPPORTED with a
 * sentence that names all layers which such a file cannot have. */
int worker_export_c(const struct worker_options *options, uint64_t *bytes, struct error *error);
