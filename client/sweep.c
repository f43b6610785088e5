/* sweep.c: see sweep.h. The values of an option are separated by commas outside of quotes, brackets
 * and braces, so that a value may be any JSON: an object sets several keys at once. */
#include "client/sweep.h"

#include "proto/job_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEP_SPECS_MAX = 100000 };

/* The length of the value at the beginning of `text`. */
static size_t value_length(const char *text)
{
    int depth = 0;
    bool quoted = false;
    size_t i = 0;

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

/* Appends a copy of `spec` with "path=value" set. */
static int variant_append(struct json_object *spec, const char *assignment, struct json_object *to,
                          struct error *error)
{
    struct json_object *copy = NULL;

    if (json_object_deep_copy(spec, &copy, NULL) < 0)
        return error_set(error, -ENOMEM, "not enough memory for the sweep");
    json_object_array_add(to, copy);
    return job_spec_set(copy, assignment, error);
}

/* Appends a copy of `spec` for each value of the option. */
static int spec_sweep(struct json_object *spec, const char *option, struct json_object *to,
                      struct error *error)
{
    const char *sign = strchr(option, '='), *at = sign + 1;
    int r = 0;

    for (bool more = true; more && r == 0;) {
        size_t length = value_length(at);
        AUTO_FREE char *assignment = NULL;

        if (length == 0)
            return error_set(error, -EINVAL, "a value is missing in \"%s\"", option);
        if (asprintf(&assignment, "%.*s%.*s", (int)(sign + 1 - option), option, (int)length, at) <
            0)
            return error_set(error, -ENOMEM, "not enough memory for the sweep");
        r = variant_append(spec, assignment, to, error);
        more = at[length] == ',';
        at += length + more;
        if (r == 0 && json_object_array_length(to) > SWEEP_SPECS_MAX)
            r = error_set(error, -E2BIG, "these are more than %d jobs", SWEEP_SPECS_MAX);
    }
    return r;
}

int specs_sweep(const struct invocation *invocation, struct json_object **specs,
                struct error *error)
{
    const char *option;

    for (size_t at = 0; (option = invocation_option_next(invocation, "sweep", &at));) {
        struct json_object *swept = json_object_new_array();
        const char *sign = strchr(option, '=');
        int r = 0;

        if (!sign || sign == option)
            r = error_set(error, -EINVAL, "a sweep looks like train.seed=1,2,3");
        for (size_t i = 0; r == 0 && i < json_object_array_length(*specs); i++)
            r = spec_sweep(json_object_array_get_idx(*specs, i), option, swept, error);
        json_object_put(*specs);
        *specs = swept;
        if (r < 0)
            return error_prefix(error, "--sweep");
    }
    return 0;
}
