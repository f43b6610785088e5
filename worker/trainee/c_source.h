/* c_source.h: writes the network of a trained model as a C file that needs libm alone. */
#pragma once

#include "worker/trainee/worker_export_graph.h"

#include <stdio.h>

/* -ERROR_UNSUPPORTED with a sentence that names all layers which the file cannot have, or that the
 * model is too large; -EINVAL: a number is not finite. */
int c_source_write(struct export_graph *model, FILE *file, struct error *error);
