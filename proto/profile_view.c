/* profile_view.c: prints a profile's tables; see profile_view.h. */
#include "proto/profile_view.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

enum { HOT_LAYERS = 5 };

/* Shares of the ceiling above this are measurement errors and are not printed. */
#define CEILING_BROKEN 1.005

static void print_phases(struct json_object *profile, FILE *output)
{
    struct json_object *phases = json_get(profile, "phases");
    double total = 0;
    char text[64];

    if (!json_object_is_type(phases, json_type_object))
        return;
    json_object_object_foreach (phases, name, value) {
        (void)name;
        total += json_object_get_double(value);
    }
    fprintf(output, "\n%-12s %14s %7s\n", "phase", "whole run", "share");
    json_object_object_foreach (phases, phase, seconds) {
        double part = json_object_get_double(seconds);

        fprintf(output, "%-12s %14s %6.1f%%\n", text_escape_controls(phase, text, sizeof text),
                text_format_duration(part, (char[32]){0}, 32), total > 0 ? 100 * part / total : 0);
    }
}

/* Columns after the name: calls, ms per step, share, GFLOP/s, GB/s, share of the ceiling. */
static void print_row(struct json_object *row, const char *key, double steps, FILE *output)
{
    double seconds = json_get_double(row, "seconds", 0);
    double flops = json_get_double(row, "flops", 0), bytes = json_get_double(row, "bytes", 0);
    double ceiling = json_get_double(row, "ceiling_share", NAN);
    char name[128];

    text_escape_controls(json_get_string(row, key, "?"), name, sizeof name);
    fprintf(output, "%-34s %6lld %9.3f %6.1f%%", name, (long long)json_get_int(row, "calls", 0),
            steps > 0 ? seconds / steps * 1e3 : 0, 100 * json_get_double(row, "share", 0));
    if (seconds > 0)
        fprintf(output, " %9.2f %8.2f", flops / seconds * 1e-9, bytes / seconds * 1e-9);
    if (seconds > 0 && ceiling >= CEILING_BROKEN)
        fprintf(output, "   >100%% %s", json_get_string(row, "bound", ""));
    else if (seconds > 0 && !isnan(ceiling))
        fprintf(output, " %6.0f%% %s", 100 * ceiling, json_get_string(row, "bound", ""));
    fputc('\n', output);
}

static void print_rest(const char *name, double seconds, double total, double steps, FILE *output)
{
    fprintf(output, "%-34s %6s %9.3f %6.1f%%\n", name, "", steps > 0 ? seconds / steps * 1e3 : 0,
            total > 0 ? 100 * seconds / total : 0);
}

static void print_rows(struct json_object *profile, const char *list, const char *key, size_t most,
                       FILE *output)
{
    struct json_object *rows = json_get(profile, list);
    double steps = json_get_double(profile, "batches", 0);
    size_t count = json_object_is_type(rows, json_type_array) ? json_object_array_length(rows) : 0;

    fprintf(output, "\n%-34s %6s %9s %7s %9s %8s  of ceiling\n", key, "calls", "ms/step", "share",
            "GFLOP/s", "GB/s");
    for (size_t i = 0; i < count && i < most; i++)
        print_row(json_object_array_get_idx(rows, i), key, steps, output);
}

static bool any_ceiling_is_broken(struct json_object *profile)
{
    struct json_object *rows = json_get(profile, "operators");

    for (size_t i = 0; rows && i < json_object_array_length(rows); i++)
        if (json_get_double(json_object_array_get_idx(rows, i), "ceiling_share", 0) >=
            CEILING_BROKEN)
            return true;
    return false;
}

void profile_print(struct json_object *profile, bool layers, FILE *output)
{
    struct json_object *ceilings = json_get(profile, "ceilings");
    double steps = json_get_double(profile, "batches", 0);
    double seconds = json_get_double(profile, "seconds", 0);
    char text[256];

    fprintf(output, "%lld steps of %lld samples from step %lld on, %s each; %lld of %lld threads",
            (long long)steps, (long long)json_get_int(profile, "batch_size", 0),
            (long long)json_get_int(profile, "first_batch", 0),
            text_format_duration(steps > 0 ? seconds / steps : 0, (char[32]){0}, 32),
            (long long)json_get_int(profile, "threads_used", 0),
            (long long)json_get_int(profile, "threads", 0));
    fprintf(output, " of %s, ",
            text_escape_controls(json_get_string(profile, "model", "?"), text, sizeof text));
    fprintf(output, "%s\n",
            text_escape_controls(json_get_string(profile, "precision", "?"), text, sizeof text));
    print_phases(profile, output);
    print_rows(profile, "operators", "operator", SIZE_MAX, output);
    print_rest("waiting at barriers", json_get_double(profile, "waiting_seconds", 0), seconds,
               steps, output);
    print_rest("idle", json_get_double(profile, "idle_seconds", 0), seconds, steps, output);
    print_rows(profile, "layers", "layer", layers ? SIZE_MAX : HOT_LAYERS, output);
    if (ceilings)
        fprintf(output,
                "\nceilings of this device: %.1f GFLOP/s (products of this precision), %.1f GB/s "
                "(memory) to %.1f GB/s (cache)\n",
                json_get_double(ceilings, "flops_per_second", 0) * 1e-9,
                json_get_double(ceilings, "bytes_per_second", 0) * 1e-9,
                json_get_double(ceilings, "cache_bytes_per_second", 0) * 1e-9);
    else
        fprintf(output, "\nno ceilings: this device was not calibrated\n");
    if (ceilings && any_ceiling_is_broken(profile))
        fprintf(output, "more than 100%%: its operands lay in a nearer cache than any that was "
                        "calibrated, or the calibration ran beside other work (`traind-worker "
                        "calibrate` measures anew)\n");
}
