/* finite_differences.h: the gradients that the CPU backend calculates against finite differences of
 * the loss, independent of PyTorch. Every failure ends the test with its sentence. */
#pragma once

#include "tests/support/dump.h"
#include "tests/support/session.h"

/* By how far values are moved to see how the loss changes. */
extern const float gradients_step_width;
/* Of every run. */
extern const struct step_scalars gradients_scalars;

/* So many floats, aligned for the backend; the caller frees them. */
float *gradients_allocate(int64_t elements);
/* Runs the differentiated graph once for its gradients, by the parameters and, where it has one, by
 * the samples, and checks each. `dump` (may be NULL) has the parameters' values. */
void gradients_check(const char *name, const struct graph *graph, const struct dump *dump,
                     float *samples, const void *target);
/* The same with lengths of the sequences (NULL: the graph has none) and another step width. */
void gradients_check_lengths(const char *name, const struct graph *graph, const struct dump *dump,
                             float *samples, const int32_t *lengths, const void *target,
                             float step);
