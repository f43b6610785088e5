/* weight_layouts.h: weights of a graph in the order and under the names of the file that its model
 * came from (engine/graph/weight_layout.h), and back. A text (JSON) describes it in checkpoints:
 * {PARAMETER: {"shape": […], "pieces": [{"weight", "shape", "offset", "extent", "stride"}, …]}}. */
#pragma once

#include "engine/graph/graph.h"
#include "engine/train/safetensors.h"

/* Describes the graph's parameters that files keep in another form. *text is the caller's to free;
 * NULL: there are none. -ENOMEM with a sentence. */
int weight_layouts_format(const struct graph *graph, char **text, struct error *error);

/* Adds to the file's tensors those parameters that it has only in the other form, as float32.
 * `prefix` stands before all names in the file. What the file lacks, or has in another shape, is
 * left out. -EINVAL with a sentence for a text that is damaged; -ENOMEM. */
int weight_layouts_gather(const char *text, const char *prefix, struct safetensors *file,
                          struct error *error);

/* Replaces parameters among the tensors (float32, with their data) by the weights of the file that
 * all of them together fill. `tensors` is malloc()'s; the caller frees it with
 * weight_layouts_free(). Errors as above. */
int weight_layouts_scatter(const char *text, struct safetensors_tensor **tensors, int *count,
                           struct error *error);
void weight_layouts_free(struct safetensors_tensor *tensors, int count);
