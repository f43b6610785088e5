/* worker_setup.h: opens what every command on a model needs: the specification, its data, the
 * model's configuration for that data, and the device. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/backends/backend.h"
#include "engine/data/dataset.h"
#include "engine/data/loss_weights.h"
#include "engine/train/checkpoint.h"
#include "engine/train/precision.h"
#include "worker/trainee/worker_device.h"
#include "worker/trainee/worker_options.h"
#include "worker/trainee/worker_spec.h"
#include "worker/trainee/worker_startup.h"

/* The stage that failed: `kind` of an error record. */
enum worker_stage {
    WORKER_STAGE_SPECIFICATION,
    WORKER_STAGE_DATA,
    WORKER_STAGE_DEVICE,
    WORKER_STAGE_PLAN,
    WORKER_STAGE_CHECKPOINT,
    WORKER_STAGE_AGREEMENT,
    WORKER_STAGE_TRAINING
};
DECLARE_STRING_TABLE(worker_stage, enum worker_stage);

/* Facts that a person should know although they are no errors. */
enum { WORKER_WARNINGS_MAX = 16, WORKER_WARNING_BYTES = 1024 };

struct worker_warnings {
    char text[WORKER_WARNINGS_MAX][WORKER_WARNING_BYTES];
    int count;
};

struct worker_setup {
    enum worker_stage stage; /* the present one */
    struct worker_startup startup;
    struct worker_device_opening device_opening;
    struct worker_spec spec;
    struct dataset *train, *test; /* test: NULL without one */
    struct dataset_split split;
    struct loss_weights loss_weights;
    struct class_balance *balance; /* of the training part; NULL: none is wanted */
    struct dataset_normalisation normalisation;
    struct dataset_vocabulary vocabulary; /* a checkpoint's, if it was opened with one */
    struct model_data model_data;
    struct worker_simulation simulation; /* of a simulated device */
    const struct backend *backend;
    struct backend_device *device;
    struct backend_device_info device_info;
    struct precision precision;
    bool rounds;                          /* graphs are quantization aware: a training run's */
    bool ran_steps;                       /* to choose the precision, in this process */
    struct worker_warnings data_warnings; /* of opening the data, of measuring the device */
    struct dataset_events data_events;
    size_t data_resident; /* bytes by which opening the data grew the process */
};

/* How to open the data. */
struct worker_opening {
    /* Of a checkpoint: the data are read as its model was trained, with the same constants, symbols
     * and lengths, whatever they have become since. NULL: they tell themselves */
    const struct checkpoint_texts *trained;
    const atomic_int *stop; /* when it is set, opening ends with -EINTR; may be NULL */
    bool evaluates;         /* the checkpoint's precision follows: worker_precision_adopt() */
    bool plans; /* describes generated samples that are not in the cache, and does not make them */
};

/* Loads the specification, opens the data and the device. On failure `setup->stage` says where. The
 * caller releases the setup in both cases with worker_setup_release(). */
int worker_setup_open(const struct worker_options *options, const struct worker_opening *opening,
                      struct worker_setup *setup, struct error *error);
/* The same of a specification as text and without a device, for worker_setup_vary(). */
int worker_setup_open_data(const struct worker_options *options, const char *specification,
                           struct worker_setup *setup, struct error *error);
/* In a child process: takes another specification, as text, over the same data, and opens its
 * device. It may differ in all that does not decide what the samples are. What the setup held of
 * the old one is not freed, as the sets still point to it. */
int worker_setup_vary(const struct worker_options *options, const char *specification,
                      struct worker_setup *setup, struct error *error);
/* The same for a text model without its text: the checkpoint's vocabulary describes the data. */
int worker_setup_open_text(const struct worker_options *options, const char *vocabulary,
                           struct worker_setup *setup, struct error *error);
/* The same for a trained model alone: its checkpoint (or an export), which was read from `path`,
 * describes its job and its training data. Of an early one, which does not, options->specification
 * and the training data do. */
int worker_setup_open_model(const struct worker_options *options,
                            const struct checkpoint *checkpoint, const char *path,
                            struct worker_setup *setup, struct error *error);
/* The same without a device and without generating samples, to describe a trained model. `texts`
 * describes its data: the vocabulary of a text, or the normalisation of other data. */
int worker_setup_describe(const char *path, const struct checkpoint_texts *texts,
                          struct worker_setup *setup, struct error *error);
/* Whether a specification and its training data train: they are opened as far as that tells. Less
 * than 0 with the sentence that a training would end with. */
int worker_setup_try(const char *specification, struct error *error);
void worker_setup_release(struct worker_setup *setup);

/* Opens the device and chooses the precision, for a setup whose data are open and whose device is
 * not. */
int worker_setup_open_device(const struct worker_options *options, struct worker_setup *setup,
                             struct error *error);

/* A session_build_function; `setup` is a worker_setup. */
int worker_setup_build(void *setup, struct graph *graph, struct error *error);

/* The specification's number of loader threads, or the default for batches of `batch` samples. */
int worker_setup_loader_threads(const struct worker_setup *setup, int64_t batch);

/* The samples of the test: data.test, or those that the split's column names; count 0: none. */
struct dataset_view worker_setup_test(const struct worker_setup *setup);

/* The sets of a training run. */
struct training_data worker_setup_data(const struct worker_setup *setup);

/* Bytes of this process that are resident now; 0: not known. */
size_t worker_resident_bytes(void);

/* Bytes of the sets: allocated buffers and mapped files. */
size_t worker_setup_data_bytes(const struct worker_setup *setup);
