/* choices.h: finds which of several ways to compute something is the fastest on this device. Each
 * way is timed once, captured as in a training step. This process then keeps the choice. If there
 * is a file for it, later processes read it, so that they compute the same bits. The callers say
 * what the ways are, and describe problems and choices as text. They choose among plans of cuDNN
 * (convolution_search.c), and between kernels of our own and cuDNN's (convolution.c) or cuBLASLt's
 * products (linear_search.c). */
#pragma once

#include "engine/backends/choice_table.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { CHOICES_WAYS_MAX = 24 };

struct choices;

/* Writes FOLDER/<kind>-<model>-<driver>-<version>.txt: choices hold for this device, driver and
 * version of the library. False: there is no file, because there is no folder or its name is too
 * long. */
bool choices_name_file(const char *folder, const char *kind, const char *model, size_t version,
                       char path[PATH_MAX]);
/* For `file`, NULL and the other functions see choice_table.h. */
int choices_open(cudaStream_t stream, const char *file, struct choices **choices,
                 struct error *error);
void choices_close(struct choices *choices);
void choices_keep(struct choices *choices, const char *file);
const char *choices_find(const struct choices *choices, const char *key);
const char *choices_add(struct choices *choices, const char *key, const char *text);

/* Launches one run of a way on the stream. */
typedef int choices_launch(void *context, struct error *error);
/* Measures the microseconds of one of `runs` runs, which are captured as one CUDA graph. */
int choices_time(cudaStream_t stream, choices_launch *launch, void *context, int runs,
                 double *microseconds, struct error *error);

/* Memory of the device for measurements, of at least this many bytes. Its numbers are small in
 * every type. `which`, from 0 to CHOICES_PLACES - 1, names a place that keeps its memory until
 * choices_trim(). NULL: there is not enough memory. */
enum { CHOICES_PLACES = 8 };
void *choices_memory(struct choices *choices, int which, size_t bytes);
void choices_trim(struct choices *choices);

/* Finds the fastest of `count` ways (at most CHOICES_WAYS_MAX); `launch` runs the one that
 * contexts[i] describes. A first look leaves out ways that are clearly slow. The others are timed
 * briefly, and the fastest of them again. microseconds[i] receives the times, or INFINITY for a way
 * that failed or was left out. -1: none takes less than `limit` microseconds. */
int choices_fastest(struct choices *choices, choices_launch *launch, void *const *contexts,
                    int count, double limit, double *microseconds);
