/* job_spec_rules.c: checks rules between keys of a job specification; see job_spec_value.h. */
#include "proto/data_formats.h"
#include "proto/job_spec_schema_table.h"
#include "proto/job_spec_value.h"
#include "proto/model_kinds.h"

#include <stdio.h>
#include <string.h>

static int check_optimizer(struct job_spec_check *check, struct json_object *train)
{
    struct json_object *optimizer = json_get(train, "optimizer");
    struct json_object *schedule = json_get(train, "schedule");

    if (json_get_bool(optimizer, "nesterov", false) &&
        (json_get_double(optimizer, "momentum", 0) <= 0 ||
         json_get_double(optimizer, "dampening", 0) != 0))
        return job_spec_fail_at(
            check, "train.optimizer.nesterov",
            "train.optimizer.nesterov needs a momentum above 0 and no dampening");
    if (json_get_double(schedule, "min_lr", 0) > json_get_double(optimizer, "lr", 0))
        return job_spec_fail_at(check, "train.schedule.min_lr",
                                "train.schedule.min_lr is larger than train.optimizer.lr");
    if (strcmp(json_get_string(optimizer, "name", ""), "schedule_free_adamw") != 0)
        return 0;
    if (strcmp(json_get_string(schedule, "name", ""), "constant") != 0)
        return job_spec_fail_at(check, "train.schedule.name",
                                "schedule_free_adamw needs no schedule but a warm-up; leave "
                                "train.schedule.name at constant");
    if (json_get(train, "ema"))
        return job_spec_fail_at(check, "train.ema",
                                "schedule_free_adamw averages the weights itself; leave out "
                                "train.ema");
    if (strncmp(json_get_string(train, "precision", ""), "pure_", 5) == 0)
        return job_spec_fail_at(check, "train.precision",
                                "schedule_free_adamw averages weights in float32, which a pure "
                                "precision has not; take another optimizer or precision");
    return 0;
}

static bool optimizer_has_momentum(struct json_object *optimizer)
{
    return json_get(optimizer, "betas") || json_get_double(optimizer, "momentum", 0) > 0;
}

static int check_schedule(struct job_spec_check *check, struct json_object *train)
{
    struct json_object *schedule = json_get(train, "schedule");
    struct json_object *milestones = json_get(schedule, "milestones");
    int64_t before = 0;

    if (json_get_int(schedule, "warmup_steps", 0) > 0 &&
        json_get_int(schedule, "warmup_epochs", 0) > 0)
        return job_spec_fail_at(
            check, "train.schedule.warmup_epochs",
            "train.schedule has both warmup_steps and warmup_epochs; leave one out");
    for (size_t i = 0; milestones && i < json_object_array_length(milestones); i++) {
        int64_t milestone = json_object_get_int64(json_object_array_get_idx(milestones, i));

        if (milestone <= before)
            return job_spec_fail_at(check, "train.schedule.milestones",
                                    "train.schedule.milestones must ascend");
        before = milestone;
    }
    if (json_get_bool(schedule, "cycle_momentum", false) &&
        !optimizer_has_momentum(json_get(train, "optimizer")))
        return job_spec_fail_at(
            check, "train.schedule.cycle_momentum",
            "train.schedule.cycle_momentum needs an optimizer with momentum above 0 or "
            "betas");
    return 0;
}

/* Checks that effective_batch_size is a multiple of batch_size, and sets accumulate to the
 * quotient. If batch_size is not `given`, it becomes auto. */
static int check_batch(struct job_spec_check *check, struct json_object *given,
                       struct json_object *train)
{
    int64_t effective = json_get_int(train, "effective_batch_size", 0);
    int64_t accumulate = json_get_int(train, "accumulate", 1), batch, divisor;

    if (!effective)
        return 0;
    if (!json_get(given, "batch_size"))
        json_set_string(train, "batch_size", "auto");
    divisor = batch = json_get_int(train, "batch_size", 0); /* 0: auto */
    if (batch && effective % batch) {
        while (effective % divisor)
            divisor--;
        check->path[0] = '\0';
        job_spec_path_push(check, "", "train.effective_batch_size");
        return job_spec_fail(check, NULL,
                             "train.effective_batch_size is %lld, which batches of %lld do not "
                             "divide; batch_size %lld does, and \"auto\" finds one",
                             (long long)effective, (long long)batch, (long long)divisor);
    }
    if (accumulate != 1 && accumulate != (batch ? effective / batch : 1))
        return job_spec_fail_at(
            check, "train.accumulate",
            "train.accumulate follows from effective_batch_size and batch_size; leave it "
            "out");
    if (batch)
        json_set_int(train, "accumulate", effective / batch);
    return 0;
}

/* Each row of a batch is a stream of text of its own: batches of fewer rows are other batches. */
static int check_streams(struct job_spec_check *check, struct json_object *model,
                         struct json_object *train)
{
    if (!json_get_bool(model, "carry_state", false) || !json_get(train, "effective_batch_size"))
        return 0;
    return job_spec_fail_at(
        check, "train.effective_batch_size",
        "train.effective_batch_size divides a batch into smaller ones, but with "
        "model.carry_state each row of a batch is a stream of text of its own; set "
        "batch_size, and accumulate for an update after several windows");
}

unsigned job_spec_format_traits(const char *name)
{
    const struct job_spec_variant *format = job_spec_variant_find(&job_spec_data_section, name);

    return format ? format->traits : 0;
}

/* Writes the section's variants that have one of the traits, such as "csv, npy and generate". */
static char *list_variants(const struct job_spec_section *section, unsigned traits, char *output,
                           size_t size)
{
    const struct job_spec_variant *last = NULL;
    size_t used = 0;

    for (const struct job_spec_variant *v = section->variants; v->name; v++)
        last = v->traits & traits ? v : last;
    for (const struct job_spec_variant *v = section->variants; v->name && used < size; v++)
        if (v->traits & traits)
            used += (size_t)snprintf(output + used, size - used, "%s%s",
                                     !used       ? ""
                                     : v == last ? " and "
                                                 : ", ",
                                     v->name);
    return output;
}

/* The first model that reads only text. */
static const char *find_text_model(void)
{
    for (const struct job_spec_variant *v = job_spec_model_section.variants; v->name; v++)
        if (v->traits == MODEL_READS_TEXT)
            return v->name;
    return "";
}

/* Checks that the model reads what the format has. */
static int check_samples(struct job_spec_check *check, const struct job_spec_variant *model,
                         const char *format)
{
    unsigned traits = job_spec_format_traits(format);
    unsigned wanted = traits & DATA_FORMAT_TEXT      ? MODEL_READS_TEXT
                      : traits & DATA_FORMAT_SYMBOLS ? MODEL_READS_SEQUENCES
                                                     : MODEL_READS_NUMBERS;
    char models[JOB_SPEC_VARIANTS_MAX];

    check->path[0] = '\0';
    if (!model || model->traits & wanted)
        return 0;
    if (!(model->traits & MODEL_READS_NUMBERS) && wanted != MODEL_READS_TEXT) {
        bool text = model->traits & MODEL_READS_TEXT;

        job_spec_path_push(check, "", "data.train.format");
        return job_spec_fail(check, text ? "text" : NULL,
                             "data.train.format is %s; the model %s needs %s", format, model->name,
                             text ? "text" : "sequences of symbols");
    }
    job_spec_path_push(check, "", "model.name");
    if (wanted == MODEL_READS_TEXT)
        return job_spec_fail(
            check, find_text_model(),
            "model.name is %s, which cannot read text; these can: %s (layers "
            "begin with an embedding)",
            model->name,
            list_variants(&job_spec_model_section, MODEL_READS_TEXT, models, sizeof models));
    return job_spec_fail(
        check, NULL, "model.name is %s, which cannot read sequences of symbols; these can: %s",
        model->name,
        list_variants(&job_spec_model_section, MODEL_READS_SEQUENCES, models, sizeof models));
}

static int check_symbols(struct job_spec_check *check, struct json_object *model,
                         struct json_object *data)
{
    const char *name = json_get_string(model, "name", "");
    const char *format = json_get_string(json_get(data, "train"), "format", "");
    const struct job_spec_variant *kind = job_spec_variant_find(&job_spec_model_section, name);
    bool text = job_spec_format_traits(format) & DATA_FORMAT_TEXT;
    bool reads_both = kind && kind->traits & MODEL_READS_TEXT && kind->traits & MODEL_READS_NUMBERS;
    int r = check_samples(check, kind, format);

    if (r < 0)
        return r;
    if (reads_both && text && !json_get(model, "context"))
        return job_spec_fail_at(
            check, "model.context",
            "model.context is missing; lstm, gru and layers that read text need the "
            "number of symbols before the one that is predicted, such as 64");
    if (reads_both && !text && json_get(model, "context"))
        return job_spec_fail_at(check, "model.context", "model.context applies to text only");
    if (!text && json_get_bool(model, "carry_state", false))
        return job_spec_fail_at(
            check, "model.carry_state",
            "model.carry_state applies to text only, whose windows follow each other");
    if (job_spec_format_traits(format) & DATA_FORMAT_SYMBOLS &&
        strcmp(json_get_string(data, "normalize", ""), "none") != 0)
        return job_spec_fail_at(check, "data.normalize",
                                "data.normalize must be none for text and sequences of symbols");
    return 0;
}

static int check_model_and_data(struct job_spec_check *check, struct json_object *model,
                                struct json_object *data)
{
    const char *format = json_get_string(json_get(data, "train"), "format", "");
    int r = check_symbols(check, model, data);
    char formats[JOB_SPEC_VARIANTS_MAX];

    if (r == 0)
        r = job_spec_loss_check_keys(check, model);
    if (r == 0 && json_get(model, "output_heads") &&
        job_spec_format_traits(format) & DATA_FORMAT_TEXT)
        return job_spec_fail_at(
            check, "model.output_heads",
            "model.output_heads share the labels of a sample, but a text has one symbol "
            "to predict at each place: leave them out, or take time_series or npy");
    if (r == 0 && strcmp(json_get_string(model, "loss", ""), "triplet") == 0 &&
        job_spec_format_traits(format) & DATA_FORMAT_TEXT)
        return job_spec_fail_at(check, "model.loss",
                                "model.loss is triplet, which needs a class for each sample, but a "
                                "text has symbols to predict: take cross_entropy");
    if (r < 0 || !job_spec_loss_is_of_values(model) ||
        job_spec_format_traits(format) & DATA_FORMAT_VALUES)
        return r;
    job_spec_path_push(check, "", "model.loss");
    return job_spec_fail(
        check, "cross_entropy",
        "model.loss is %s, which needs values to predict: only %s have them, and "
        "data.train.format is %s",
        json_get_string(model, "loss", ""),
        list_variants(&job_spec_data_section, DATA_FORMAT_VALUES, formats, sizeof formats), format);
}

/* dna_cnn: no more kernels than convolutions. Default ones beyond them are left out, so that what
 * is kept with a job can be read again. */
static int check_kernels(struct job_spec_check *check, struct json_object *given,
                         struct json_object *model)
{
    struct json_object *kernels = json_get(model, "kernels");
    struct json_object *channels = json_get(model, "channels");
    size_t kernel_count = kernels ? json_object_array_length(kernels) : 0;
    size_t channel_count = channels ? json_object_array_length(channels) : 0;

    if (!channels || kernel_count <= channel_count)
        return 0;
    if (!json_get(given, "kernels")) {
        json_object_array_del_idx(kernels, channel_count, kernel_count - channel_count);
        return 0;
    }
    check->path[0] = '\0';
    job_spec_path_push(check, "", "model.kernels");
    return job_spec_fail(check, NULL,
                         "model.kernels has %zu widths, but model.channels %zu convolutions: leave "
                         "out those beyond, or add channels",
                         kernel_count, channel_count);
}

static bool is_generated(struct json_object *source)
{
    return job_spec_format_traits(json_get_string(source, "format", "")) & DATA_FORMAT_GENERATED;
}

static bool command_has(struct json_object *source, const char *word)
{
    struct json_object *command = json_get(source, "command");

    for (size_t i = 0; i < json_object_array_length(command); i++)
        if (strstr(json_object_get_string(json_object_array_get_idx(command, i)), word))
            return true;
    return false;
}

static int check_generator(struct job_spec_check *check, struct json_object *source,
                           const char *path)
{
    static const char *const words[] = {"{output}", "{first}", "{count}"};

    check->path[0] = '\0';
    job_spec_path_push(check, "", path);
    if (!is_generated(source))
        return 0;
    if (!json_get(source, "shape")) {
        job_spec_path_push(check, ".", "shape");
        return job_spec_fail(check, NULL, "%s is missing; generate needs the shape of one sample",
                             check->path);
    }
    job_spec_path_push(check, ".", "command");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!command_has(source, words[i]))
            return job_spec_fail(check, NULL,
                                 "%s has no %s: each run of the command has to know its samples "
                                 "and where to write them",
                                 check->path, words[i]);
    return 0;
}

/* Checks that commands get what they need, that generated test samples differ from the training
 * samples, and that the number of classes is given. */
static int check_generators(struct job_spec_check *check, struct json_object *model,
                            struct json_object *data)
{
    struct json_object *train = json_get(data, "train"), *test = json_get(data, "test");
    int r = check_generator(check, train, "data.train");

    if (r == 0 && test)
        r = check_generator(check, test, "data.test");
    if (r < 0 || !is_generated(train))
        return r;
    if (!job_spec_loss_is_of_values(model) && !json_get(model, "output_heads") &&
        !json_get(model, "classes"))
        return job_spec_fail_at(
            check, "model.classes",
            "model.classes is missing; the labels of generated samples are not known "
            "before they are made");
    if (!test || !is_generated(test) ||
        !json_object_equal(json_get(train, "command"), json_get(test, "command")))
        return 0;
    if (!command_has(test, "{seed}"))
        return job_spec_fail_at(
            check, "data.test.command",
            "data.test.command is that of data.train and has no {seed}: it would make "
            "the same samples");
    if (json_get_int(train, "seed", 0) == json_get_int(test, "seed", 0))
        return job_spec_fail_at(
            check, "data.test.seed",
            "data.test.seed is that of data.train: the command would make the same "
            "samples");
    return 0;
}

/* Refuses label noise, label smoothing and mixup unless each sample has one class to predict. */
static int check_targets(struct job_spec_check *check, struct json_object *normalised)
{
    struct json_object *data = json_get(normalised, "data"), *augment = json_get(data, "augment");
    const char *loss = json_get_string(json_get(normalised, "model"), "loss", ""), *key = NULL;
    size_t count = augment ? json_object_array_length(augment) : 0;
    bool of_classes =
        strcmp(loss, "focal") == 0 || strcmp(loss, "ordinal") == 0 || strcmp(loss, "triplet") == 0;
    char path[32];

    if (strcmp(loss, "cross_entropy") == 0)
        return 0;
    if (json_get_double(data, "label_noise", 0) > 0 && !of_classes)
        key = "data.label_noise";
    else if (json_get_double(json_get(normalised, "train"), "label_smoothing", 0) > 0)
        key = "train.label_smoothing";
    for (size_t i = 0; i < count && !key; i++)
        if (strncmp(json_object_get_string(json_object_array_get_idx(augment, i)), "mixup:", 6) ==
            0)
            key = "data.augment: mixup";
    if (!key)
        return 0;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(key, ": "), key);
    check->path[0] = '\0';
    job_spec_path_push(check, "", path);
    return job_spec_fail(check, NULL, "%s needs %s to predict, but model.loss is %s", key,
                         strcmp(loss, "output_heads") == 0 ? "one class for each sample"
                         : of_classes ? "cross_entropy, which has probabilities"
                                      : "classes",
                         loss);
}

/* A moving average keeps float32 weights, which a pure precision has not. */
static int check_pure(struct job_spec_check *check, struct json_object *train)
{
    const char *precision = json_get_string(train, "precision", "");

    if (strncmp(precision, "pure_", 5) != 0 || !json_get(train, "ema"))
        return 0;
    return job_spec_fail_at(
        check, "train.ema",
        "train.ema averages weights in float32, which a pure precision has not; leave "
        "one out");
}

/* What is rounded to 8 bits is float32 otherwise. */
static int check_quantization_aware(struct job_spec_check *check, struct json_object *train)
{
    const char *precision = json_get_string(train, "precision", "auto");

    if (!json_get_bool(train, "quantization_aware", false) || strcmp(precision, "auto") == 0 ||
        strcmp(precision, "float32") == 0)
        return 0;
    return job_spec_fail_at(check, "train.precision",
                            "train.quantization_aware rounds float32 numbers; leave "
                            "train.precision out, or set it to float32");
}

static int check_weights(struct job_spec_check *check, struct json_object *weights)
{
    bool file = json_get(weights, "file") != NULL, job = json_get(weights, "job") != NULL;
    bool continues = json_get_bool(weights, "continue", false);

    if (!weights)
        return 0;
    if (file == job)
        return job_spec_fail_at(check, "weights",
                                "weights says where the weights are: give either weights.file or "
                                "weights.job");
    if (file && json_get(weights, "step"))
        return job_spec_fail_at(
            check, "weights.step",
            "weights.step is that of a checkpoint of weights.job; leave it out");
    if (file && continues)
        return job_spec_fail_at(check, "weights.continue",
                                "weights.continue goes on with a job: give weights.job");
    if (continues &&
        (json_get(weights, "new") || json_get(weights, "prefix") || json_get(weights, "step")))
        return job_spec_fail_at(
            check, "weights.continue",
            "weights.continue takes all of the job's last checkpoint; leave out "
            "new, prefix and step");
    return 0;
}

int job_spec_rules_check(struct job_spec_check *check, struct json_object *spec,
                         struct json_object *normalised)
{
    struct json_object *train = json_get(normalised, "train");
    struct json_object *data = json_get(normalised, "data");
    const char *words;
    bool has_classes = job_spec_task_find(normalised, &words);
    int r =
        job_spec_loss_check_heads(check, json_get(spec, "model"), json_get(normalised, "model"));

    r = r == 0 ? check_kernels(check, json_get(spec, "model"), json_get(normalised, "model")) : r;

    if (r == 0)
        r = check_model_and_data(check, json_get(normalised, "model"), data);

    if (r == 0)
        r = check_streams(check, json_get(normalised, "model"), train);
    if (r == 0)
        r = check_batch(check, json_get(spec, "train"), train);
    if (r == 0)
        r = check_generators(check, json_get(normalised, "model"), data);
    if (r == 0)
        r = check_targets(check, normalised);
    if (r == 0)
        r = job_spec_samples_check(check, normalised, has_classes, words);
    if (r == 0)
        r = job_spec_metrics_check_list(check, normalised);
    if (r == 0)
        r = check_weights(check, json_get(normalised, "weights"));
    if (r == 0)
        r = check_pure(check, train);
    if (r == 0)
        r = check_quantization_aware(check, train);
    if (r == 0)
        r = check_optimizer(check, train);
    if (r == 0)
        r = check_schedule(check, train);
    job_spec_metrics_default_best(spec, normalised);
    return r == 0 ? job_spec_metrics_check(check, normalised) : r;
}

/* The directory has to lie in the folder of the snapshot. */
static int check_snapshot(struct job_spec_check *check, struct json_object *normalised)
{
    struct json_object *snapshot = json_get(normalised, "snapshot");
    const char *directory = json_get_string(normalised, "directory", "/");
    const char *folder = json_get_string(snapshot, "folder", "/");
    size_t length = strlen(folder);

    while (length > 0 && folder[length - 1] == '/')
        length--;
    if (snapshot &&
        (strncmp(directory, folder, length) != 0 ||
         (directory[length] && directory[length] != '/') || strstr(directory + length, "/..")))
        return job_spec_fail_at(
            check, "directory",
            "directory does not lie in snapshot.folder; run the command in a folder of "
            "the snapshot");
    return 0;
}

int job_spec_rules_check_command(struct job_spec_check *check, struct json_object *spec,
                                 struct json_object *normalised)
{
    static const char *const keys[] = {"checkpoint_signal", "checkpoint_grace"};
    const char *given = NULL;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !given; i++)
        given = json_get(spec, keys[i]) ? keys[i] : NULL;
    if (!json_get(spec, "preemptible"))
        json_set_bool(normalised, "preemptible", given != NULL);
    else if (given && !json_get_bool(normalised, "preemptible", false))
        return job_spec_fail_at(
            check, given,
            "preemptible is false, so the command is never asked to save its state; "
            "leave out checkpoint_signal and checkpoint_grace");
    return check_snapshot(check, normalised);
}
