/* spec.c: see spec.h. */
#include "client/view/spec.h"

#include "base/text.h"
#include "client/view/line.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { LINE_BYTES = 4096, VALUES_SHOWN = 12 };

/* A line that text is appended to; it is cut at LINE_BYTES. */
struct text_line {
    char text[LINE_BYTES];
    size_t used;
};

static void __attribute__((format(printf, 2, 3)))
line_add(struct text_line *line, const char *format, ...)
{
    size_t room = sizeof line->text - line->used;
    va_list arguments;
    int added;

    va_start(arguments, format);
    added = vsnprintf(line->text + line->used, room, format, arguments);
    va_end(arguments);
    if (added > 0)
        line->used += (size_t)added < room ? (size_t)added : room - 1;
}

/* Appends a value as a person writes it: texts without quotes, lists with commas, objects as "key
 * value". */
static void line_add_value(struct text_line *line, struct json_object *value, int depth)
{
    const char *separator = "";

    if (json_object_is_type(value, json_type_array)) {
        size_t count = json_object_array_length(value);

        for (size_t i = 0; i < count && i < VALUES_SHOWN; i++) {
            line_add(line, "%s", i ? ", " : "");
            line_add_value(line, json_object_array_get_idx(value, i), depth + 1);
        }
        if (count > VALUES_SHOWN)
            line_add(line, ", … %zu in all", count);
    } else if (json_object_is_type(value, json_type_object)) {
        line_add(line, "%s", depth ? "(" : "");
        json_object_object_foreach (value, key, member) {
            line_add(line, "%s%s ", separator, key);
            line_add_value(line, member, depth + 1);
            separator = ", ";
        }
        line_add(line, "%s", depth ? ")" : "");
    } else {
        line_add(line, "%s", value ? json_object_get_string(value) : "none");
    }
}

/* Prints, for example, "cnn: channels 8, 16; batch_norm", or the types of a list of layers. */
static void model_print(const struct display *display, struct json_object *model)
{
    struct text_line line = {.used = 0};
    const char *separator = ": ";
    struct json_object *layers = json_get(model, "layers");

    line_add(&line, "%s", json_get_string(model, "name", "layers"));
    for (size_t i = 0; layers && i < json_object_array_length(layers); i++)
        line_add(&line, "%s%s", i ? ", " : ": ",
                 json_get_string(json_object_array_get_idx(layers, i), "type", "?"));
    if (!layers) {
        json_object_object_foreach (model, key, value) {
            bool flag = json_object_is_type(value, json_type_boolean);

            if (strcmp(key, "name") == 0 || !value || (flag && !json_object_get_boolean(value)))
                continue;
            line_add(&line, "%s%s%s", separator, key, flag ? "" : " ");
            if (!flag)
                line_add_value(&line, value, 0);
            separator = "; ";
        }
    }
    line_print(display, "model", line.text, STYLE_PLAIN);
}

/* Prints, for example, "of /home/me/code at commit 1a2b3c4d5e with changes, 34 files, 1.2 MiB". */
static void snapshot_print(const struct display *display, struct json_object *snapshot)
{
    const char *commit = json_get_string(snapshot, "commit", NULL);
    struct text_line line = {.used = 0};
    char bytes[32];

    if (!snapshot)
        return;
    line_add(&line, "of %s", json_get_string(snapshot, "folder", "?"));
    if (commit)
        line_add(&line, " at commit %.10s%s", commit,
                 json_get_bool(snapshot, "changed", false) ? " with changes (--diff)" : "");
    line_add(&line, ", %" PRId64 " file%s, %s", json_get_int(snapshot, "files", 0),
             json_get_int(snapshot, "files", 0) == 1 ? "" : "s",
             text_format_bytes((uint64_t)json_get_int(snapshot, "bytes", 0), bytes, sizeof bytes));
    line_print(display, "snapshot", line.text, STYLE_PLAIN);
}

void spec_print(const struct display *display, struct json_object *spec)
{
    struct json_object *command = json_get(spec, "command"), *model = json_get(spec, "model");
    struct text_line line = {.used = 0};

    for (size_t i = 0; command && i < json_object_array_length(command); i++)
        line_add(&line, "%s%s", i ? " " : "",
                 json_object_get_string(json_object_array_get_idx(command, i)));
    if (line.used)
        line_print(display, "command", line.text, STYLE_PLAIN);
    if (model)
        model_print(display, model);
    line_print(display, "directory", json_get_string(spec, "directory", NULL), STYLE_PLAIN);
    snapshot_print(display, json_get(spec, "snapshot"));
}

void spec_print_axes(const struct display *display, struct json_object *axes)
{
    const char *label = "varies";

    if (!axes || !json_object_is_type(axes, json_type_object))
        return;
    json_object_object_foreach (axes, key, values) {
        struct text_line line = {.used = 0};

        line_add(&line, "%s: ", key);
        line_add_value(&line, values, 0);
        line_print(display, label, line.text, STYLE_PLAIN);
    }
}

static void sentences_print(const struct display *display, const char *label,
                            struct json_object *sentences, enum style style)
{
    for (size_t i = 0; sentences && i < json_object_array_length(sentences); i++)
        line_print(display, label, json_object_get_string(json_object_array_get_idx(sentences, i)),
                   style);
}

void spec_print_plan(const struct display *display, struct json_object *plan, bool ahead)
{
    struct json_object *choices = json_get(plan, "choices");
    double epochs = json_get_double(plan, "epochs", NAN);
    double seconds = json_get_double(plan, "predicted_seconds", NAN);
    char text[64];
    struct text_line line = {.used = 0};

    if (!plan)
        return;
    line_add(&line, "%s parameters, %" PRId64 " steps of %" PRId64 " samples",
             display_format_count(json_get_double(plan, "parameters", 0), text, sizeof text),
             json_get_int(plan, "steps", 0),
             json_get_int(choices, "batch_size", 0) * json_get_int(choices, "accumulate", 1));
    if (!isnan(epochs))
        line_add(&line, ", %g epoch%s", epochs, epochs == 1 ? "" : "s");
    line_print(display, "plan", line.text, STYLE_PLAIN);
    line_printf(
        display, "memory", STYLE_PLAIN, "%s on the CPU, by the plan",
        text_format_bytes((uint64_t)json_get_int(plan, "memory_bytes", 0), text, sizeof text));
    line_printf(display, "precision", STYLE_PLAIN, "%s: %s",
                json_get_string(plan, "precision", "?"),
                json_get_string(plan, "precision_reason", "chosen by the plan"));
    if (ahead && !isnan(seconds))
        line_printf(display, "predicted", STYLE_PLAIN, "%s on the CPU",
                    text_format_duration(seconds, text, sizeof text));
    sentences_print(display, "planned", json_get(plan, "reasons"), STYLE_PLAIN);
    sentences_print(display, "warning", json_get(plan, "warnings"), STYLE_YELLOW);
}
