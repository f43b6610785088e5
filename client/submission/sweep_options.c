/* sweep_options.c: see sweep_options.h. Commas outside quotes, brackets and braces separate the
 * values of an option. So a value may be any JSON; an object sets several keys at once. */
#include "client/submission/sweep_options.h"

#include "proto/split_rules.h"

#include <errno.h>
#include <string.h>

enum { POINTS_FILE_MAX = 1024 * 1024 };

/* The length of the value at the beginning of `text`. */
static size_t value_length(const char *text)
{
    int depth = 0;
    bool quoted = false;
    size_t i = 0;

    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): axis_begin() found it */
    for (; text[i]; i++) {
        if (quoted) {
            i += text[i] == '\\' && text[i + 1];
            quoted = text[i] != '"';
        } else if (text[i] == '"') {
            quoted = true;
        } else if (strchr("[{", text[i])) {
            depth++;
        } else if (strchr("]}", text[i])) {
            depth--;
        } else if (text[i] == ',' && depth <= 0) {
            break;
        }
    }
    return i;
}

/* Parses JSON; other text becomes a string. */
static struct json_object *value_parse(const char *text, size_t length)
{
    struct json_object *value = NULL;

    if (json_parse(text, length, &value, NULL) < 0)
        value = json_object_new_string_len(text, (int)length);
    return value;
}

/* Parses "a.b=…": the path becomes a key of `axes`; `*values` is the rest. */
static int axis_begin(const char *option, struct json_object *axes, const char *example,
                      char **path, const char **values, struct error *error)
{
    const char *sign = strchr(option, '=');

    if (!sign || sign == option)
        return error_set(error, -EINVAL, "a sweep looks like %s", example);
    *path = strndup(option, (size_t)(sign - option));
    *values = sign + 1;
    if (json_object_object_get_ex(axes, *path, NULL))
        return error_set(error, -EINVAL, "%s is given twice", *path);
    return 0;
}

static int grid_add(const char *option, struct json_object *axes, struct error *error)
{
    struct json_object *values;
    AUTO_FREE char *path = NULL;
    const char *at = NULL;
    int r = axis_begin(option, axes, "train.seed=1,2,3", &path, &at, error);

    if (r < 0)
        return r;
    values = json_object_new_array();
    json_set(axes, path, values);
    for (bool more = true; more;) {
        size_t length = value_length(at);

        if (length == 0)
            return error_set(error, -EINVAL, "a value is missing in \"%s\"", option);
        json_object_array_add(values, value_parse(at, length));
        more = at[length] == ',';
        at += length + more;
    }
    return 0;
}

/* Adds, for example, "train.optimizer.lr=log_uniform:1e-5,0.1". */
static int random_add(const char *option, struct json_object *axes, struct error *error)
{
    static const char example[] = "train.optimizer.lr=log_uniform:1e-5,0.1";
    struct json_object *distribution;
    AUTO_FREE char *path = NULL, *assignment = NULL;
    const char *at = NULL, *colon;
    int r = axis_begin(option, axes, example, &path, &at, error);

    if (r < 0)
        return r;
    colon = strchr(at, ':');
    if (!colon)
        return error_set(error, -EINVAL, "a draw looks like %s", example);
    if (asprintf(&assignment, "%.*s=%s", (int)(colon - at), at, colon + 1) < 0)
        return error_set(error, -ENOMEM, "not enough memory for the sweep");
    distribution = json_object_new_object();
    json_set(axes, path, distribution);
    return grid_add(assignment, distribution, error);
}

static int each_option(const struct invocation *invocation, const char *name,
                       int (*add)(const char *option, struct json_object *axes,
                                  struct error *error),
                       struct json_object *axes, struct error *error)
{
    const char *option;

    for (size_t at = 0; (option = invocation_option_next(invocation, name, &at));) {
        int r = add(option, axes, error);

        if (r < 0)
            return error_prefix(error, "--%s", name);
    }
    return 0;
}

/* Adds --count and --sample-seed; without --random they are an error. */
static int numbers_add(const struct invocation *invocation, struct json_object *sweep,
                       struct error *error)
{
    int64_t count = 0, seed = 0;

    if (invocation_option_integer(invocation, "count", 1, &count) ||
        invocation_option_integer(invocation, "sample-seed", 0, &seed))
        return -EINVAL;
    if (count == 0)
        return error_set(error, -EINVAL, "--random: --count says how many points to draw");
    json_set_int(sweep, "count", count);
    json_set_int(sweep, "seed", seed);
    return 0;
}

/* Reads the JSON of --search: the option itself, or a file. */
static int search_parse(const char *option, struct json_object **search, struct error *error)
{
    int r = *option == '{' ? json_parse(option, strlen(option), search, error)
                           : json_parse_file(option, POINTS_FILE_MAX, search, error);

    return r < 0 ? error_prefix(error, "--search") : 0;
}

/* Adds the axis of --folds, and sets their number in each specification. */
static int folds_add(const struct invocation *invocation, struct json_object *specs,
                     struct json_object *axes, struct error *error)
{
    struct json_object *numbers = json_object_new_array();
    int64_t folds = 0;

    if (json_object_object_get_ex(axes, SPLIT_FOLD_KEY, NULL)) {
        json_object_put(numbers);
        return error_set(error, -EINVAL,
                         "--folds makes the sweep over " SPLIT_FOLD_KEY
                         "; leave it out of --sweep");
    }
    json_set(axes, SPLIT_FOLD_KEY, numbers);
    if (invocation_option_integer(invocation, "folds", 2, &folds))
        return -EINVAL;
    if (folds > SPLIT_FOLDS_MAX)
        return error_set(error, -EINVAL, "--folds is a number from 2 to %d", SPLIT_FOLDS_MAX);
    for (int64_t fold = 0; fold < folds; fold++)
        json_object_array_add(numbers, json_object_new_int64(fold));
    for (size_t i = 0; i < json_object_array_length(specs); i++) {
        struct json_object *data = json_get(json_object_array_get_idx(specs, i), "data");
        struct json_object *split = json_get(data, "split");

        if (!data)
            return error_set(error, -EINVAL,
                             "--folds is for native jobs, whose specification has data");
        if (!split)
            json_set(data, "split", split = json_object_new_object());
        json_set_int(split, "folds", folds);
    }
    return 0;
}

int sweep_options_read(const struct invocation *invocation, struct json_object *specs,
                       struct json_object **sweep, struct error *error)
{
    const char *points = invocation_option(invocation, "points");
    const char *search = invocation_option(invocation, "search");
    bool folds = invocation_option(invocation, "folds") != NULL;
    bool grid = folds || invocation_option(invocation, "sweep");
    bool random = invocation_option(invocation, "random") != NULL;
    JSON_AUTO struct json_object *made = json_object_new_object();
    struct json_object *axes = NULL;
    int r = 0;

    *sweep = NULL;
    if (grid + random + (points != NULL) + (search != NULL) > 1)
        return error_set(error, -EINVAL, "%s, --random, --points and --search exclude each other",
                         folds ? "--folds" : "--sweep");
    if (!random &&
        (invocation_option(invocation, "count") || invocation_option(invocation, "sample-seed")))
        return error_set(error, -EINVAL, "--count and --sample-seed belong to --random");
    if (points) {
        r = json_parse_file(points, POINTS_FILE_MAX, &axes, error);
        json_set(made, "list", axes);
    } else if (search) {
        r = search_parse(search, &axes, error);
        json_set(made, "search", axes);
    } else if (grid || random) {
        axes = json_object_new_object();
        json_set(made, grid ? "grid" : "random", axes);
        r = grid ? each_option(invocation, "sweep", grid_add, axes, error)
                 : each_option(invocation, "random", random_add, axes, error);
        if (r == 0 && folds)
            r = folds_add(invocation, specs, axes, error);
        if (r == 0 && random)
            r = numbers_add(invocation, made, error);
    }
    if (r == 0 && axes)
        *sweep = json_object_get(made);
    return r;
}
