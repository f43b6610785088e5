/* worker_spec_model.h: reads the specification's `model` into the engine's model configuration. */
#pragma once

#include "worker/trainee/worker_spec.h"

/* Fills model, hidden, channels, layers, loss and classes. 0 or -ENOMEM. */
int worker_spec_read_model(struct worker_spec *spec, struct error *error);
/* Frees what it has read into model.layers. */
void worker_spec_release_layers(struct model_layer_list *list);
