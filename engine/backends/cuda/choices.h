/* choices.h: which of several ways to do a thing is the fastest on this device: each is timed once,
 * captured as in a training step, and the choice is known from then on, in this process and, where
 * there is a file for it, in later ones, so that they calculate the same bits. What the ways are,
 * and what a problem and a choice look like as text, is its users' business: plans of cuDNN
 * (convolution_search.c), our own kernels beside cuDNN's (convolution.c) and beside cuBLASLt's
 * products (linear_search.c). */
#pragma once

#include "engine/backends/choice_table.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { CHOICES_WAYS_MAX = 24 };

struct choices;

/* FOLDER/<kind>-<model>-<driver>-<version>.txt: choices hold for this device, driver and version of
 * the library. False: nowhere, for there is no folder or its name is too long. */
bool choices_name_file(const char *folder, const char *kind, const char *model, size_t version,
                       char path[PATH_MAX]);
/* `file`, NULL and what follows: choice_table.h. */
int choices_open(cudaStream_t stream, const char *file, struct choices **choices,
                 struct error *error);
void choices_close(struct choices *choices);
void choices_keep(struct choices *choices, const char *file);
const char *choices_find(const struct choices *choices, const char *key);
const char *choices_add(struct choices *choices, const char *key, const char *text);

/* Puts one run of a way on the stream. */
typedef int choices_launch(void *context, struct error *error);
/* Microseconds of one run among `runs`, which are captured as one CUDA graph. */
int choices_time(cudaStream_t stream, choices_launch *launch, void *context, int runs,
                 double *microseconds, struct error *error);

/* Memory of the device for what is timed, at least so many bytes, whose numbers are small in every
 * type; place `which` from 0 to CHOICES_PLACES - 1 keeps its memory until choices_trim(). NULL:
 * there is not enough. */
enum { CHOICES_PLACES = 8 };
void *choices_memory(struct choices *choices, int which, size_t bytes);
void choices_trim(struct choices *choices);

/* The fastest of `count` ways (at most CHOICES_WAYS_MAX), of which `launch` runs the one that
 * contexts[i] tells of: those that a first look shows to be slow are left out, the others are timed
 * briefly, and the fastest ones again. microseconds[i] gets the times, INFINITY where a way failed
 * or was left out; -1: none takes less than `limit` microseconds. */
int choices_fastest(struct choices *choices, choices_launch *launch, void *const *contexts,
                    int count, double limit, double *microseconds);
