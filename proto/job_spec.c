/* job_spec.c: checks and normalises a specification by the table of job_spec_schema.c; see
 * job_spec.h. */
#include "proto/job_spec.h"

#include "base/text.h"
#include "proto/job_spec_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    SECTION_KEYS_MAX = 64,
    JOB_SPEC_LIST_MAX = 4096,
    OTHER_PATH_MAX = 64,
    DEFAULT_NAME_MAX = 128
};

/* ---- unknown keys -------------------------------------------------------------------------- */

/* The path of a key of exactly that name in any other section, for example for a misplaced
 * "epochs". */
static bool path_elsewhere(const struct job_spec_section *section, const char *name, char *path,
                           size_t size)
{
    size_t length = strlen(path);

    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];

        if (strcmp(key->name, name) == 0) {
            snprintf(path + length, size - length, "%s%s", length ? "." : "", name);
            return true;
        }
    }
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];

        if (key->type != JOB_SPEC_OBJECT)
            continue;
        snprintf(path + length, size - length, "%s%s", length ? "." : "", key->name);
        if (path_elsewhere(key->section, name, path, size))
            return true;
        path[length] = '\0';
    }
    return false;
}

static void list_keys(const struct job_spec_section *section, const char *variant, char *output,
                      size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < section->count && used < size; i++)
        if (!variant || job_spec_key_applies(section, &section->keys[i], variant))
            used += (size_t)snprintf(output + used, size - used, "%s%s", used ? ", " : "",
                                     section->keys[i].name);
}

static int fail_unknown(struct job_spec_check *check, const struct job_spec_section *section,
                        const char *name)
{
    static const char *const spelled_out[] = {"learning_rate"}; /* elsewhere; here it is lr */
    const char *names[SECTION_KEYS_MAX], *nearest;
    size_t length, count = 0;
    char other[OTHER_PATH_MAX] = "", keys[1024];

    for (size_t i = 0; i < section->count && count < SECTION_KEYS_MAX; i++)
        names[count++] = section->keys[i].name;
    nearest = text_nearest(name, names, count);
    if (nearest) {
        char valid[sizeof check->path];

        length = job_spec_path_push(check, ".", nearest);
        strcpy(valid, check->path);
        check->path[length] = '\0';
        job_spec_path_push(check, ".", name);
        return job_spec_fail(check, valid, "%s is not a key; did you mean %s?", check->path, valid);
    }
    job_spec_path_push(check, ".", name);
    if (text_nearest(name, spelled_out, 1))
        name = "lr";
    if (path_elsewhere(&job_spec_schema, name, other, sizeof other))
        return job_spec_fail(check, other, "%s is not a key; did you mean %s?", check->path, other);
    list_keys(section, NULL, keys, sizeof keys);
    return job_spec_fail(check, NULL, "%s is not a key; valid are %s", check->path, keys);
}

/* Fails with a sentence such as "… does not apply to adam; sgd and rmsprop have it". */
static int fail_not_applicable(struct job_spec_check *check, const struct job_spec_section *section,
                               const struct job_spec_key *key, const char *variant)
{
    char owners[JOB_SPEC_VARIANTS_MAX] = "", variants[JOB_SPEC_VARIANTS_MAX] = "";
    size_t used = 0, words = 0;

    job_spec_key_variants(section, key, variants, sizeof variants);
    for (const char *at = variants; *at; words++) {
        size_t length = strcspn(at, " ");
        bool last = !at[length];

        if (used < sizeof owners)
            used += (size_t)snprintf(owners + used, sizeof owners - used, "%s%.*s",
                                     !words ? ""
                                     : last ? " and "
                                            : ", ",
                                     (int)length, at);
        at += length;
        at += *at == ' ';
    }
    job_spec_path_push(check, ".", key->name);
    if (section == &job_spec_schema)
        return job_spec_fail(check, NULL,
                             "%s belongs to a %s job: a job has either a command or model, data, "
                             "train and checkpoint",
                             check->path, variants);
    return job_spec_fail(check, NULL, "%s does not apply to %s; %s %s it", check->path, variant,
                         owners, words == 1 ? "has" : "have");
}

bool job_spec_is_command(struct json_object *spec)
{
    return json_get(spec, "command") != NULL;
}

/* ---- sections ------------------------------------------------------------------------------ */

static int section_normalise(struct job_spec_check *check, const struct job_spec_section *section,
                             const char *variant, struct json_object *input,
                             struct json_object **normalised);

static int objects_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                             struct json_object *input, struct json_object **normalised)
{
    JSON_AUTO struct json_object *made = json_object_new_array();
    size_t count;

    if (!json_object_is_type(input, json_type_array))
        return job_spec_fail_value(check, key, input);
    count = json_object_array_length(input);
    if (count < key->count_minimum || count > key->count_maximum)
        return job_spec_fail_value(check, key, input);
    for (size_t i = 0; i < count; i++) {
        size_t length = job_spec_path_push_index(check, i);
        struct json_object *element;
        int r = section_normalise(check, key->section, NULL, json_object_array_get_idx(input, i),
                                  &element);

        if (r < 0)
            return r;
        json_object_array_add(made, element);
        check->path[length] = '\0';
    }
    *normalised = TAKE_POINTER(made);
    return 0;
}

static void copy_members(struct json_object *to, struct json_object *from)
{
    json_object_object_foreach (from, key, value) {
        json_set(to, key, json_object_get(value));
    }
}

/* A model given as a list, or as an object with layers, nodes or a file and no name. */
static struct json_object *model_complete(struct json_object *model)
{
    bool graph = json_get(model, "nodes") != NULL;
    const char *name = json_get(model, "onnx") ? "onnx" : graph ? "graph" : "layers";
    const char *key = graph ? "nodes" : name;
    struct json_object *complete;

    if (json_object_is_type(model, json_type_array)) {
        complete = json_object_new_object();
        json_set(complete, "layers", json_object_get(model));
    } else if (json_get(model, key) && !json_get(model, "name")) {
        complete = json_object_new_object();
        copy_members(complete, model);
    } else {
        return json_object_get(model);
    }
    json_set_string(complete, "name", name);
    return complete;
}

/* Weights that are given by the name of their file, or the number of their job. */
static struct json_object *weights_complete(struct json_object *weights)
{
    struct json_object *complete;

    bool file = json_object_is_type(weights, json_type_string);

    if (!file && !json_object_is_type(weights, json_type_int))
        return json_object_get(weights);
    complete = json_object_new_object();
    json_set(complete, file ? "file" : "job", json_object_get(weights));
    return complete;
}

/* With max_steps and without epochs, only the steps end the training. */
static struct json_object *train_complete(struct json_object *train)
{
    struct json_object *complete;

    if (!json_object_is_type(train, json_type_object) || !json_get(train, "max_steps") ||
        json_get(train, "epochs"))
        return json_object_get(train);
    complete = json_object_new_object();
    json_object_object_foreach (train, name, value)
        json_set(complete, name, json_object_get(value));
    json_set_int(complete, "epochs", JOB_SPEC_EPOCHS_MAX);
    return complete;
}

/* Adds to data.test the keys that it leaves out from data.train, except paths, unless the formats
 * differ. */
static struct json_object *data_complete(struct json_object *data)
{
    struct json_object *train = json_get(data, "train"), *test = json_get(data, "test");
    struct json_object *complete, *inherited;
    const char *format = json_get_string(train, "format", "");

    if (!json_object_is_type(train, json_type_object) ||
        !json_object_is_type(test, json_type_object) ||
        strcmp(json_get_string(test, "format", format), format) != 0)
        return json_object_get(data);
    inherited = json_object_new_object();
    copy_members(inherited, train);
    json_object_object_del(inherited, "images");
    json_object_object_del(inherited, "labels");
    json_object_object_del(inherited, "lengths");
    json_object_object_del(inherited, "sample_weights");
    json_object_object_del(inherited, "path");
    copy_members(inherited, test);
    complete = json_object_new_object();
    copy_members(complete, data);
    json_set(complete, "test", inherited);
    return complete;
}

/* An array of arrays of objects. */
static int lists_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                           struct json_object *input, struct json_object **normalised)
{
    JSON_AUTO struct json_object *made = json_object_new_array();
    struct job_spec_key list = *key;
    size_t count;

    if (!json_object_is_type(input, json_type_array))
        return job_spec_fail_value(check, key, input);
    count = json_object_array_length(input);
    if (count < key->count_minimum || count > key->count_maximum)
        return job_spec_fail_value(check, key, input);
    list.type = JOB_SPEC_OBJECTS;
    list.count_minimum = 0;
    list.count_maximum = JOB_SPEC_LIST_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t length = job_spec_path_push_index(check, i);
        struct json_object *element;
        int r = objects_normalise(check, &list, json_object_array_get_idx(input, i), &element);

        if (r < 0)
            return r;
        json_object_array_add(made, element);
        check->path[length] = '\0';
    }
    *normalised = TAKE_POINTER(made);
    return 0;
}

static int key_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                         struct json_object *value, struct json_object **normalised)
{
    JSON_AUTO struct json_object *complete = NULL;
    const char *variant = NULL;

    if (key->type == JOB_SPEC_OBJECTS)
        return objects_normalise(check, key, value, normalised);
    if (key->type == JOB_SPEC_OBJECT_LISTS)
        return lists_normalise(check, key, value, normalised);
    if (key->type != JOB_SPEC_OBJECT)
        return job_spec_value_normalise(check, key, value, normalised);
    if (strcmp(check->path, "model") == 0) {
        value = complete = model_complete(value);
    } else if (strcmp(check->path, "weights") == 0) {
        value = complete = weights_complete(value);
    } else if (strcmp(check->path, "train") == 0) {
        value = complete = train_complete(value);
    } else if (strcmp(check->path, "data") == 0) {
        value = complete = data_complete(value);
        variant = json_get_string(json_get(value, "train"), "format", NULL);
    }
    return section_normalise(check, key->section, variant, value, normalised);
}

/* Adds one key of the table to the output: the input's value, the default, or nothing. */
static int key_take(struct job_spec_check *check, const struct job_spec_section *section,
                    const struct job_spec_key *key, const char *variant, struct json_object *input,
                    struct json_object *output)
{
    JSON_AUTO struct json_object *fallback = NULL;
    struct json_object *value = json_get(input, key->name), *made = NULL;
    size_t length;
    int r;

    if (!value && key->null_is_value && json_object_object_get_ex(input, key->name, NULL)) {
        json_set(output, key->name, NULL);
        return 0;
    }
    length = job_spec_path_push(check, ".", key->name);
    if (!value) {
        const char *json = job_spec_key_fallback(section, key, variant);
        char description[400];

        if (json && json_parse(json, strlen(json), &fallback, check->error) < 0)
            return -EINVAL;
        value = fallback;
        if (!value && key->required)
            return job_spec_fail(check, NULL, "%s is missing; it must be %s", check->path,
                                 job_spec_key_describe(key, description, sizeof description));
    }
    if (value) {
        r = key_normalise(check, key, value, &made);
        if (r < 0)
            return r;
        json_set(output, key->name, made);
    }
    check->path[length] = '\0';
    return 0;
}

/* Gets the value of the key that decides which others apply; borrowed from `input` or the table. */
static int variant_find(struct job_spec_check *check, const struct job_spec_section *section,
                        struct json_object *output, const char **variant, struct json_object *input)
{
    const struct job_spec_key *key = job_spec_key_find(section, section->variant_key);
    int r = key_take(check, section, key, NULL, input, output);

    *variant = json_get_string(output, section->variant_key, NULL);
    return r;
}

static int section_normalise(struct job_spec_check *check, const struct job_spec_section *section,
                             const char *variant, struct json_object *input,
                             struct json_object **normalised)
{
    static const struct job_spec_key object_key = {.type = JOB_SPEC_OBJECT};
    JSON_AUTO struct json_object *output = json_object_new_object();
    int r = 0;

    if (!json_object_is_type(input, json_type_object))
        return job_spec_fail_value(check, &object_key, input);
    {
        json_object_object_foreach (input, name, unused) {
            (void)unused;
            if (!job_spec_key_find(section, name))
                return fail_unknown(check, section, name);
        }
    }
    if (section->variant_key)
        r = variant_find(check, section, output, &variant, input);
    if (r < 0)
        return r;
    json_object_object_foreach (input, name, value) {
        const struct job_spec_key *key = job_spec_key_find(section, name);

        if (value && !job_spec_key_applies(section, key, variant))
            return fail_not_applicable(check, section, key, variant);
    }
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];

        if (!job_spec_key_applies(section, key, variant) ||
            (section->variant_key && strcmp(key->name, section->variant_key) == 0))
            continue;
        r = key_take(check, section, key, variant, input, output);
        if (r < 0)
            return r;
    }
    *normalised = TAKE_POINTER(output);
    return 0;
}

/* ---- whole specification ------------------------------------------------------------------- */

/* The default name of a job; borrowed. */
static const char *name_default(struct json_object *spec)
{
    struct json_object *command = json_get(spec, "command");
    const char *program, *slash;

    if (!command)
        return "job";
    if (!json_object_is_type(command, json_type_array) || json_object_array_length(command) == 0)
        return "command";
    program = json_object_get_string(json_object_array_get_idx(command, 0));
    slash = program ? strrchr(program, '/') : NULL;
    if (slash)
        program = slash + 1;
    if (!program || !*program || strlen(program) > DEFAULT_NAME_MAX || !text_is_printable(program))
        return "command";
    return program;
}

int job_spec_check_value(const char *name, struct json_object *value, struct error *error)
{
    struct job_spec_check check = {.error = error};
    const struct job_spec_key *key = job_spec_key_find(&job_spec_schema, name);
    JSON_AUTO struct json_object *normalised = NULL;

    job_spec_path_push(&check, "", name);
    return job_spec_value_normalise(&check, key, value, &normalised);
}

int job_spec_normalise(struct json_object *spec, struct json_object **normalised,
                       struct job_spec_fault *fault, struct error *error)
{
    struct job_spec_check check = {.fault = fault, .error = error};
    JSON_AUTO struct json_object *named = NULL, *made = NULL;
    bool command = job_spec_is_command(spec);
    int r;

    *normalised = NULL;
    if (fault)
        *fault = (struct job_spec_fault){0};
    if (!json_object_is_type(spec, json_type_object))
        return job_spec_fail(&check, NULL, "a job specification has to be a JSON object");
    if (!json_get(spec, "name")) {
        named = json_object_new_object();
        copy_members(named, spec);
        json_set_string(named, "name", name_default(spec));
    }
    r = section_normalise(&check, &job_spec_schema, command ? "command" : "native",
                          named ? named : spec, &made);
    if (r < 0 && !command && !json_get(spec, "model") && strcmp(check.path, "model") == 0)
        return job_spec_fail(&check, NULL, "a job needs a model and data, or a command");
    if (r == 0)
        r = command ? job_spec_rules_check_command(&check, spec, made)
                    : job_spec_rules_check(&check, spec, made);
    if (r < 0)
        return r;
    *normalised = TAKE_POINTER(made);
    return 0;
}
