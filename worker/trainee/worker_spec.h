/* worker_spec.h: reads a job specification (JSON) into the engine's configurations. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"
#include "engine/data/split.h"
#include "engine/models/models.h"
#include "engine/train/choice.h"
#include "engine/train/training.h"
#include "proto/json.h"

enum { WORKER_WIDTHS_MAX = 64, WORKER_DIGEST_SIZE = 65 };

/* One set of samples; its strings point into the specification. */
struct worker_source {
    struct dataset_config config;
    const char **paths;                            /* owned */
    const char **classes;                          /* owned: of FASTA files; NULL: not given */
    const char **features, **targets;              /* owned: columns; NULL: not given */
    const char **ignored, **categories, **missing; /* owned: of a table; NULL: not given */
};

struct worker_spec {
    struct json_object *normalised; /* owned */
    char digest[WORKER_DIGEST_SIZE];
    const char *name;

    struct model_config model;
    int64_t hidden[WORKER_WIDTHS_MAX], channels[WORKER_WIDTHS_MAX], kernels[WORKER_WIDTHS_MAX];
    enum model_loss loss;
    float loss_parameter; /* struct model_data, and the next two */
    float loss_numbers[LOSS_NUMBERS_MAX];
    int loss_number_count;
    struct triplet_loss_config triplet; /* LOSS_TRIPLET, and the numbers of an embedding */
    int64_t embedding_size;
    struct loss_head heads[GRAPH_HEADS_MAX]; /* LOSS_HEADS */
    const char *head_names[GRAPH_HEADS_MAX];
    int head_count;
    int64_t classes; /* 0: the number in the data */

    /* Weights to begin with: the path from the specification's directory, NULL: none, or the job
     * whose they are, 0: none, and whether its run goes on; what stands before the names in the
     * file, and patterns of parameters that are drawn (owned). */
    const char *weights_file, *weights_prefix;
    int64_t weights_job;
    bool continues;
    const char **new_weights;
    int new_weight_count;

    struct worker_source train, test;
    bool has_test;
    struct dataset_split_config split;
    const char **validation_values, **test_values; /* owned: texts of its column; NULL: none */
    bool is_balanced;                              /* epochs have equal shares of the classes */
    enum dataset_normalisation_kind normalisation;
    struct augmentation augmentation;

    struct training_config training; /* `batch` 0: auto, and not chosen yet */
    bool batch_is_auto;
    int64_t effective_batch; /* 0: not given */
    enum recompute_wish recompute;
    uint64_t memory_limit;          /* 0: not given */
    const char *precision;          /* "auto" or a type's name */
    bool quantization_aware;        /* training rounds as quantize will */
    struct optimizer_group *groups; /* owned, like `patterns` */
    const char **patterns;
    const char **frozen; /* owned: patterns of parameters that are not trained; NULL: none */
    int frozen_count;
    bool best_is_default; /* checkpoint.best was not chosen: train_loss without validation */
    const char *device;   /* "auto" or a backend's name */
    int threads;          /* 0: all usable cores */
};

/* Reads and checks a specification, raw or normalised. -EINVAL with a sentence that names the key;
 * other errno: the file cannot be opened. Release with worker_spec_release(). */
int worker_spec_load(const char *path, struct worker_spec *spec, struct error *error);
/* The same of a specification in memory, which the checkpoint at `path` has kept. */
int worker_spec_parse(const char *text, const char *path, struct worker_spec *spec,
                      struct error *error);
/* What a checkpoint keeps of the specification: model, data and training, without the paths of this
 * machine. The caller frees the text. NULL: no memory. */
char *worker_spec_keep(const struct worker_spec *spec);
void worker_spec_release(struct worker_spec *spec);
/* The texts of an array, which stay the array's; the caller frees the list. NULL: no array, or no
 * memory. */
const char **worker_spec_texts(struct json_object *array, int *count);

/* Reads "none", "selective", "full", "auto" or a number of segments. */
void worker_spec_read_recompute(struct json_object *recompute, struct worker_spec *spec);
