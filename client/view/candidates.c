/* candidates.c: see candidates.h. */
#include "client/view/candidates.h"

#include "base/text.h"
#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char chosen[] = "chosen";

const char *candidates_basis(const char *basis)
{
    static const struct {
        const char *basis, *words;
    } known[] = {
        {"measured", "measured here"}, {"calibration", "calibration"}, {"declared", "declared"},
        {"learnt", "earlier runs"},    {"unknown", "not known"},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].basis, basis) == 0)
            return known[i].words;
    return basis;
}

const char *candidates_chosen(struct json_object *candidates)
{
    for (size_t i = 0; candidates && i < json_object_array_length(candidates); i++) {
        struct json_object *candidate = json_object_array_get_idx(candidates, i);

        if (strcmp(json_get_string(candidate, "verdict", ""), chosen) == 0)
            return json_get_string(candidate, "device", NULL);
    }
    return NULL;
}

/* Beyond this factor a time is given as "within x4.5", below it as "±30%". */
static const double percent_factor = 2;

/* Adds a duration and its uncertainty. */
static void time_add(struct table *table, double seconds, double deviation)
{
    double factor = exp(deviation);
    char text[96], duration[48];

    if (isnan(seconds)) {
        table_add(table, "-", STYLE_PLAIN);
        return;
    }
    text_format_duration(seconds, duration, sizeof duration);
    if (factor > percent_factor)
        snprintf(text, sizeof text, "%s within x%.2g", duration, factor);
    else if (factor >= 1.01)
        snprintf(text, sizeof text, "%s ±%.0f%%", duration, 100 * (factor - 1));
    else
        snprintf(text, sizeof text, "%s", duration);
    table_add(table, text, STYLE_PLAIN);
}

static void bytes_add(struct table *table, struct json_object *candidate, const char *key,
                      const char *absent)
{
    char text[48];

    if (json_get(candidate, key))
        table_add(table,
                  text_format_bytes((uint64_t)json_get_int(candidate, key, 0), text, sizeof text),
                  STYLE_PLAIN);
    else
        table_add(table, absent, STYLE_PLAIN);
}

static void basis_add(struct table *table, struct json_object *candidate)
{
    const char *basis = json_get_string(candidate, "basis", "");
    int64_t runs = json_get_int(candidate, "runs", 0);
    char text[48];

    if (strcmp(basis, "learnt") == 0 && runs > 0)
        snprintf(text, sizeof text, "%" PRId64 " earlier run%s", runs, runs == 1 ? "" : "s");
    else
        snprintf(text, sizeof text, "%s", candidates_basis(basis));
    table_add(table, text, STYLE_PLAIN);
}

void candidates_print(struct json_object *candidates, const struct display *display)
{
    static const struct table_column columns[] = {
        {"DEVICE", false, 4}, {"TIME", false, 8}, {"STEP", true, 0},     {"RESTS ON", false, 8},
        {"MEMORY", true, 0},  {"FREE", true, 0},  {"VERDICT", false, 6}, {"WHY", false, 20},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; candidates && i < json_object_array_length(candidates); i++) {
        struct json_object *candidate = json_object_array_get_idx(candidates, i);
        const char *verdict = json_get_string(candidate, "verdict", "?");
        bool is_chosen = strcmp(verdict, chosen) == 0;

        table_add(table, json_get_string(candidate, "device", "?"),
                  is_chosen ? STYLE_BOLD : STYLE_PLAIN);
        time_add(table, json_get_double(candidate, "seconds", NAN),
                 json_get_double(candidate, "deviation", 0));
        time_add(table, json_get_double(candidate, "step_seconds", NAN), 0);
        basis_add(table, candidate);
        bytes_add(table, candidate, "memory", "?");
        bytes_add(table, candidate, "headroom", "no limit");
        table_add(table, verdict, is_chosen ? STYLE_GREEN : STYLE_PLAIN);
        table_add(table, json_get_string(candidate, "reason", ""), STYLE_PLAIN);
    }
    table_print(table, display, stdout);
    table_free(table);
}
