/* worker_spec.c: see worker_spec.h. The schema (proto/job_spec.h) has checked types and ranges and
 * filled in the defaults; here values only change their form. */
#include "worker/trainee/worker_spec.h"

#include "base/cleanup.h"
#include "proto/job_spec.h"
#include "worker/trainee/worker_spec_model.h"
#include "worker/trainee/worker_spec_train.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { SPECIFICATION_BYTES_MAX = 1024 * 1024 };

const char **worker_spec_texts(struct json_object *array, int *count)
{
    size_t length = array ? json_object_array_length(array) : 0;
    const char **texts = array ? calloc(length + 1, sizeof *texts) : NULL;

    *count = (int)length;
    for (size_t i = 0; texts && i < length; i++)
        texts[i] = json_object_get_string(json_object_array_get_idx(array, i));
    return texts;
}

/* The lists of texts that a source may have; their array is the specification's. */
static int lists_read(struct json_object *source, struct worker_source *result, struct error *error)
{
    struct dataset_config *config = &result->config;
    struct {
        const char *key;
        const char ***texts;
        int *count;
    } lists[] = {{"features", &result->features, &config->series.feature_count},
                 {"targets", &result->targets, &config->series.target_count},
                 {"ignore", &result->ignored, &config->table.ignored_count},
                 {"categories", &result->categories, &config->table.category_count},
                 {"missing", &result->missing, &config->table.missing_word_count},
                 {"class_of_file", &result->classes, &config->fasta.class_count}};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct json_object *array = json_get(source, lists[i].key);

        *lists[i].texts = worker_spec_texts(array, lists[i].count);
        if (array && !*lists[i].texts)
            return error_set_errno(error, -ENOMEM, "cannot read the specification");
    }
    config->fasta.class_of_file = result->classes;
    config->series.features = config->table.features = result->features;
    config->series.targets = config->table.targets = result->targets;
    config->table.feature_count = config->series.feature_count;
    config->table.target_count = config->series.target_count;
    config->table.ignored = result->ignored;
    config->table.categories = result->categories;
    config->table.missing_words = result->missing;
    return 0;
}

/* How the cells of tables as text are read. */
static int csv_read_keys(struct json_object *source, struct dataset_config *config,
                         struct error *error)
{
    const char *delimiter = json_get_string(source, "delimiter", ",");
    bool finds_delimiter = strcmp(delimiter, "auto") == 0;

    if (delimiter[0] && delimiter[1] && !finds_delimiter)
        return error_set(error, -EINVAL, "delimiter is \"%s\"; it must be one character, or auto",
                         delimiter);
    config->csv.delimiter = finds_delimiter ? '\0' : delimiter[0];
    config->csv.label_column = json_get_string(source, "label_column", NULL);
    config->csv.comment_prefix = json_get_string(source, "comment", NULL);
    config->csv.header =
        (enum dataset_header)dataset_header_from_string(json_get_string(source, "header", "auto"));
    config->csv.divide_by = json_get_double(source, "divide_by", 1);
    config->table.missing = (enum dataset_missing)dataset_missing_from_string(
        json_get_string(source, "missing_values", "indicate"));
    config->table.decimal = (enum dataset_decimal)dataset_decimal_from_string(
        json_get_string(source, "decimal", "auto"));
    config->table.bins = (int)json_get_int(source, "bins", 0);
    config->table.day_first = json_get_bool(source, "day_first", false);
    return 0;
}

static void series_read(struct json_object *source, struct dataset_config *config)
{
    struct json_object *rows = json_get(source, "rows");

    config->series.input = json_get_int(source, "input", 1);
    config->series.horizon = json_get_int(source, "horizon", 1);
    config->series.stride = json_get_int(source, "stride", 1);
    config->series.newest_first = json_get_bool(source, "newest_first", false);
    config->series.first_label = (int32_t)json_get_int(source, "first_label", 0);
    config->series.season = json_get_int(source, "season", 0);
    for (int i = 0; rows && i < 2; i++)
        config->series.rows[i] = json_object_get_double(json_object_array_get_idx(rows, (size_t)i));
}

static int source_read(struct json_object *source, const char *directory,
                       struct worker_source *result, struct error *error)
{
    const char *format = json_get_string(source, "format", "");
    struct json_object *command = json_get(source, "command");
    struct json_object *paths = command ? command : json_get(source, "path"),
                       *shape = json_get(source, "shape");
    struct json_object *resize = json_get(source, "resize");
    struct json_object *crop = json_get(source, "center_crop");
    int64_t samples = json_get_int(source, "samples", 0);
    struct dataset_config *config = &result->config;
    size_t count = paths ? json_object_array_length(paths) : 1;
    int r;

    *config = (struct dataset_config){.directory = directory, .path_count = (int)count};
    config->format = (enum dataset_format)dataset_format_from_string(format);
    config->generate.samples = samples;
    config->generate.chunk = json_get_int(source, "chunk", samples / 64 + (samples % 64 > 0));
    config->generate.seed = (uint64_t)json_get_int(source, "seed", 0);
    config->generate.values = (int32_t)json_get_int(source, "values", 1);
    result->paths = calloc(count + 1, sizeof *result->paths);
    if (!result->paths)
        return error_set_errno(error, -ENOMEM, "cannot read the specification");
    for (size_t i = 0; i < count; i++)
        result->paths[i] = paths ? json_object_get_string(json_object_array_get_idx(paths, i))
                                 : json_get_string(source, "images", "");
    config->paths = result->paths;
    config->labels_path = json_get_string(source, "labels", NULL);
    config->lengths_path = json_get_string(source, "lengths", NULL);
    config->weights_path = json_get_string(source, "sample_weights", NULL);
    config->table.weight_column = json_get_string(source, "weight_column", NULL);
    r = lists_read(source, result, error);
    if (r == 0)
        r = csv_read_keys(source, config, error);
    series_read(source, config);
    config->rank = shape ? (int)json_object_array_length(shape) : 0;
    for (int i = 0; i < config->rank; i++)
        config->shape[i] = json_object_get_int64(json_object_array_get_idx(shape, (size_t)i));
    config->layout =
        (enum dataset_layout)dataset_layout_from_string(json_get_string(source, "layout", "auto"));
    config->image.channels = strcmp(json_get_string(source, "color", "rgb"), "grey") == 0 ? 1 : 3;
    if (resize) {
        config->image.height = json_object_get_int64(json_object_array_get_idx(resize, 0));
        config->image.width = json_object_get_int64(json_object_array_get_idx(resize, 1));
    }
    config->image.column = json_get_string(source, "image_column", NULL);
    config->image.folder = json_get_string(source, "images_folder", NULL);
    config->image.shorter = json_get_int(source, "resize_shorter", 0);
    if (crop) {
        config->image.crop_height = json_object_get_int64(json_object_array_get_idx(crop, 0));
        config->image.crop_width = json_object_get_int64(json_object_array_get_idx(crop, 1));
    }
    config->sequence.tokens = (enum dataset_tokens)dataset_tokens_from_string(
        json_get_string(source, "tokens", "characters"));
    config->sequence.kmer = (int32_t)json_get_int(source, "kmer", 1);
    config->sequence.kmer_stride = (int32_t)json_get_int(source, "kmer_stride", 1);
    config->sequence.length = json_get_int(source, "length", 0);
    config->sequence.column = json_get_string(source, "sequence_column", NULL);
    config->fasta.skips_empty = strcmp(json_get_string(source, "empty_records", ""), "skip") == 0;
    config->cifar.label_bytes = (int)json_get_int(source, "label_bytes", 1);
    return r;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

/* Sets one operation of the list; the schema has checked its name and number. */
static void augmentation_set(struct augmentation *to, const char *name, size_t length,
                             double number)
{
    const struct {
        const char *name;
        double *number;
    } numbers[] = {{"random_resized_crop", &to->crop_scale},
                   {"rand_augment", &to->rand_augment},
                   {"brightness", &to->brightness},
                   {"contrast", &to->contrast},
                   {"saturation", &to->saturation},
                   {"hue", &to->hue},
                   {"rotation", &to->rotation},
                   {"random_erasing", &to->erasing},
                   {"cutmix", &to->cutmix_alpha},
                   {"mixup", &to->mixup_alpha}};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (is_word(name, length, numbers[i].name))
            *numbers[i].number = number;
    if (is_word(name, length, "random_crop"))
        to->crop_padding = (int64_t)number;
    else if (is_word(name, length, "cutout"))
        to->cutout_side = (int64_t)number;
    else if (is_word(name, length, "horizontal_flip"))
        to->horizontal_flip = true;
    else if (is_word(name, length, "vertical_flip"))
        to->vertical_flip = true;
}

static void augmentation_read(struct worker_spec *spec)
{
    struct json_object *data = json_get(spec->normalised, "data");
    struct json_object *train = json_get(spec->normalised, "train");
    struct json_object *list = json_get(data, "augment");
    struct augmentation *to = &spec->augmentation;

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        const char *text = json_object_get_string(json_object_array_get_idx(list, i));
        const char *colon = strchr(text, ':');
        size_t length = strcspn(text, ":");
        double number = colon ? strtod(colon + 1, NULL) : 0;

        augmentation_set(to, text, length, number);
    }
    to->label_noise = json_get_double(data, "label_noise", 0);
    to->label_smoothing = json_get_double(train, "label_smoothing", 0);
    to->seed = (uint64_t)json_get_int(train, "seed", 0);
}

static int split_read(struct worker_spec *spec, struct error *error)
{
    static const enum dataset_split_keys keys[] = {
        [DATASET_SPLIT_GROUP] = DATASET_KEYS_GROUPS, [DATASET_SPLIT_COLUMN] = DATASET_KEYS_PARTS};
    struct json_object *data = json_get(spec->normalised, "data");
    struct json_object *split = json_get(data, "split");
    struct dataset_config *table = &spec->train.config;
    struct json_object *validation = json_get(split, "validation_values");
    struct json_object *test = json_get(split, "test_values");
    struct dataset_split_config *to = &spec->split;

    to->fraction = json_get_double(data, "validation_fraction", 0);
    to->seed = (uint64_t)json_get_int(json_get(spec->normalised, "train"), "seed", 0);
    to->rule = (enum dataset_split_rule)dataset_split_rule_from_string(
        json_get_string(split, "by", dataset_split_rule_to_string(DATASET_SPLIT_RANDOM)));
    to->folds = (int)json_get_int(split, "folds", 0);
    to->fold = (int)json_get_int(split, "fold", 0);
    table->table.split_column = json_get_string(split, "column", NULL);
    table->table.split_keys = keys[to->rule];
    spec->validation_values = worker_spec_texts(validation, &table->table.validation_value_count);
    spec->test_values = worker_spec_texts(test, &table->table.test_value_count);
    table->table.validation_values = spec->validation_values;
    table->table.test_values = spec->test_values;
    return (validation && !spec->validation_values) || (test && !spec->test_values)
               ? error_no_memory(error, "the texts of data.split")
               : 0;
}

static int data_read(struct worker_spec *spec, struct error *error)
{
    struct json_object *data = json_get(spec->normalised, "data");
    struct json_object *test = json_get(data, "test");
    struct json_object *model = json_get(spec->normalised, "model");
    const char *directory = json_get_string(spec->normalised, "directory", NULL);
    int r = source_read(json_get(data, "train"), directory, &spec->train, error);

    if (r == 0 && test) {
        spec->has_test = true;
        r = source_read(test, directory, &spec->test, error);
    }
    for (int i = 0; i < 2; i++) {
        struct dataset_config *config = i ? &spec->test.config : &spec->train.config;

        config->target =
            model_loss_is_of_values(spec->loss) ? DATASET_TARGET_VALUE : DATASET_TARGET_CLASS;
        config->plain_targets = spec->loss == LOSS_BINARY   ? DATASET_PLAIN_LABELS
                                : spec->loss == LOSS_SOFT   ? DATASET_PLAIN_PROBABILITIES
                                : spec->loss == LOSS_COSINE ? DATASET_PLAIN_DIRECTIONS
                                                            : DATASET_PLAIN_NOT;
        config->classes = (int32_t)spec->classes;
        config->text.context = (int32_t)json_get_int(model, "context", 0);
        config->text.labels_each =
            model_traits(spec->model.kind) & MODEL_PREDICTS_EACH ||
            (spec->model.onnx && onnx_interface(spec->model.onnx).output_rank == 3);
        config->text.streams = spec->model.carry_state;
    }
    if (r == 0 && dataset_format_is_text(spec->train.config.format) &&
        spec->train.config.text.context < 1)
        return error_set(error, -EINVAL,
                         "model.context is missing: a list of layers that reads text needs the "
                         "length of the text before the predicted symbol");
    if (r == 0)
        r = split_read(spec, error);
    spec->normalisation = (enum dataset_normalisation_kind)dataset_normalisation_kind_from_string(
        json_get_string(data, "normalize", "none"));
    augmentation_read(spec);
    spec->training.length_buckets = (int)json_get_int(data, "length_buckets", 1);
    spec->training.loader_threads = (int)json_get_int(data, "loader_threads", -1);
    return r;
}

static void checkpoint_read(struct worker_spec *spec)
{
    struct json_object *checkpoint = json_get(spec->normalised, "checkpoint");
    struct json_object *every = json_get(checkpoint, "every");
    struct training_config *config = &spec->training;

    config->checkpoint_every_epochs = json_get_int(every, "epochs", 0);
    config->checkpoint_every_steps = json_get_int(every, "steps", 0);
    config->checkpoint_every_seconds = json_get_double(every, "seconds", 0);
    config->checkpoint_keep = (int)json_get_int(checkpoint, "keep", 1);
    config->best_metric = json_get_string(checkpoint, "best", NULL);
    if (config->best_metric && strncmp(config->best_metric, "validation", 10) == 0 &&
        spec->split.fraction == 0)
        config->best_metric = "train_loss";
}

static int weights_read(struct worker_spec *spec, struct error *error)
{
    struct json_object *weights = json_get(spec->normalised, "weights");
    struct json_object *fresh = json_get(weights, "new");

    spec->weights_file = json_get_string(weights, "file", NULL);
    spec->weights_job = json_get_int(weights, "job", 0);
    spec->continues = json_get_bool(weights, "continue", false);
    spec->weights_prefix = json_get_string(weights, "prefix", "");
    spec->new_weights = worker_spec_texts(fresh, &spec->new_weight_count);
    return fresh && !spec->new_weights ? error_no_memory(error, "the patterns of weights.new") : 0;
}

static void device_read(struct worker_spec *spec)
{
    struct json_object *device = json_get(spec->normalised, "device");

    spec->device = json_get_string(device, "prefer", "auto");
    spec->threads = (int)json_get_int(device, "threads", 0);
}

static int spec_read(struct json_object *raw, const char *path, struct worker_spec *spec,
                     struct error *error)
{
    int r = job_spec_normalise(raw, &spec->normalised, NULL, error);

    if (r == 0 && job_spec_is_command(spec->normalised))
        r = error_set(error, -EINVAL,
                      "%s is a command job: traind-worker trains jobs with a model only", path);
    if (r < 0)
        return r;
    spec->name = json_get_string(spec->normalised, "name", "");
    job_spec_plan_digest(spec->normalised, spec->digest);
    r = worker_spec_read_model(spec, error);
    if (r == 0)
        r = data_read(spec, error);
    if (r == 0)
        r = worker_spec_read_train(spec, error);
    if (r == 0)
        r = weights_read(spec, error);
    if (r < 0) {
        worker_spec_release(spec);
        return r;
    }
    checkpoint_read(spec);
    device_read(spec);
    return 0;
}

int worker_spec_load(const char *path, struct worker_spec *spec, struct error *error)
{
    JSON_AUTO struct json_object *raw = NULL;
    char present[PATH_MAX]; /* where relative paths start if the specification has no directory */
    int r;

    *spec = (struct worker_spec){0};
    r = json_parse_file(path, SPECIFICATION_BYTES_MAX, &raw, error);
    if (r == 0 && json_object_is_type(raw, json_type_object) && !json_get(raw, "directory") &&
        getcwd(present, sizeof present))
        json_set_string(raw, "directory", present);
    return r < 0 ? r : spec_read(raw, path, spec, error);
}

int worker_spec_parse(const char *text, const char *path, struct worker_spec *spec,
                      struct error *error)
{
    JSON_AUTO struct json_object *raw = NULL;
    int r;

    *spec = (struct worker_spec){0};
    r = json_parse(text, strlen(text), &raw, error);
    if (r == 0)
        r = spec_read(raw, path, spec, error);
    return r < 0 ? error_prefix(error, "the specification in %s", path) : 0;
}

/* Replaces what says where the data are. */
static void hide_paths(struct json_object *source)
{
    static const char kept[] = "data"; /* a path must not be empty */
    static const char *const files[] = {"images", "labels", "lengths", "sample_weights"};
    struct json_object *command = json_get(source, "command");

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (json_get(source, files[i]))
            json_set_string(source, files[i], kept);
    if (json_get(source, "path") || command) {
        struct json_object *list = json_object_new_array();

        json_object_array_add(list, json_object_new_string(command ? "{output}" : kept));
        json_set(source, command ? "command" : "path", list);
    }
    json_object_object_del(source, "class_of_file"); /* as many as there were files */
}

/* The model's own file is found from anywhere; without it there is no model. */
static void keep_model_file(struct json_object *model, const char *directory)
{
    const char *path = json_get_string(model, "onnx", NULL);
    AUTO_FREE char *absolute = NULL;

    if (path && path[0] != '/' && directory && asprintf(&absolute, "%s/%s", directory, path) >= 0)
        json_set_string(model, "onnx", absolute);
}

char *worker_spec_keep(const struct worker_spec *spec)
{
    static const char *const kept[] = {"name", "model", "data", "train"};
    JSON_AUTO struct json_object *json = json_object_new_object(), *copy = NULL;
    struct error ignored;
    const char *text;
    size_t length;

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_set(json, kept[i], json_object_get(json_get(spec->normalised, kept[i])));
    text = json_text(json, &length);
    if (json_parse(text, length, &copy, &ignored) < 0)
        return NULL;
    json_set_string(copy, "directory", "/");
    keep_model_file(json_get(copy, "model"), json_get_string(spec->normalised, "directory", NULL));
    json_object_object_del(json_get(copy, "data"), "test");
    hide_paths(json_get(json_get(copy, "data"), "train"));
    return strdup(json_text(copy, NULL));
}

void worker_spec_release(struct worker_spec *spec)
{
    free(TAKE_POINTER(spec->train.paths));
    free(TAKE_POINTER(spec->test.paths));
    for (int i = 0; i < 2; i++) {
        struct worker_source *source = i ? &spec->test : &spec->train;

        free(TAKE_POINTER(source->classes));
        free(TAKE_POINTER(source->features));
        free(TAKE_POINTER(source->targets));
        free(TAKE_POINTER(source->ignored));
        free(TAKE_POINTER(source->categories));
        free(TAKE_POINTER(source->missing));
    }
    worker_spec_release_layers(&spec->model.layers);
    onnx_close(TAKE_POINTER(spec->model.onnx));
    free(TAKE_POINTER(spec->groups));
    free(TAKE_POINTER(spec->patterns));
    free(TAKE_POINTER(spec->frozen));
    free(TAKE_POINTER(spec->new_weights));
    free(TAKE_POINTER(spec->validation_values));
    free(TAKE_POINTER(spec->test_values));
    json_object_put(TAKE_POINTER(spec->normalised));
}
