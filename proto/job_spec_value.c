/* job_spec_value.c: see job_spec_value.h. */
#include "proto/job_spec_value.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DESCRIPTION_MAX = 1024 };

static const double INTERVAL_SECONDS_MIN = 1e-3, INTERVAL_SECONDS_MAX = 1e9;
static const int64_t INTERVAL_COUNT_MAX = 1000000000000;

/* ---- faults -------------------------------------------------------------------------------- */

size_t job_spec_path_push(struct job_spec_check *check, const char *separator, const char *name)
{
    size_t length = strlen(check->path);
    char shown[128];

    snprintf(check->path + length, sizeof check->path - length, "%s%s", length ? separator : "",
             text_escape_controls(name, shown, sizeof shown));
    return length;
}

size_t job_spec_path_push_index(struct job_spec_check *check, size_t index)
{
    size_t length = strlen(check->path);

    snprintf(check->path + length, sizeof check->path - length, "[%zu]", index);
    return length;
}

int job_spec_fail(struct job_spec_check *check, const char *nearest, const char *format, ...)
{
    char sentence[ERROR_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (check->fault) {
        snprintf(check->fault->path, sizeof check->fault->path, "%s", check->path);
        snprintf(check->fault->nearest, sizeof check->fault->nearest, "%s", nearest ? nearest : "");
    }
    return error_set(check->error, -EINVAL, "%s", sentence);
}

/* The value as JSON, cut to fit into a sentence. */
static const char *value_show(struct json_object *value, char *output, size_t size)
{
    static const size_t longest = 60;
    const char *text = json_text(value, NULL);
    size_t length = strlen(text);

    if (length <= longest) {
        text_escape_controls(text, output, size);
    } else {
        char part[80];
        size_t whole = text_utf8_prefix(text, longest);

        memcpy(part, text, whole);
        strcpy(part + whole, "…");
        text_escape_controls(part, output, size);
    }
    return output;
}

int job_spec_fail_at(struct job_spec_check *check, const char *path, const char *sentence)
{
    check->path[0] = '\0';
    job_spec_path_push(check, "", path);
    return job_spec_fail(check, NULL, "%s", sentence);
}

int job_spec_fail_value(struct job_spec_check *check, const struct job_spec_key *key,
                        struct json_object *value)
{
    char shown[256], description[DESCRIPTION_MAX];
    const char *nearest = NULL;

    job_spec_key_describe(key, description, sizeof description);
    value_show(value, shown, sizeof shown);
    if (key->choices && json_object_is_type(value, json_type_string)) {
        size_t count = 0;

        while (key->choices[count])
            count++;
        nearest = text_nearest(json_object_get_string(value), key->choices, count);
    }
    if (nearest)
        return job_spec_fail(check, nearest, "%s is %s; it must be %s; did you mean %s?",
                             check->path, shown, description, nearest);
    return job_spec_fail(check, NULL, "%s is %s; it must be %s", check->path, shown, description);
}

/* ---- single values ------------------------------------------------------------------------- */

/* The text of a string; NULL: it is not a string, or contains a NUL. */
static const char *text_of(struct json_object *value)
{
    const char *text;

    if (!json_object_is_type(value, json_type_string))
        return NULL;
    text = json_object_get_string(value);
    return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

/* Gets an integer, also from a number with an integral value such as 1e3. */
static bool integer_of(struct json_object *value, int64_t *integer)
{
    double number;

    if (json_object_is_type(value, json_type_int)) {
        *integer = json_object_get_int64(value);
        return true;
    }
    if (!json_object_is_type(value, json_type_double))
        return false;
    number = json_object_get_double(value);
    if (!(fabs(number) <= 0x1p53) || number != floor(number))
        return false;
    *integer = (int64_t)number;
    return true;
}

static bool integer_fits(const struct job_spec_key *key, struct json_object *value,
                         int64_t *integer)
{
    return integer_of(value, integer) && *integer >= key->minimum && *integer <= key->maximum;
}

static bool number_is_within(const struct job_spec_key *key, double number)
{
    return (key->above_from ? number > key->from : number >= key->from) &&
           (key->below_to ? number < key->to : number <= key->to);
}

static bool number_fits(const struct job_spec_key *key, struct json_object *value, double *number)
{
    if (!json_object_is_type(value, json_type_double) && !json_object_is_type(value, json_type_int))
        return false;
    *number = json_object_get_double(value);
    return number_is_within(key, *number);
}

static bool duration_fits(const struct job_spec_key *key, struct json_object *value,
                          double *seconds)
{
    const char *text = text_of(value);

    if (!text)
        return number_fits(key, value, seconds);
    return text_parse_duration(text, seconds) == 0 && number_is_within(key, *seconds);
}

static bool bytes_fit(const struct job_spec_key *key, struct json_object *value, int64_t *bytes)
{
    const char *text = text_of(value);
    uint64_t size;

    if (!text)
        return integer_fits(key, value, bytes);
    if (text_parse_bytes(text, &size) < 0)
        return false;
    *bytes = (int64_t)size; /* text_parse_bytes() accepts less than 2^63 */
    return *bytes >= key->minimum && *bytes <= key->maximum;
}

static const char *choice_of(const struct job_spec_key *key, struct json_object *value)
{
    const char *text = text_of(value);

    if (key->type == JOB_SPEC_SWITCH && json_object_is_type(value, json_type_boolean))
        return json_object_get_boolean(value) ? "yes" : "no";
    for (size_t i = 0; text && key->choices[i]; i++)
        if (strcmp(key->choices[i], text) == 0)
            return key->choices[i];
    return NULL;
}

static bool text_fits(const struct job_spec_key *key, struct json_object *value, const char **text)
{
    size_t length;

    *text = text_of(value);
    if (!*text)
        return false;
    length = strlen(*text);
    if (length < key->count_minimum || length > key->count_maximum)
        return false;
    if (key->type == JOB_SPEC_ABSOLUTE_PATH && **text != '/')
        return false;
    return key->type != JOB_SPEC_NAME || text_is_printable(*text);
}

/* Whether the text has the form of the name of a head's loss. */
static bool is_metric_of_head(const char *text)
{
    static const char before[] = "validation_", after[] = "_loss";
    size_t length = strlen(text), around = sizeof before - 1 + sizeof after - 1;

    return length > around && strncmp(text, before, sizeof before - 1) == 0 &&
           strcmp(text + length - (sizeof after - 1), after) == 0 && text_is_printable(text);
}

/* ---- lists --------------------------------------------------------------------------------- */

static bool list_fits(const struct job_spec_key *key, struct json_object *value)
{
    size_t length;

    if (!json_object_is_type(value, json_type_array))
        return false;
    length = json_object_array_length(value);
    return length >= key->count_minimum && length <= key->count_maximum;
}

/* Normalises one element; NULL: it is not valid. */
static struct json_object *element_normalise(const struct job_spec_key *key,
                                             struct json_object *value, size_t index)
{
    int64_t integer;
    double number;
    const char *text;

    switch (key->type) {
    case JOB_SPEC_INTEGERS:
    case JOB_SPEC_PAIR:
        return integer_fits(key, value, &integer) ? json_object_new_int64(integer) : NULL;
    case JOB_SPEC_NUMBERS:
    case JOB_SPEC_WEIGHTS:
        return number_fits(key, value, &number) ? json_new_double(number) : NULL;
    case JOB_SPEC_CHOICES:
        text = choice_of(key, value);
        return text ? json_object_new_string(text) : NULL;
    default: /* JOB_SPEC_TEXTS */
        text = text_of(value);
        return text && (*text || index > 0) ? json_object_new_string(text) : NULL;
    }
}

static int list_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                          struct json_object *value, struct json_object **normalised)
{
    if (!list_fits(key, value))
        return job_spec_fail_value(check, key, value);
    *normalised = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        struct json_object *element = json_object_array_get_idx(value, i);
        struct json_object *valid = element_normalise(key, element, i);

        if (!valid) {
            char description[DESCRIPTION_MAX], shown[256], path[sizeof check->path];

            strcpy(path, check->path);
            job_spec_path_push_index(check, i);
            return job_spec_fail(check, NULL, "%s is %s; %s must be %s", check->path,
                                 value_show(element, shown, sizeof shown), path,
                                 job_spec_key_describe(key, description, sizeof description));
        }
        json_object_array_add(*normalised, valid);
    }
    return 0;
}

static int texts_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                           struct json_object *value, struct json_object **normalised)
{
    const char *text = text_of(value);

    if (!text || !*text || key->list_only)
        return list_normalise(check, key, value, normalised);
    *normalised = json_object_new_array();
    json_object_array_add(*normalised, json_object_new_string(text));
    return 0;
}

/* ---- operations ---------------------------------------------------------------------------- */

static const struct job_spec_operation *operation_find(const struct job_spec_key *key,
                                                       const char *text)
{
    size_t length = strcspn(text, ":");

    for (const struct job_spec_operation *o = key->operations; o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, text, length) == 0)
            return o;
    return NULL;
}

static int fail_operation_name(struct job_spec_check *check, const struct job_spec_key *key,
                               struct json_object *value)
{
    const char *names[16], *nearest;
    char word[64], shown[256];
    size_t count = 0;

    snprintf(word, sizeof word, "%.*s", (int)strcspn(text_of(value), ":"), text_of(value));
    for (const struct job_spec_operation *o = key->operations; o->name; o++)
        names[count++] = o->name;
    nearest = text_nearest(word, names, count);
    if (!nearest)
        return job_spec_fail_value(check, key, value);
    return job_spec_fail(check, nearest, "%s is %s; did you mean %s?", check->path,
                         value_show(value, shown, sizeof shown), nearest);
}

/* Whether the number after the name is valid for the operation. */
static bool operation_fits(const struct job_spec_operation *operation, const char *text)
{
    const char *number = strchr(text, ':');
    double value;
    char *end;

    if (!number || !operation->argument)
        return !number && !operation->argument;
    number++;
    if (!*number || number[strspn(number, "0123456789.eE+-")])
        return false; /* strtod() also accepts blanks, "inf" and "0x1" */
    value = strtod(number, &end);
    return !*end && value >= operation->from && value <= operation->to &&
           (!operation->whole || value == floor(value));
}

static int operations_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                                struct json_object *value, struct json_object **normalised)
{
    unsigned seen = 0;

    if (!list_fits(key, value))
        return job_spec_fail_value(check, key, value);
    *normalised = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        struct json_object *element = json_object_array_get_idx(value, i);
        const char *text = text_of(element);
        const struct job_spec_operation *operation = text ? operation_find(key, text) : NULL;
        size_t length = job_spec_path_push_index(check, i);
        unsigned bit = operation ? 1u << (operation - key->operations) : 0;

        if (text && !operation)
            return fail_operation_name(check, key, element);
        if (!text || !operation_fits(operation, text))
            return job_spec_fail_value(check, key, element);
        if (seen & bit)
            return job_spec_fail(check, NULL, "%s repeats %s; each may be given once", check->path,
                                 operation->name);
        seen |= bit;
        json_object_array_add(*normalised, json_object_new_string(text));
        check->path[length] = '\0';
    }
    return 0;
}

static int pair_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                          struct json_object *value, struct json_object **normalised)
{
    int64_t both;

    if (json_object_is_type(value, json_type_array) && json_object_array_length(value) == 2) {
        struct job_spec_key two = *key;

        two.count_minimum = two.count_maximum = 2;
        return list_normalise(check, &two, value, normalised);
    }
    if (!integer_fits(key, value, &both))
        return job_spec_fail_value(check, key, value);
    *normalised = json_object_new_array();
    json_object_array_add(*normalised, json_object_new_int64(both));
    json_object_array_add(*normalised, json_object_new_int64(both));
    return 0;
}

static int variables_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                               struct json_object *value, struct json_object **normalised)
{
    if (!json_object_is_type(value, json_type_object))
        return job_spec_fail_value(check, key, value);
    *normalised = json_object_new_object();
    json_object_object_foreach (value, name, variable) {
        const char *text = text_of(variable);
        size_t length = job_spec_path_push(check, ".", name);
        char shown[256];

        if (!*name || strchr(name, '='))
            return job_spec_fail(check, NULL,
                                 "%s cannot be a variable: its name is empty or has a \"=\"",
                                 check->path);
        if (!text)
            return job_spec_fail(check, NULL, "%s is %s; it must be a text", check->path,
                                 value_show(variable, shown, sizeof shown));
        json_set_string(*normalised, name, text);
        check->path[length] = '\0';
    }
    return 0;
}

/* Numbers in the order of the classes, numbers by the names of labels, or "balanced". */
static int weights_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                             struct json_object *value, struct json_object **normalised)
{
    const char *text = text_of(value);
    double number;

    if (json_object_is_type(value, json_type_array))
        return list_normalise(check, key, value, normalised);
    if (text && strcmp(text, "balanced") == 0) {
        *normalised = json_object_new_string(text);
        return 0;
    }
    if (!json_object_is_type(value, json_type_object))
        return job_spec_fail_value(check, key, value);
    *normalised = json_object_new_object();
    json_object_object_foreach (value, label, weight) {
        size_t length = job_spec_path_push(check, ".", label);

        if (!number_fits(key, weight, &number))
            return job_spec_fail_value(check, key, weight);
        json_set_double(*normalised, label, number);
        check->path[length] = '\0';
    }
    return 0;
}

/* ---- interval ------------------------------------------------------------------------------ */

/* Makes a normalised interval: {"epochs": 1}, {"steps": 500} or {"seconds": 600.0}. */
static struct json_object *interval_make(const char *unit, double amount)
{
    struct json_object *interval;
    bool seconds = strcmp(unit, "seconds") == 0;

    if (seconds ? amount < INTERVAL_SECONDS_MIN || amount > INTERVAL_SECONDS_MAX
                : amount < 1 || amount > (double)INTERVAL_COUNT_MAX || amount != floor(amount))
        return NULL;
    interval = json_object_new_object();
    if (seconds)
        json_set_double(interval, unit, amount);
    else
        json_set_int(interval, unit, (int64_t)amount);
    return interval;
}

static struct json_object *interval_from_text(const char *text)
{
    static const struct {
        const char *word, *unit;
    } words[] = {{"epoch", "epochs"}, {"epochs", "epochs"}, {"step", "steps"}, {"steps", "steps"}};
    char word[16];
    double amount;
    int used = 0;

    /* %lf also accepts "nan" and "0x1p3" */
    if (text[strspn(text, "0123456789. ")] &&
        sscanf(text, "%lf %15[A-Za-z] %n", &amount, word, &used) == 2 && !text[used])
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strcasecmp(words[i].word, word) == 0)
                return interval_make(words[i].unit, amount);
    /* a duration without unit means seconds; here it might as well mean epochs */
    if (!text[strspn(text, "0123456789.eE+- ")] || text_parse_duration(text, &amount) < 0)
        return NULL;
    return interval_make("seconds", amount);
}

static struct json_object *interval_from_object(struct json_object *value)
{
    static const char *const units[] = {"epochs", "steps", "seconds"};

    if (!json_object_is_type(value, json_type_object) || json_object_object_length(value) != 1)
        return NULL;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        struct json_object *amount = json_get(value, units[i]);

        if (json_object_is_type(amount, json_type_int) ||
            json_object_is_type(amount, json_type_double))
            return interval_make(units[i], json_object_get_double(amount));
    }
    return NULL;
}

/* NULL: the key does not accept a duration. */
static struct json_object *interval_normalise(const struct job_spec_key *key,
                                              struct json_object *interval)
{
    if (!key->counts_only || !interval || !json_get(interval, "seconds"))
        return interval;
    json_object_put(interval);
    return NULL;
}

/* ---- all types ----------------------------------------------------------------------------- */

static struct json_object *single_normalise(const struct job_spec_key *key,
                                            struct json_object *value)
{
    int64_t integer;
    double number;
    const char *text;
    char digits[24];

    switch (key->type) {
    case JOB_SPEC_BOOLEAN:
        return json_object_is_type(value, json_type_boolean)
                   ? json_object_new_boolean(json_object_get_boolean(value))
                   : NULL;
    case JOB_SPEC_INTEGER:
        text = key->choices ? choice_of(key, value) : NULL;
        if (text)
            return json_object_new_string(text);
        return integer_fits(key, value, &integer) ? json_object_new_int64(integer) : NULL;
    case JOB_SPEC_NUMBER:
        return number_fits(key, value, &number) ? json_new_double(number) : NULL;
    case JOB_SPEC_DURATION:
        return duration_fits(key, value, &number) ? json_new_double(number) : NULL;
    case JOB_SPEC_BYTES:
        return bytes_fit(key, value, &integer) ? json_object_new_int64(integer) : NULL;
    case JOB_SPEC_CHOICE:
    case JOB_SPEC_SWITCH:
        text = choice_of(key, value);
        return text ? json_object_new_string(text) : NULL;
    case JOB_SPEC_METRIC: /* which heads there are is a rule (job_spec_metrics.c) */
        text = choice_of(key, value);
        if (!text && (!(text = text_of(value)) || !is_metric_of_head(text)))
            return NULL;
        return json_object_new_string(text);
    case JOB_SPEC_COLUMN:
        if (integer_fits(key, value, &integer)) {
            snprintf(digits, sizeof digits, "%lld", (long long)integer);
            return json_object_new_string(digits);
        }
        return text_fits(key, value, &text) ? json_object_new_string(text) : NULL;
    case JOB_SPEC_INTERVAL:
        text = text_of(value);
        return interval_normalise(key,
                                  text ? interval_from_text(text) : interval_from_object(value));
    default: /* the texts */
        return text_fits(key, value, &text) ? json_object_new_string(text) : NULL;
    }
}

int job_spec_value_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                             struct json_object *value, struct json_object **normalised)
{
    JSON_AUTO struct json_object *made = NULL;
    int r = 0;

    switch (key->type) {
    case JOB_SPEC_TEXTS:
        r = texts_normalise(check, key, value, &made);
        break;
    case JOB_SPEC_CHOICES:
    case JOB_SPEC_INTEGERS:
    case JOB_SPEC_NUMBERS:
        r = list_normalise(check, key, value, &made);
        break;
    case JOB_SPEC_OPERATIONS:
        r = operations_normalise(check, key, value, &made);
        break;
    case JOB_SPEC_PAIR:
        r = pair_normalise(check, key, value, &made);
        break;
    case JOB_SPEC_VARIABLES:
        r = variables_normalise(check, key, value, &made);
        break;
    case JOB_SPEC_WEIGHTS:
        r = weights_normalise(check, key, value, &made);
        break;
    case JOB_SPEC_DEPENDENCIES:
        r = job_spec_dependencies_normalise(check, key, value, &made);
        break;
    default:
        made = single_normalise(key, value);
        if (!made)
            r = job_spec_fail_value(check, key, value);
        break;
    }
    *normalised = r < 0 ? NULL : TAKE_POINTER(made);
    return r;
}
