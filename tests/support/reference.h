/* reference.h: the graphs that the reference dumps belong to (tests/reference/README.md), and the
 * comparison with them. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"
#include "engine/models/models.h"
#include "tests/support/dump.h"

/* Builds the graph of dumps/operators/<name>.dump, where `name` is "conv2d-stride" or the file's
 * name: samples -> operator (layer "0") -> flatten -> loss. If the case is for training, it is
 * differentiated, with the samples' gradient. The caller releases the graph, also after an
 * error. */
int reference_build_operator(const struct dump *dump, const char *name, struct graph *graph,
                             struct error *error);

/* The number "attribute/<name>"; 0: the dump has none. */
double reference_setting(const struct dump *dump, const char *name);

/* The optimizer that the dump's attributes describe. */
struct optimizer_config reference_optimizer(const struct dump *dump);

/* The graph of an optimizer dump: Linear(13, 7) on one sample with MSE, gradients that accumulate
 * (so that the test may write them) and updates. The caller releases the graph. */
int reference_build_optimizer(const struct dump *dump, struct graph *graph, struct error *error);

/* The model of dumps/trajectories/<name>.dump and its data; NULL behind the last one. The layers
 * and counts that the configuration points to are static. */
struct reference_model {
    const char *name;
    struct model_config config;
    struct model_data data;
};
const struct reference_model *reference_models(void);

/* The largest |values - expected|, divided by the largest |expected| (by 1 if all expectations are
 * 0). Infinity: a value is NaN. */
double reference_error(const struct dump_tensor *expected, const float *values);
/* The same, divided by at least `scale`, for expectations that are 0 apart from rounding. */
double reference_error_at_scale(const struct dump_tensor *expected, const float *values,
                                double scale);
