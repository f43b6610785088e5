/* test_resume.c: a run is interrupted after any batch, also within an accumulation, and resumed
 * from the checkpoint that it leaves. It must end with the bits of the run that was never
 * interrupted: its last checkpoint file, and its last report. This is checked for each setting that
 * has a state of its own, and for data in the device's memory with several steps in a launch. */
#include "engine/data/split.h"
#include "engine/models/models.h"
#include "engine/train/training.h"
#include "tests/support/data_backend.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONTEXT = 5, LETTERS = 6, LONGEST = 14 };
enum { ROWS = 60, BATCH = 10, ACCUMULATE = 3, EPOCHS = 4, STEPS_MAX = 100, FOLDER_BYTES = 128 };

#define ADAM_SETTINGS .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8

/* One kind of run. */
struct variant {
    const char *name;
    struct optimizer_config optimizer;
    bool muon; /* Muon updates hidden matrices, AdamW the others */
    struct schedule_config schedule;
    int64_t evaluate_every_steps;
    int64_t early_patience; /* 0: no early stopping */
    double average_decay;
    int64_t steps; /* in place of EPOCHS; 0: those */
    bool carried;  /* an LSTM that carries state through streams of a text */
    bool buckets;  /* a GRU over sequences in batches of several lengths */
};

struct fixture {
    char folder[FOLDER_BYTES], rows[FOLDER_BYTES + 16];
    char whole[FOLDER_BYTES + 16], parts[FOLDER_BYTES + 16]; /* of checkpoints */
    char text[FOLDER_BYTES + 16], table[FOLDER_BYTES + 16];
    struct dataset *dataset, *streams, *sequences;
    struct dataset_split split, windows, sequence_split;
    struct dataset_normalisation normalisation;
    struct backend_device *device;
    bool data_on_device; /* for the runs that are interrupted or resumed */
    struct error error;
};

/* ---- stopping after a number of batches ---- */

static struct training_requests requests;
/* how many batches remain until the run is asked to stop; negative: it never is */
static int batches_left;
/* of the latest update */
static float average_share;

static int counting_run(struct backend_program *program, unsigned phases,
                        const struct step_scalars *scalars, struct error *error)
{
    if (phases & PROGRAM_BACKWARD && batches_left > 0 && --batches_left == 0)
        atomic_store(&requests.stop, 1);
    if (phases & PROGRAM_UPDATE)
        average_share = scalars->average_share;
    return backend_cpu()->program_run(program, phases, scalars, error);
}

/* ---- data and model ---- */

static int build(void *context, struct graph *graph, struct error *error)
{
    static const struct model_data data = {
        .type = TENSOR_FLOAT32, .sample_shape = {2}, .rank = 1, .outputs = 2};
    static const int64_t hidden[] = {12};
    static const struct model_config model = {.kind = MODEL_MLP,
                                              .hidden = hidden,
                                              .hidden_count = 1,
                                              .activation = ACTIVATION_SILU,
                                              .batch_norm = true,
                                              .dropout = 0.2f};

    static const struct model_data streams = {.type = TENSOR_INT32,
                                              .sample_shape = {CONTEXT},
                                              .rank = 1,
                                              .vocabulary = LETTERS,
                                              .outputs = LETTERS};
    static const struct model_config recurrent = {.kind = MODEL_LSTM,
                                                  .embedding = 3,
                                                  .hidden_size = 7,
                                                  .num_layers = 2,
                                                  .dropout = 0.2f,
                                                  .carry_state = true};
    static const struct model_data sequences = {.type = TENSOR_INT32,
                                                .sample_shape = {LONGEST},
                                                .rank = 1,
                                                .vocabulary = 6,
                                                .padded = true,
                                                .outputs = 2};
    static const struct model_config gru = {.kind = MODEL_GRU,
                                            .embedding = 3,
                                            .hidden_size = 5,
                                            .num_layers = 1,
                                            .bidirectional = true};
    const struct variant *variant = context;

    if (variant->buckets)
        return model_build(&gru, &sequences, graph, error);
    return variant->carried ? model_build(&recurrent, &streams, graph, error)
                            : model_build(&model, &data, graph, error);
}

/* A text whose training part is cut into 10 streams of 4 or 5 windows. */
static void open_streams(struct fixture *f)
{
    const char *path = f->text;
    struct dataset_config config = {
        .format = DATASET_TEXT,
        .paths = &path,
        .path_count = 1,
        .text = {.context = CONTEXT, .labels_each = true, .streams = true}};
    FILE *file = fopen(f->text, "w");

    assert_non_null(file);
    for (int i = 0; i < ROWS * CONTEXT; i++)
        fputc('a' + (i * i % 11 + i) % LETTERS, file);
    fclose(file);
    assert_int_equal(dataset_open(&config, NULL, &f->streams, &f->error), 0);
    assert_int_equal(dataset_split(f->streams,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 1},
                                   &f->windows, &f->error),
                     0);
    assert_true(f->windows.train.count > 4 * BATCH && f->windows.train.count < 5 * BATCH);
}

/* A third of the sequences has 3 nucleotides, a third 3 to 7, the others up to LONGEST. */
static void open_sequences(struct fixture *f)
{
    const char *path = f->table;
    struct dataset_config config = {
        .format = DATASET_CSV_SEQUENCES,
        .paths = &path,
        .path_count = 1,
        .sequence = {.tokens = DATASET_TOKENS_NUCLEOTIDES, .length = LONGEST}};
    FILE *file = fopen(f->table, "w");

    assert_non_null(file);
    fprintf(file, "sequence,label\n");
    for (int i = 0; i < ROWS; i++) {
        int length = i % 3 == 0 ? 3 : i % 3 == 1 ? 3 + i % 5 : 8 + i % (LONGEST - 7);

        for (int k = 0; k < length; k++)
            fputc("ACGT"[(i * 7 + k * k * 3 + i * k) % 4], file);
        fprintf(file, ",%d\n", (i / 2 + i * i) % 2);
    }
    fclose(file);
    assert_int_equal(dataset_open(&config, NULL, &f->sequences, &f->error), 0);
    assert_int_equal(dataset_split(f->sequences,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 1},
                                   &f->sequence_split, &f->error),
                     0);
}

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    const char *folder = getenv("TMPDIR"), *path = f->rows;
    struct dataset_config config = {.format = DATASET_CSV, .paths = &path, .path_count = 1};
    struct backend_device_config device = {.threads = 1};
    FILE *file;

    *f = (struct fixture){0};
    snprintf(f->folder, sizeof f->folder, "%.100s/resume.XXXXXX", folder ? folder : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->rows, sizeof f->rows, "%.120s/rows.csv", f->folder);
    snprintf(f->whole, sizeof f->whole, "%.120s/whole", f->folder);
    snprintf(f->parts, sizeof f->parts, "%.120s/parts", f->folder);
    assert_int_equal(mkdir(f->whole, 0700) + mkdir(f->parts, 0700), 0);
    file = fopen(f->rows, "w");
    assert_non_null(file);
    for (int i = 0; i < ROWS; i++)
        fprintf(file, "%f,%f,%d\n", sin(i), cos(2 * i), sin(i) * cos(2 * i) > 0.2 * sin(7 * i));
    fclose(file);
    assert_int_equal(dataset_open(&config, NULL, &f->dataset, &f->error), 0);
    assert_int_equal(dataset_split(f->dataset,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 1},
                                   &f->split, &f->error),
                     0);
    assert_int_equal(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &f->split.train,
                                                   &f->normalisation, &f->error),
                     0);
    snprintf(f->text, sizeof f->text, "%.120s/text", f->folder);
    open_streams(f);
    snprintf(f->table, sizeof f->table, "%.120s/table.csv", f->folder);
    open_sequences(f);
    assert_int_equal(backend_cpu()->device_open(&device, &f->device, &f->error), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    backend_cpu()->device_close(f->device);
    dataset_normalisation_release(&f->normalisation);
    dataset_split_release(&f->split);
    dataset_close(f->dataset);
    dataset_split_release(&f->windows);
    dataset_close(f->streams);
    dataset_split_release(&f->sequence_split);
    dataset_close(f->sequences);
    unlink(f->table);
    unlink(f->text);
    unlink(f->rows);
    rmdir(f->whole);
    rmdir(f->parts);
    rmdir(f->folder);
    return 0;
}

/* ---- runs ---- */

/* The result of a run: its last checkpoint, and its last report. */
struct outcome {
    const char *folder;
    char file[FOLDER_BYTES + 64];
    struct training_result result;
};

static int on_checkpoint(void *context, const struct training_checkpoint *checkpoint,
                         struct error *error)
{
    struct outcome *outcome = context;

    (void)error;
    snprintf(outcome->file, sizeof outcome->file, "%.140s/%s", outcome->folder, checkpoint->file);
    return 0;
}

/* Finds the latest file of a step in this folder; with `whole`, among the files between two
 * updates. False: there is none. */
static bool find_file(const char *folder, int64_t step, bool whole, char path[FOLDER_BYTES + 64])
{
    struct checkpoint_entry entry = {.step = step, .number = CHECKPOINT_REMOVED_MAX};
    bool found = false;

    for (; !found && entry.number > 0; entry.number--) {
        char name[CHECKPOINT_PATH_MAX];
        struct checkpoint checkpoint;
        struct error error = {0};

        checkpoint_file_name(&entry, name);
        snprintf(path, FOLDER_BYTES + 64, "%.100s/%s", folder, name);
        if (access(path, F_OK) != 0)
            continue;
        if (checkpoint_open(path, &checkpoint, &error))
            fail_msg("%s", error.text);
        found = !whole || checkpoint.state.micro_step == 0;
        checkpoint_close(&checkpoint);
    }
    return found;
}

/* The best checkpoint so far of the run that left `from`, in the same folder. */
static const char *best_beside(const char *from, char path[FOLDER_BYTES + 64])
{
    char folder[FOLDER_BYTES + 64];
    struct checkpoint checkpoint;
    struct error error = {0};
    int64_t step;

    if (!from)
        return NULL;
    if (checkpoint_open(from, &checkpoint, &error))
        fail_msg("%s", error.text);
    step = checkpoint.state.best.best_step;
    checkpoint_close(&checkpoint);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(from, '/') - from), from);
    return find_file(folder, step, true, path) ? path : NULL;
}

static void clear_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        unlinkat(dirfd(folder), entry->d_name, 0); /* fails for "." and ".." */
    closedir(folder);
}

static struct training *prepare(struct fixture *f, const struct variant *variant,
                                const char *folder, const char *from, const struct backend *backend)
{
    char best[FOLDER_BYTES + 64];
    bool whole = folder == f->whole;
    struct training_config config = {.epochs = variant->steps ? 0 : EPOCHS,
                                     .steps = variant->steps,
                                     .batch = BATCH,
                                     .accumulate = ACCUMULATE,
                                     .evaluation_batch = BATCH,
                                     .shuffle = true,
                                     .seed = 5,
                                     .clip_norm = 1,
                                     .clip_value = 0.2,
                                     .optimizer = variant->optimizer,
                                     .schedule = variant->schedule,
                                     .evaluate_every_steps = variant->evaluate_every_steps,
                                     .best_metric = "validation_accuracy",
                                     .best_checkpoint = best_beside(from, best),
                                     .checkpoint_every_steps = whole,
                                     .checkpoint_keep = whole ? STEPS_MAX : 1,
                                     .checkpoint_directory = folder};
    struct training_data data = {.train = f->split.train,
                                 .validation = f->split.validation,
                                 .test = f->split.validation,
                                 .normalisation = &f->normalisation};
    const struct training_data streams = {.train = f->windows.train,
                                          .validation = f->windows.validation,
                                          .test = f->windows.validation};
    const struct training_data sequences = {.train = f->sequence_split.train,
                                            .validation = f->sequence_split.validation,
                                            .test = f->sequence_split.validation};
    const struct optimizer_group groups[] = {
        {.kinds = PARAMETERS_HIDDEN, .learning_rate_scale = 1, .config = variant->optimizer},
        {.learning_rate_scale = 0.1, .config = {.kind = OPTIMIZER_ADAMW, ADAM_SETTINGS}}};
    struct training *training;

    if (variant->muon) {
        config.groups = groups;
        config.group_count = 2;
    }
    if (variant->carried)
        config.best_metric = "validation_loss";
    config.average_decay = variant->average_decay;
    config.average_warmup = true;
    if (variant->early_patience) {
        config.early_metric = "validation_loss";
        config.early_patience = variant->early_patience;
        config.restore_best = true;
    }
    config.length_buckets = variant->buckets ? 3 : 0;
    if (training_prepare(&config,
                         variant->buckets   ? &sequences
                         : variant->carried ? &streams
                                            : &data,
                         backend, f->device, build, (void *)variant, &training, &f->error) ||
        training_allocate(training, &f->error))
        fail_msg("%s: %s", variant->name, f->error.text);
    if (variant->buckets) {
        double shares[LENGTH_BUCKETS_MAX];

        assert_int_equal(training_lengths(training, shares)->count, 3);
    }
    return training;
}

/* Runs from the checkpoint at `from` (NULL: from the start) until `batches` batches are done (-1:
 * all). */
static struct outcome run(struct fixture *f, const struct variant *variant, const char *folder,
                          const char *from, int batches)
{
    struct outcome outcome = {.folder = folder};
    struct training_events events = {.context = &outcome, .checkpoint = on_checkpoint};
    bool on_device = f->data_on_device && folder == f->parts;
    struct backend backend = on_device ? data_backend(counting_run) : *backend_cpu();
    const struct checkpoint_texts texts = {.specification = variant->name};
    struct training *training = prepare(f, variant, folder, from, &backend);
    struct checkpoint checkpoint;

    backend.program_run = counting_run;
    atomic_store(&requests.stop, 0);
    batches_left = batches;
    if (from) {
        if (checkpoint_open(from, &checkpoint, &f->error) ||
            training_resume(training, &checkpoint, &f->error))
            fail_msg("%s: %s", variant->name, f->error.text);
        checkpoint_close(&checkpoint);
    }
    if (training_run(training, &texts, &events, &requests, &outcome.result, &f->error))
        fail_msg("%s: %s", variant->name, f->error.text);
    training_free(training);
    return outcome;
}

/* ---- comparison ---- */

static void compare_files(const char *what, const char *a, const char *b)
{
    struct safetensors left, right;
    struct error error = {0};

    if (safetensors_open(a, &left, &error) || safetensors_open(b, &right, &error))
        fail_msg("%s: %s", what, error.text);
    assert_int_equal(left.tensor_count, right.tensor_count);
    for (int i = 0; i < left.tensor_count; i++) {
        const struct safetensors_tensor *l = &left.tensors[i], *r = &right.tensors[i];

        assert_string_equal(l->name, r->name);
        if (l->bytes != r->bytes || memcmp(l->data, r->data, l->bytes) != 0)
            fail_msg("%s: %s differs", what, l->name);
    }
    assert_int_equal(left.metadata_count, right.metadata_count);
    for (int i = 0; i < left.metadata_count; i++)
        if (!strstr(left.metadata[i].key, "seconds") &&
            strcmp(left.metadata[i].value, right.metadata[i].value) != 0)
            fail_msg("%s: %s is %s instead of %s", what, left.metadata[i].key,
                     right.metadata[i].value, left.metadata[i].value);
    safetensors_close(&left);
    safetensors_close(&right);
}

static void compare(const char *what, const struct outcome *whole, const struct outcome *resumed)
{
    const struct training_values *left = &whole->result.values, *right = &resumed->result.values;

    compare_files(what, whole->file, resumed->file);
    assert_int_equal(whole->result.stopped_early, resumed->result.stopped_early);
    /* a run that only has its test left to do measures no further epoch */
    for (int i = 0; i < left->count && right->count == left->count; i++) {
        assert_string_equal(left->values[i].name, right->values[i].name);
        if (!strstr(left->values[i].name, "second") &&
            memcmp(&left->values[i].value, &right->values[i].value, sizeof(double)) != 0)
            fail_msg("%s: %s is %.17g instead of %.17g", what, left->values[i].name,
                     right->values[i].value, left->values[i].value);
    }
}

/* Interrupts the run after each of its batches in turn, and each resumed run once more. Returns the
 * number of batches. */
static int check_interruptions(struct fixture *f, const struct variant *variant,
                               const struct outcome *whole)
{
    char what[128];

    for (int batches = 1;; batches++) {
        struct outcome first = run(f, variant, f->parts, NULL, batches), second, resumed;

        if (first.result.outcome == TRAINING_COMPLETED) {
            clear_folder(f->parts);
            return batches;
        }
        second = run(f, variant, f->parts, first.file, 2);
        resumed = second;
        if (second.result.outcome == TRAINING_INTERRUPTED)
            resumed = run(f, variant, f->parts, second.file, -1);
        snprintf(what, sizeof what, "%s, interrupted after %d batches", variant->name, batches);
        compare(what, whole, &resumed);
        clear_folder(f->parts);
    }
}

/* Resumes from each checkpoint of the whole run; some of them were written after a measurement. */
static void check_checkpoints(struct fixture *f, const struct variant *variant,
                              const struct outcome *whole)
{
    char file[sizeof whole->file], what[128];

    for (int64_t step = 1; step <= whole->result.steps; step++) {
        struct outcome resumed;

        assert_true(find_file(f->whole, step, false, file));
        resumed = run(f, variant, f->parts, file, -1);
        snprintf(what, sizeof what, "%s, resumed from step %lld", variant->name, (long long)step);
        compare(what, whole, &resumed);
        clear_folder(f->parts);
    }
}

static void check_variant(struct fixture *f, const struct variant *variant)
{
    struct outcome whole = run(f, variant, f->whole, NULL, -1);

    assert_int_equal(whole.result.stopped_early, strstr(variant->name, "stops early") != NULL);
    assert_true(check_interruptions(f, variant, &whole) > ACCUMULATE);
    check_checkpoints(f, variant, &whole);
    clear_folder(f->whole);
}

/* ---- variants ---- */

#define CONSTANT(rate)                                   \
    {                                                    \
        .kind = SCHEDULE_CONSTANT, .learning_rate = rate \
    }

static const struct variant variants[] = {
    {.name = "sgd, step schedule after a warm-up",
     .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
     .schedule = {.kind = SCHEDULE_STEP,
                  .learning_rate = 0.1,
                  .warmup_steps = 2,
                  .every_steps = 2,
                  .factor = 0.5}},
    {.name = "adam, early stop",
     .optimizer = {.kind = OPTIMIZER_ADAM, ADAM_SETTINGS},
     .schedule = CONSTANT(0.05),
     .early_patience = 100},
    {.name = "rmsprop, stops early",
     .optimizer = {.kind = OPTIMIZER_RMSPROP, .momentum = 0.5, .alpha = 0.9, .epsilon = 1e-4},
     .schedule = CONSTANT(0.3),
     .evaluate_every_steps = 1,
     .early_patience = 2},
    {.name = "adagrad",
     .optimizer = {.kind = OPTIMIZER_ADAGRAD, .epsilon = 1e-10, .learning_rate_decay = 0.1},
     .schedule = CONSTANT(0.1)},
    {.name = "adadelta",
     .optimizer = {.kind = OPTIMIZER_ADADELTA, .alpha = 0.9, .epsilon = 1e-6},
     .schedule = CONSTANT(1)},
    {.name = "lion, evaluated within epochs",
     .optimizer = {.kind = OPTIMIZER_LION, .beta1 = 0.9, .beta2 = 0.99},
     .schedule = CONSTANT(0.01),
     .evaluate_every_steps = 3,
     .early_patience = 100},
    {.name = "adamax",
     .optimizer = {.kind = OPTIMIZER_ADAMAX, ADAM_SETTINGS},
     .schedule = CONSTANT(0.02)},
    {.name = "lamb",
     .optimizer = {.kind = OPTIMIZER_LAMB, ADAM_SETTINGS, .weight_decay = 0.01},
     .schedule = CONSTANT(0.02)},
    {.name = "amsgrad",
     .optimizer = {.kind = OPTIMIZER_AMSGRAD, ADAM_SETTINGS, .weight_decay = 0.01},
     .schedule = CONSTANT(0.02)},
    {.name = "schedule-free, warm-up, early stop",
     .optimizer = {.kind = OPTIMIZER_SCHEDULE_FREE_ADAMW, ADAM_SETTINGS, .weight_decay = 0.01},
     .schedule = {.kind = SCHEDULE_CONSTANT, .learning_rate = 0.05, .warmup_steps = 3},
     .early_patience = 100},
    {.name = "nadam",
     .optimizer = {.kind = OPTIMIZER_NADAM, ADAM_SETTINGS, .momentum_decay = 0.01},
     .schedule = CONSTANT(0.02)},
    {.name = "nadam, one cycle",
     .optimizer = {.kind = OPTIMIZER_NADAM, ADAM_SETTINGS, .momentum_decay = 0.01},
     .schedule = {.kind = SCHEDULE_ONE_CYCLE,
                  .learning_rate = 0.05,
                  .rise = 0.4,
                  .start_divisor = 10,
                  .end_divisor = 100,
                  .cycle_momentum = true,
                  .lowest_momentum = 0.7,
                  .highest_momentum = 0.95}},
    {.name = "muon",
     .optimizer = {.kind = OPTIMIZER_MUON,
                   .momentum = 0.95,
                   .nesterov = true,
                   .weight_decay = 0.1,
                   .epsilon = 1e-7,
                   .iterations = 5},
     .muon = true,
     .schedule = CONSTANT(0.05)},
    {.name = "moving averages, early stop",
     .optimizer = {.kind = OPTIMIZER_ADAMW, ADAM_SETTINGS, .weight_decay = 0.1},
     .schedule = CONSTANT(0.05),
     .early_patience = 100,
     .average_decay = 0.9},
    {.name = "plateau",
     .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
     .schedule = {.kind = SCHEDULE_PLATEAU,
                  .learning_rate = 0.2,
                  .warmup_steps = 1,
                  .plateau = {.metric = "validation_loss",
                              .factor = 0.5,
                              .patience = 0,
                              .threshold = 0.05,
                              .relative = true,
                              .cooldown = 1}},
     .evaluate_every_steps = 1},
    {.name = "carried state, evaluated within epochs",
     .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
     .schedule = CONSTANT(0.5),
     .evaluate_every_steps = 1,
     .carried = true},
    {.name = "batches of several lengths",
     .optimizer = {.kind = OPTIMIZER_ADAM, ADAM_SETTINGS},
     .schedule = CONSTANT(0.02),
     .buckets = true},
};

static void test_resume_after_every_batch(void **state)
{
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        check_variant(*state, &variants[i]);
}

/* Runs that are interrupted and resumed are compared with runs whose batches a loader made. */
static void test_resume_with_data_on_the_device(void **state)
{
    struct fixture *f = *state;

    f->data_on_device = true;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        check_variant(f, &variants[i]);
    assert_int_equal(data_backend_calls.longest, ACCUMULATE); /* an epoch has one complete update */
    assert_true(data_backend_calls.launches < data_backend_calls.steps);
}

/* Of an average of so many steps, the last one's share is still one part, not 0: a decay in float32
 * is 1 from 2^25 steps on. */
static void test_share_after_many_steps(void **state)
{
    static const struct variant variant = {
        .name = "Schedule-Free",
        .optimizer = {.kind = OPTIMIZER_SCHEDULE_FREE_ADAMW, ADAM_SETTINGS},
        .schedule = CONSTANT(0.05),
        .steps = 40000001};
    struct fixture *f = *state;
    struct outcome outcome = run(f, &variant, f->parts, NULL, ACCUMULATE);
    struct training_events events = {.context = &outcome, .checkpoint = on_checkpoint};
    const struct checkpoint_texts texts = {.specification = variant.name};
    struct backend backend = *backend_cpu();
    struct training *training = prepare(f, &variant, f->parts, NULL, &backend);
    struct checkpoint checkpoint;

    backend.program_run = counting_run;
    atomic_store(&requests.stop, 0);
    batches_left = -1;
    if (checkpoint_open(outcome.file, &checkpoint, &f->error))
        fail_msg("%s", f->error.text);
    assert_int_equal(checkpoint.state.step, 1);
    checkpoint.state.step = variant.steps - 1;
    if (training_resume(training, &checkpoint, &f->error) ||
        training_run(training, &texts, &events, &requests, &outcome.result, &f->error))
        fail_msg("%s", f->error.text);
    checkpoint_close(&checkpoint);
    training_free(training);
    clear_folder(f->parts);
    assert_int_equal(outcome.result.steps, variant.steps);
    assert_true(fabs((double)average_share * (double)variant.steps - 1) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resume_with_data_on_the_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume_after_every_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_share_after_many_steps, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
