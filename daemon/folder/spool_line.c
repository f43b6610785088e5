/* spool_line.c: the short form of a spool's line, for programs that do not use traind's own format:
 * {"step": 10, "epoch": 1, "train_loss": 0.5, "progress": 0.4}. It has no `type` and no `n`,
 * because several processes may write and could not count together. It becomes a metric or a
 * progress record. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/folder/spool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Copies the line with null in place of NaN, Infinity and -Infinity, which Python's json.dumps()
 * writes although they are not JSON. NULL: no memory. */
static char *line_without_nan(const char *line, size_t length, size_t *made)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    char *copy = malloc(length + length / 3 + 1); /* null is longer than NaN by a third */
    bool text = false;

    *made = 0;
    for (size_t i = 0; copy && i < length;) {
        const char *word = NULL;

        if (line[i] == '"')
            text = !text;
        for (size_t w = 0; !text && !word && w < sizeof words / sizeof *words; w++)
            if (length - i >= strlen(words[w]) && memcmp(line + i, words[w], strlen(words[w])) == 0)
                word = words[w];
        if (word) {
            /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): amid a line */
            memcpy(copy + *made, "null", 4);
            *made += 4;
            i += strlen(word);
            continue;
        }
        if (text && line[i] == '\\' && i + 1 < length)
            copy[(*made)++] = line[i++];
        copy[(*made)++] = line[i++];
    }
    return copy;
}

int spool_line_parse(const char *line, size_t length, struct json_object **object,
                     struct error *error)
{
    int result = json_parse(line, length, object, error);
    AUTO_FREE char *copy = NULL;
    size_t made;

    if (result == 0 || (!memmem(line, length, "NaN", 3) && !memmem(line, length, "Infinity", 8)))
        return result;
    copy = line_without_nan(line, length, &made);
    return copy ? json_parse(copy, made, object, error) : result;
}

/* Python programs also write steps as 10.0. */
static int take_step(struct json_object *value, struct json_object *made, struct error *error)
{
    double step = value && (json_object_is_type(value, json_type_int) ||
                            json_object_is_type(value, json_type_double))
                      ? json_object_get_double(value)
                      : -1;

    if (!(step >= 0) || step > 9e15 || step != floor(step))
        return error_set(error, -EINVAL, "step must be a whole number of at least 0");
    json_set_int(made, "step", (int64_t)step);
    return 0;
}

/* Leaves out null. */
static int take_number(const char *name, struct json_object *value, double least, double most,
                       struct json_object *made, struct error *error)
{
    bool number = !value || json_object_is_type(value, json_type_double) ||
                  json_object_is_type(value, json_type_int);
    double given = value && number ? json_object_get_double(value) : NAN;

    if (!number)
        return error_set(error, -EINVAL, "%.60s must be a number, not %s", name,
                         json_type_to_name(json_object_get_type(value)));
    if (given < least || given > most)
        return error_set(error, -EINVAL, "%.60s must be a number from %g to %g", name, least, most);
    if (value)
        json_set_double(made, name, given);
    return 0;
}

int spool_record_from_short_line(struct json_object *line, struct spool_record *record,
                                 struct error *error)
{
    JSON_AUTO struct json_object *made = json_object_new_object();
    struct json_object *values = json_object_new_object();
    int result = 0;

    json_set(made, "values", values);
    json_object_object_foreach (line, name, value) {
        if (strcmp(name, "step") == 0)
            result = take_step(value, made, error);
        else if (strcmp(name, "progress") == 0)
            result = take_number(name, value, 0, 1, made, error);
        else if (strcmp(name, "epoch") == 0 || strcmp(name, "time") == 0)
            result = take_number(name, value, -1e300, 1e300, made, error);
        else if (!spool_name_fits(name))
            result = error_set(error, -EINVAL,
                               "a metric's name must have 1 to %d bytes without control "
                               "characters",
                               SPOOL_NAME_MAX);
        else if (!value)
            json_set(values, name, NULL); /* not a number: stored as null */
        else
            result = take_number(name, value, -INFINITY, INFINITY, values, error);
        if (result < 0)
            return result;
    }
    if (json_object_object_length(values) > SPOOL_NUMBERS_MAX)
        return error_set(error, -EINVAL, "a line may have at most %d metrics", SPOOL_NUMBERS_MAX);
    if (json_object_object_length(values) == 0 && !json_get(made, "progress"))
        return error_set(error, -EINVAL,
                         "it has neither a metric, as in {\"step\": 10, \"train_loss\": 0.5}, nor "
                         "progress, nor the type of a record");
    if (json_object_object_length(values) > 0 && !json_get(made, "step"))
        return error_set(error, -EINVAL,
                         "step is missing, as in {\"step\": 10, \"train_loss\": 0.5}");
    *record = (struct spool_record){
        .type = json_object_object_length(values) > 0 ? SPOOL_METRIC : SPOOL_PROGRESS,
        .time = json_get_double(made, "time", clock_now()),
        .object = json_object_get(made),
    };
    return 0;
}
