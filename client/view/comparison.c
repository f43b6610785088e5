/* comparison.c: see comparison.h. */
#include "client/view/comparison.h"

#include "proto/split_rules.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

/* The values of the keys (except `left_out`) in a flat specification as text that identifies its
 * group. The caller owns it. */
static struct json_object *tuple_of(struct json_object *flat, struct json_object *keys,
                                    size_t left_out)
{
    struct json_object *tuple = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(keys); i++)
        if (i != left_out)
            json_object_array_add(
                tuple, json_object_get(json_get(
                           flat, json_object_get_string(json_object_array_get_idx(keys, i)))));
    return tuple;
}

/* How many groups the keys without `left_out` make. */
static size_t count_groups(struct json_object *flats, struct json_object *keys, size_t left_out)
{
    JSON_AUTO struct json_object *seen = json_object_new_object();

    for (size_t i = 0; i < json_object_array_length(flats); i++) {
        JSON_AUTO struct json_object *tuple =
            tuple_of(json_object_array_get_idx(flats, i), keys, left_out);

        json_set_bool(seen, json_text(tuple, NULL), true);
    }
    return (size_t)json_object_object_length(seen);
}

static bool key_differs(struct json_object *flats, const char *path)
{
    JSON_AUTO struct json_object *key = json_object_new_array();

    json_object_array_add(key, json_object_new_string(path));
    return count_groups(flats, key, SIZE_MAX) > 1;
}

/* Every path that some specification has, in the order of its first appearance. */
static struct json_object *paths_collect(struct json_object *flats)
{
    struct json_object *paths = json_object_new_object();

    for (size_t i = 0; i < json_object_array_length(flats); i++) {
        json_object_object_foreach (json_object_array_get_idx(flats, i), path, value) {
            (void)value;
            if (!json_get(paths, path))
                json_set_bool(paths, path, true);
        }
    }
    return paths;
}

/* Whether a study varies the key between repetitions of the same thing. */
static bool is_repetition(const char *path)
{
    return strcmp(path, "train.seed") == 0 || strcmp(path, SPLIT_FOLD_KEY) == 0 ||
           strcmp(path, "name") == 0;
}

/* The keys that differ, except those that tell repetitions apart. */
static struct json_object *keys_that_differ(struct json_object *flats)
{
    JSON_AUTO struct json_object *paths = paths_collect(flats);
    struct json_object *keys = json_object_new_array();

    json_object_object_foreach (paths, path, unused) {
        (void)unused;
        if (!is_repetition(path) && key_differs(flats, path))
            json_object_array_add(keys, json_object_new_string(path));
    }
    return keys;
}

static bool has_word(struct json_object *words, const char *word)
{
    for (size_t i = 0; i < json_object_array_length(words); i++)
        if (strcmp(json_object_get_string(json_object_array_get_idx(words, i)), word) == 0)
            return true;
    return false;
}

static struct json_object *words_without(struct json_object *words, struct json_object *others)
{
    struct json_object *left = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(words); i++) {
        struct json_object *word = json_object_array_get_idx(words, i);

        if (!has_word(others, json_object_get_string(word)))
            json_object_array_add(left, json_object_get(word));
    }
    return left;
}

/* Whether trainctl adds this variable from the shell by itself (spec_input.c); other variables were
 * set by a person. */
static bool comes_from_the_shell(const char *path)
{
    static const char *const inherited[] = {"PATH",         "LANG",       "VIRTUAL_ENV",
                                            "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"};

    if (strncmp(path, "shell_environment.", 18) == 0)
        return true;
    for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++)
        if (strncmp(path, "environment.", 12) == 0 && strcmp(path + 12, inherited[i]) == 0)
            return true;
    return false;
}

/* The keys that distinguish the specifications. Drops keys that follow from earlier ones, and
 * variables of the shell that a job was submitted from. */
static struct json_object *keys_find(struct json_object *flats, struct json_object *differing)
{
    struct json_object *keys = json_object_new_array();
    size_t groups;

    for (size_t i = 0; i < json_object_array_length(differing); i++) {
        struct json_object *path = json_object_array_get_idx(differing, i);

        if (!comes_from_the_shell(json_object_get_string(path)))
            json_object_array_add(keys, json_object_get(path));
    }
    groups = count_groups(flats, keys, SIZE_MAX);
    for (size_t i = json_object_array_length(keys); i-- > 0;)
        if (count_groups(flats, keys, i) == groups)
            json_object_array_del_idx(keys, i, 1);
    return keys;
}

/* Joins words as "a, b, c". */
static void words_join(struct json_object *words, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "none");
    for (size_t i = 0; i < json_object_array_length(words) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 json_object_get_string(json_object_array_get_idx(words, i)));
}

/* The path that `word` means: the same path, or one that equals it without its first part; NULL:
 * none. */
static const char *path_find(struct json_object *paths, const char *word)
{
    if (json_get(paths, word))
        return word;
    json_object_object_foreach (paths, path, unused) {
        const char *dot = strchr(path, '.');

        (void)unused;
        if (dot && strcmp(dot + 1, word) == 0)
            return path;
    }
    return NULL;
}

/* Resolves the words to paths. */
static struct json_object *keys_resolve(struct json_object *flats, struct json_object *words,
                                        struct json_object *differing, struct error *error)
{
    JSON_AUTO struct json_object *paths = paths_collect(flats);
    struct json_object *keys = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(words); i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(words, i));
        const char *path = path_find(paths, word);
        char known[256];

        if (!path && json_object_array_length(flats) > 0) {
            words_join(differing, known, sizeof known);
            error_set(error, -EINVAL,
                      "--by=%s: none of these jobs' specifications has that key; what differs "
                      "between them: %s",
                      word, known);
            json_object_put(keys);
            return NULL;
        }
        json_object_array_add(keys, json_object_new_string(path ? path : word));
    }
    return keys;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static struct json_object *metrics_find(struct json_object *jobs)
{
    static const char *const prefixes[] = {"test_", "validation_"};
    JSON_AUTO struct json_object *seen = json_object_new_object();
    struct json_object *names = json_object_new_array();

    for (size_t p = 0; p < 2 && json_object_array_length(names) == 0; p++)
        for (size_t i = 0; i < json_object_array_length(jobs); i++) {
            json_object_object_foreach (
                json_get(json_get(json_object_array_get_idx(jobs, i), "job"), "metrics"), name,
                value) {
                (void)value;
                if (strncmp(name, prefixes[p], strlen(prefixes[p])) != 0 || json_get(seen, name))
                    continue;
                json_set_bool(seen, name, true);
                json_object_array_add(names, json_object_new_string(name));
            }
        }
    return names;
}

static int metrics_check(struct json_object *jobs, struct json_object *metrics, struct error *error)
{
    for (size_t i = 0; i < json_object_array_length(metrics); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(metrics, i));
        bool found = json_object_array_length(jobs) == 0;

        for (size_t k = 0; k < json_object_array_length(jobs) && !found; k++)
            found = json_object_object_get_ex(
                json_get(json_get(json_object_array_get_idx(jobs, k), "job"), "metrics"), name,
                NULL);
        if (!found)
            return error_set(error, -EINVAL,
                             "--metric=%s: none of these jobs has that metric; `trainctl show` "
                             "lists those of a job",
                             name);
    }
    return 0;
}

/* Mean, sample deviation and range of the metric over the jobs whose value is finite, and how many
 * jobs have another value; NULL: no job has the metric. */
static struct json_object *statistics(struct json_object *members, const char *name)
{
    struct json_object *made;
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY, mean;
    int64_t count = 0, nonfinite = 0;

    for (int pass = 0; pass < 2; pass++) {
        mean = count ? sum / (double)count : 0;
        for (size_t i = 0; i < json_object_array_length(members); i++) {
            struct json_object *metrics =
                json_get(json_get(json_object_array_get_idx(members, i), "job"), "metrics");
            double value = json_get_double(metrics, name, NAN);

            if (pass == 0)
                nonfinite += isnan(value) && json_get(metrics, name);
            if (isnan(value))
                continue;
            if (pass == 1) {
                squares += (value - mean) * (value - mean);
                continue;
            }
            sum += value;
            count++;
            least = fmin(least, value);
            most = fmax(most, value);
        }
    }
    if (count == 0 && nonfinite == 0)
        return NULL;
    made = json_object_new_object();
    json_set_double(made, "mean", count ? mean : NAN);
    json_set_double(made, "deviation", count > 1 ? sqrt(squares / (double)(count - 1)) : NAN);
    json_set_double(made, "minimum", least);
    json_set_double(made, "maximum", most);
    json_set_int(made, "count", count);
    json_set_int(made, "nonfinite", nonfinite);
    return made;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Makes the group's entry in the result. */
static struct json_object *group_describe(struct json_object *members, struct json_object *flat,
                                          struct json_object *by, struct json_object *metrics)
{
    struct json_object *group = json_object_new_object(), *key = json_object_new_object();
    struct json_object *ids = json_object_new_array(), *values = json_object_new_object();

    for (size_t i = 0; i < json_object_array_length(by); i++) {
        const char *path = json_object_get_string(json_object_array_get_idx(by, i));

        json_set(key, path, json_object_get(json_get(flat, path)));
    }
    for (size_t i = 0; i < json_object_array_length(members); i++)
        json_object_array_add(
            ids, json_object_new_int64(json_get_int(
                     json_get(json_object_array_get_idx(members, i), "job"), "id", 0)));
    for (size_t i = 0; i < json_object_array_length(metrics); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(metrics, i));

        json_set(values, name, statistics(members, name));
    }
    json_set(group, "key", key);
    json_set(group, "jobs", ids);
    json_set(group, "values", values);
    return group;
}

/* Groups the jobs by the text of their tuple, in the order of first appearance. */
static struct json_object *group_jobs(struct json_object *jobs, struct json_object *flats,
                                      struct json_object *by, struct json_object *metrics)
{
    JSON_AUTO struct json_object *members = json_object_new_object();
    JSON_AUTO struct json_object *first = json_object_new_object();
    struct json_object *groups = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *flat = json_object_array_get_idx(flats, i);
        JSON_AUTO struct json_object *tuple = tuple_of(flat, by, SIZE_MAX);
        const char *text = json_text(tuple, NULL);

        if (!json_get(members, text)) {
            json_set(members, text, json_object_new_array());
            json_set(first, text, json_object_get(flat));
        }
        json_object_array_add(json_get(members, text),
                              json_object_get(json_object_array_get_idx(jobs, i)));
    }
    json_object_object_foreach (members, text, list) {
        json_object_array_add(groups, group_describe(list, json_get(first, text), by, metrics));
    }
    return groups;
}

struct json_object *comparison_new(struct json_object *jobs, struct json_object *by,
                                   struct json_object *metrics, struct error *error)
{
    JSON_AUTO struct json_object *done = json_object_new_array(), *flats = json_object_new_array();
    JSON_AUTO struct json_object *left_out = json_object_new_array(), *differing = NULL;
    struct json_object *result, *keys;

    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *entry = json_object_array_get_idx(jobs, i), *flat;
        struct json_object *job = json_get(entry, "job");

        if (strcmp(json_get_string(job, "state", ""), "done") != 0) {
            json_object_array_add(left_out, json_object_new_int64(json_get_int(job, "id", 0)));
            continue;
        }
        flat = json_object_new_object();
        json_flatten(json_get(entry, "spec"), "", flat);
        json_object_array_add(flats, flat);
        json_object_array_add(done, json_object_get(entry));
    }
    differing = keys_that_differ(flats);
    keys = by ? keys_resolve(flats, by, differing, error) : keys_find(flats, differing);
    if (!keys || (metrics && metrics_check(done, metrics, error) < 0)) {
        json_object_put(keys);
        return NULL;
    }
    result = json_object_new_object();
    json_set(result, "by", keys);
    json_set(result, "also", words_without(differing, keys));
    json_set(result, "metrics", metrics ? json_object_get(metrics) : metrics_find(done));
    json_set(result, "left_out", json_object_get(left_out));
    json_set(result, "groups",
             group_jobs(done, flats, json_get(result, "by"), json_get(result, "metrics")));
    return result;
}
