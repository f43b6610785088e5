/* pytorch_network_internal.h: the templates of modules (struct model_layer_python), which the
 * description of a network and its writing both read. */
#pragma once

#include "worker/trainee/pytorch_network.h"

enum { PYTORCH_KEY_MAX = 32 };

/* Takes the next part of a module's text (struct model_layer_python). Returns the length up to
 * "{key}" or the end, and the key, which is "" at the end; -1 if nothing is left. */
int pytorch_module_part(const char **module, char key[PYTORCH_KEY_MAX]);

/* Cuts "=usual" off a key and returns the usual value; NULL if there is none. */
const char *pytorch_usual_of(char *key);
