/* suggestion.c: see suggestion.h. The numbers of a recipe are those of the project's examples, or
 * were chosen on the data of tests/bench/init. */
#include "worker/trainee/suggestion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_IMAGE = 64, /* sides up to this are trained as they are */
    LEAST_SIDE = 8,   /* below it convolutions and pools leave nothing */
    CONTEXT_MOST = 64,
    CONTEXT_LEAST = 4,
    CONTEXTS_IN_TEXT = 40,
    LONGEST_SEQUENCE = 1000 /* what is behind costs more time than it tells */
};

static const struct suggestion_recipe image_recipes[] = {
    {"convolutions: good for small images, and fast",
     "{\"name\": \"cnn\", \"channels\": [32, 64], \"hidden\": [128]}",
     "{\"batch_size\": 64, \"optimizer\": {\"name\": \"adam\", \"lr\": 0.001}, "
     "\"schedule\": {\"name\": \"cosine\"}}",
     300000, 3, 40},
    {"linear layers: the fastest", "{\"name\": \"mlp\", \"hidden\": [256]}",
     "{\"batch_size\": 64, \"optimizer\": {\"name\": \"adam\", \"lr\": 0.001}, "
     "\"schedule\": {\"name\": \"cosine\"}}",
     600000, 5, 60},
    {"a residual network: the most accurate, and slow without a GPU", "{\"name\": \"resnet18\"}",
     "{\"batch_size\": 128, \"optimizer\": {\"name\": \"sgd\", \"lr\": 0.1, \"momentum\": 0.9, "
     "\"weight_decay\": 0.0005}, \"schedule\": {\"name\": \"cosine\"}}",
     1500000, 10, 100}};
enum { IMAGE_RECIPES = sizeof image_recipes / sizeof *image_recipes };

static const struct suggestion_recipe row_recipe = {
    "linear layers",
    "{\"name\": \"mlp\", \"hidden\": [256, 256]}",
    "{\"optimizer\": {\"name\": \"adamw\", \"lr\": 0.003, \"weight_decay\": 0.1}, "
    "\"schedule\": {\"name\": \"cosine\"}}",
    2000000,
    10,
    100};

static const struct suggestion_recipe text_recipes[] = {
    {"a transformer", "{\"name\": \"gpt\", \"positions\": \"rotary\"}",
     "{\"max_steps\": 2000, \"batch_size\": 12, \"optimizer\": {\"name\": \"adamw\", \"lr\": 0.001, "
     "\"betas\": [0.9, 0.99], \"weight_decay\": 0.1}, \"schedule\": {\"name\": \"cosine\", "
     "\"min_lr\": 0.0001, \"warmup_steps\": 100}, \"clip_norm\": 1.0, \"evaluate_every\": "
     "{\"steps\": 250}}",
     0, 0, 0},
    {"an LSTM", "{\"name\": \"lstm\", \"hidden_size\": 256}",
     "{\"max_steps\": 2000, \"batch_size\": 32, \"optimizer\": {\"name\": \"adamw\", \"lr\": "
     "0.002}, \"schedule\": {\"name\": \"cosine\"}, \"clip_norm\": 1.0, \"evaluate_every\": "
     "{\"steps\": 250}}",
     0, 0, 0},
    {"linear layers over the last symbols", "{\"name\": \"char_mlp\", \"hidden\": [256]}",
     "{\"max_steps\": 5000, \"batch_size\": 128, \"optimizer\": {\"name\": \"adamw\", \"lr\": "
     "0.002}, \"schedule\": {\"name\": \"cosine\"}, \"evaluate_every\": {\"steps\": 1000}}",
     0, 0, 0}};
enum { TEXT_RECIPES = sizeof text_recipes / sizeof *text_recipes };

#define SEQUENCE_TRAINING                                                       \
    "{\"batch_size\": 64, \"optimizer\": {\"name\": \"adamw\", \"lr\": 0.003, " \
    "\"weight_decay\": 0.01}, \"schedule\": {\"name\": \"one_cycle\"}}"

static const struct suggestion_recipe dna_recipes[] = {
    {"convolutions, for signals at a fixed place", "{\"name\": \"dna_cnn\"}", SEQUENCE_TRAINING,
     150000, 4, 30},
    {"convolutions, for signals anywhere", "{\"name\": \"dna_cnn\", \"pooling\": \"max\"}",
     SEQUENCE_TRAINING, 150000, 4, 30},
    {"an LSTM in both directions", "{\"name\": \"lstm\", \"bidirectional\": true}",
     SEQUENCE_TRAINING, 100000, 4, 20}};
static const struct suggestion_recipe sequence_recipes[] = {
    {"convolutions of several widths", "{\"name\": \"text_cnn\"}", SEQUENCE_TRAINING, 100000, 4,
     30},
    {"an LSTM in both directions",
     "{\"name\": \"lstm\", \"bidirectional\": true, \"readout\": \"mean\"}", SEQUENCE_TRAINING,
     100000, 4, 20}};

/* ---- parts of a specification ---- */

void suggestion_add(struct json_object *choices, const char *task,
                    const struct suggestion_recipe *recipe, struct json_object *data,
                    int64_t samples, bool is_of_values)
{
    struct json_object *choice = json_object_new_object(), *spec = json_object_new_object();
    struct json_object *model = json_tokener_parse(recipe->model);
    struct json_object *train = json_tokener_parse(recipe->train);
    int64_t epochs = recipe->samples / (samples > 0 ? samples : 1);

    if (is_of_values)
        json_set_string(model, "loss", "mse");
    if (recipe->samples)
        json_set_int(train, "epochs",
                     epochs > recipe->most    ? recipe->most
                     : epochs < recipe->least ? recipe->least
                                              : epochs);
    json_set_string(choice, "task", task);
    json_set_string(choice, "model", json_get_string(model, "name", ""));
    json_set_string(choice, "about", recipe->about);
    json_set(spec, "model", model);
    json_set(spec, "data", data);
    json_set(spec, "train", train);
    json_set(choice, "specification", spec);
    json_object_array_add(choices, choice);
}

/* One path is a text, several are an array. */
static struct json_object *paths_new(char *const *paths, int count)
{
    struct json_object *list;

    if (count == 1)
        return json_object_new_string(paths[0]);
    list = json_object_new_array();
    for (int i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_string(paths[i]));
    return list;
}

static struct json_object *set_new(const struct detection *detection,
                                   const struct detection_set *set, const char *format)
{
    struct json_object *source = json_object_new_object();
    bool is_idx = detection->format == DATASET_IDX;

    if (format)
        json_set_string(source, "format", format);
    json_set(source, is_idx ? "images" : "path", paths_new(set->paths, set->path_count));
    if (set->labels)
        json_set_string(source, "labels", set->labels);
    return source;
}

struct json_object *suggestion_data_new(const struct detection *detection, const char *format)
{
    struct json_object *data = json_object_new_object();

    json_set(data, "train", set_new(detection, &detection->train, format));
    if (detection->test.path_count)
        json_set(data, "test", set_new(detection, &detection->test, NULL));
    return data;
}

static struct json_object *own_data_new(const struct detection *detection)
{
    return suggestion_data_new(detection, dataset_format_to_string(detection->format));
}

/* ---- images and rows ---- */

/* Whether they are files, whose sizes the job may change. */
static bool are_files(const struct detection *detection)
{
    return detection->format == DATASET_IMAGE_FOLDER || detection->format == DATASET_IMAGE_CSV;
}

static bool is_image(const struct detection *detection)
{
    return detection->rank == 3;
}

static int64_t shorter_side(const struct detection *detection)
{
    return detection->shape[1] < detection->shape[2] ? detection->shape[1] : detection->shape[2];
}

/* Of colours, which are photographs more often than signs that a mirror would change. */
static void add_augmentation(struct json_object *data, int64_t side)
{
    struct json_object *list = json_object_new_array();
    char crop[32];

    snprintf(crop, sizeof crop, "random_crop:%lld", (long long)(side / 8));
    json_object_array_add(list, json_object_new_string(crop));
    json_object_array_add(list, json_object_new_string("horizontal_flip"));
    json_set(data, "augment", list);
}

static struct json_object *image_data_new(const struct detection *detection, int64_t *side)
{
    struct json_object *data = own_data_new(detection), *train = json_get(data, "train");
    struct json_object *crop;

    *side = shorter_side(detection);
    if (detection->format == DATASET_CIFAR && detection->label_bytes == 2)
        json_set_int(train, "label_bytes", 2);
    if (are_files(detection) && (detection->sizes_differ || *side > SMALL_IMAGE)) {
        *side = SMALL_IMAGE;
        crop = json_object_new_array();
        json_object_array_add(crop, json_object_new_int(SMALL_IMAGE));
        json_object_array_add(crop, json_object_new_int(SMALL_IMAGE));
        json_set_int(train, "resize_shorter", SMALL_IMAGE);
        json_set(train, "center_crop", crop);
    }
    if (detection->shape[0] == 3 && *side >= LEAST_SIDE)
        add_augmentation(data, *side);
    return data;
}

void suggestions_add_images(struct json_object *choices, struct detection *detection)
{
    const char *task = detection->has_values ? "numbers" : "classes";
    int64_t side = detection->sizes_differ ? SMALL_IMAGE : shorter_side(detection);

    for (int i = 0; i < IMAGE_RECIPES; i++)
        if (side >= LEAST_SIDE || strstr(image_recipes[i].model, "mlp")) {
            struct json_object *data = image_data_new(detection, &side);

            suggestion_add(choices, task, &image_recipes[i], data, detection->samples,
                           detection->has_values);
        }
    if (are_files(detection) && (detection->sizes_differ || shorter_side(detection) > SMALL_IMAGE))
        detection_note(detection,
                       "images are made %d x %d (resize_shorter, center_crop); larger ones show "
                       "more and take longer",
                       SMALL_IMAGE, SMALL_IMAGE);
    if (detection->shape[0] == 3)
        detection_note(detection,
                       "images may be moved and mirrored (data.augment): take horizontal_flip out "
                       "if left and right differ, as in letters");
}

/* ---- texts and sequences ---- */

static void add_texts(struct json_object *choices, const struct detection *detection)
{
    int64_t context = detection->samples / CONTEXTS_IN_TEXT;

    context = context > CONTEXT_MOST    ? CONTEXT_MOST
              : context < CONTEXT_LEAST ? CONTEXT_LEAST
                                        : context;
    for (int i = 0; i < TEXT_RECIPES; i++) {
        struct json_object *choice, *model;

        suggestion_add(choices, "text", &text_recipes[i], own_data_new(detection), 0, false);
        choice = json_object_array_get_idx(choices, json_object_array_length(choices) - 1);
        model = json_get(json_get(choice, "specification"), "model");
        if (strcmp(json_get_string(model, "name", ""), "char_mlp") != 0)
            json_set_int(model, "context", context);
        else if (context < 16)
            json_set_int(model, "context", context);
    }
}

void suggestions_add_sequences(struct json_object *choices, struct json_object *data, bool is_dna,
                               int64_t samples, int64_t longest)
{
    const struct suggestion_recipe *recipes = is_dna ? dna_recipes : sequence_recipes;
    size_t count = is_dna ? sizeof dna_recipes / sizeof *dna_recipes
                          : sizeof sequence_recipes / sizeof *sequence_recipes;

    json_set_string(json_get(data, "train"), "tokens", is_dna ? "nucleotides" : "characters");
    if (!is_dna && longest > LONGEST_SEQUENCE)
        json_set_int(json_get(data, "train"), "length", LONGEST_SEQUENCE);
    for (size_t i = 0; i < count; i++)
        suggestion_add(choices, "classes", &recipes[i], json_object_get(data), samples, false);
    json_object_put(data);
}

static void add_fasta(struct json_object *choices, struct detection *detection)
{
    struct json_object *data = own_data_new(detection), *classes;

    if (detection->classes[0]) {
        classes = json_object_new_array();
        for (int i = 0; i < detection->train.path_count; i++)
            json_object_array_add(classes, json_object_new_string(detection->classes[i]));
        json_set(json_get(data, "train"), "class_of_file", classes);
    } else {
        detection_note(detection, "the label of a record is the last word of its first line "
                                  "(data.train.label_column); another way is a folder with a file "
                                  "for each class");
    }
    suggestions_add_sequences(choices, data, detection->is_dna, detection->samples, 0);
}

struct json_object *suggestions_new(struct detection *detection,
                                    const struct table_inspection *table,
                                    const struct dataset_config *config)
{
    struct json_object *choices = json_object_new_array();

    if (table)
        suggestions_add_table(choices, detection, table, config);
    else if (detection->format == DATASET_TEXT)
        add_texts(choices, detection);
    else if (detection->format == DATASET_FASTA)
        add_fasta(choices, detection);
    else if (is_image(detection))
        suggestions_add_images(choices, detection);
    else
        suggestion_add(choices, detection->has_values ? "numbers" : "classes", &row_recipe,
                       own_data_new(detection), detection->samples, detection->has_values);
    return choices;
}
