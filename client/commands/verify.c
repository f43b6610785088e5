/* verify.c: `trainctl verify` looks at all that this machine has: the daemon, the devices that it
 * knows, and what small models make of each device. */
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/submission/worker_run.h"
#include "client/view/line.h"
#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A device whose jobs may book less is of no use: traind-worker alone takes some 60 MiB. */
static const int64_t memory_least = 128 << 20;

static void add_problem(struct json_object *problems, const char *text)
{
    json_object_array_add(problems, json_object_new_string(text));
}

/* ---- the daemon ---- */

static void check_memory(struct json_object *device, struct json_object *problems)
{
    int64_t limit = json_get_int(device, "memory_limit", INT64_MAX);
    char text[512], total[48], left[48];

    if (limit >= memory_least)
        return;
    snprintf(
        text, sizeof text,
        "%s: HighWatermarkRatio = %g of its %s leaves %s for jobs, which is too little for "
        "any; 0.85 is usual",
        json_get_string(device, "name", ""), json_get_double(device, "high_watermark_ratio", NAN),
        text_format_bytes((uint64_t)json_get_int(device, "memory_total", 0), total, sizeof total),
        text_format_bytes((uint64_t)(limit > 0 ? limit : 0), left, sizeof left));
    add_problem(problems, text);
}

static void check_device(struct json_object *device, struct json_object *problems)
{
    const char *name = json_get_string(device, "name", "");
    const char *health = json_get_string(device, "health", "healthy");
    char text[1024];

    if (strcmp(health, "healthy") != 0) {
        snprintf(text, sizeof text, "%s is %s: %s", name, health,
                 json_get_string(device, "health_reason", "nobody said why"));
        add_problem(problems, text);
    }
    if (!json_get_bool(device, "trains", true)) {
        snprintf(text, sizeof text, "native jobs cannot train on %s: %s", name,
                 json_get_string(device, "trains_reason", "nobody said why"));
        add_problem(problems, text);
    }
    check_memory(device, problems);
}

/* What the daemon knows of its devices; NULL: there is none, which is a problem. */
static struct json_object *ask_daemon(struct invocation *invocation, struct json_object *report,
                                      struct json_object *problems)
{
    CLEANUP(varlink_reply_release) struct varlink_reply ping = {0}, reply = {0};
    struct json_object *devices;

    if (connection_call(invocation, "Ping", NULL, &ping) ||
        connection_call(invocation, "Devices", NULL, &reply)) {
        add_problem(problems, "no daemon answers; --no-daemon looks at the machine alone");
        return NULL;
    }
    json_set(report, "daemon", json_object_get(ping.parameters));
    devices = json_object_get(json_get(reply.parameters, "devices"));
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++)
        check_device(json_object_array_get_idx(devices, i), problems);
    return devices;
}

/* ---- what is calculated ---- */

static void append_all(struct json_object *list, struct json_object *more)
{
    for (size_t i = 0; more && i < json_object_array_length(more); i++)
        json_object_array_add(list, json_object_get(json_object_array_get_idx(more, i)));
}

static void run_models(const char *const *arguments, struct json_object *report,
                       struct json_object *problems)
{
    JSON_AUTO struct json_object *found = NULL;
    struct error error = {0};

    if (worker_run(arguments, NULL, &found, &error) < 0) {
        add_problem(problems, error.text);
        return;
    }
    append_all(json_get(report, "devices"), json_get(found, "devices"));
    append_all(problems, json_get(found, "problems"));
}

/* A device that the daemon trains on, and the worker that was run here cannot open. */
static void compare_device(struct json_object *device, struct json_object *found,
                           struct json_object *problems)
{
    const char *name = json_get_string(device, "name", "");
    char text[1024];

    if (!json_get_bool(device, "trains", false))
        return; /* which is told, or is not known */
    for (size_t i = 0; i < json_object_array_length(found); i++) {
        struct json_object *own = json_object_array_get_idx(found, i);

        if (strcmp(json_get_string(own, "device", ""), name) != 0 ||
            json_get_bool(own, "trains", false))
            continue;
        snprintf(text, sizeof text,
                 "%s: the daemon's jobs train on it, but your own traind-worker cannot: %s", name,
                 json_get_string(own, "reason", "nobody said why"));
        add_problem(problems, text);
    }
}

/* Simulated devices are what the daemon's configuration makes of them. */
static void run_simulated(struct json_object *devices, struct json_object *report,
                          struct json_object *problems)
{
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        struct json_object *simulation = json_get(device, "simulation");
        const char *arguments[] = {"verify",
                                   "--json",
                                   "--device",
                                   json_get_string(device, "name", ""),
                                   "--device-config",
                                   simulation ? json_object_to_json_string(simulation) : NULL,
                                   NULL};

        if (simulation)
            run_models(arguments, report, problems);
    }
}

/* ---- what is printed ---- */

static void add_row(struct table *table, struct json_object *row, double ceiling)
{
    double seconds = json_get_double(row, "step_seconds", NAN);
    double speed = json_get_double(row, "flops_per_second", NAN);
    const char *reason = json_get_string(row, "reason", NULL);
    bool agrees = json_get_bool(row, "agrees", false);
    char text[64];

    table_add(table, json_get_string(row, "model", ""), STYLE_PLAIN);
    if (reason) {
        for (int i = 0; i < 4; i++)
            table_add(table, "", STYLE_PLAIN);
        table_add(table, reason, STYLE_DIM);
        return;
    }
    snprintf(text, sizeof text, "%.3f ms", 1e3 * seconds);
    table_add(table, text, STYLE_PLAIN);
    snprintf(text, sizeof text, "%.1f", 1e-9 * speed);
    table_add(table, text, STYLE_PLAIN);
    if (speed > ceiling)
        snprintf(text, sizeof text, ">100%%");
    else
        snprintf(text, sizeof text, "%.0f%%", 100 * speed / ceiling);
    table_add(table, ceiling > 0 ? text : "", STYLE_PLAIN);
    snprintf(text, sizeof text, "%.1e", json_get_double(row, "deviation", NAN));
    table_add(table, text, STYLE_PLAIN);
    table_add(table, agrees ? "agrees" : "differs", agrees ? STYLE_PLAIN : STYLE_BOLD);
}

static void print_precision(const struct display *display, struct json_object *precision)
{
    static const struct table_column columns[] = {{"MODEL", false, 0},    {"STEP", true, 0},
                                                  {"GFLOP/S", true, 0},   {"OF PRODUCTS", true, 0},
                                                  {"DEVIATION", true, 0}, {"RESULT", false, 12}};
    struct json_object *models = json_get(precision, "models");
    double ceiling = json_get_double(precision, "ceiling_flops_per_second", NAN);
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    if (isnan(ceiling))
        printf("  %s\n", json_get_string(precision, "type", ""));
    else
        printf("  %s: products of matrices at %.1f GFLOP/s\n",
               json_get_string(precision, "type", ""), 1e-9 * ceiling);
    for (size_t i = 0; i < json_object_array_length(models); i++)
        add_row(table, json_object_array_get_idx(models, i), ceiling);
    table_print(table, display, stdout);
    table_free(table);
    putchar('\n');
}

static void print_device(const struct display *display, struct json_object *device)
{
    struct json_object *precisions = json_get(device, "precisions");
    struct json_object *versions = json_get(device, "versions");
    const char *name = json_get_string(device, "device", "");

    if (!json_get_bool(device, "trains", false)) {
        printf("%s: cannot be trained on: %s\n\n", name, json_get_string(device, "reason", ""));
        return;
    }
    printf("%s: %s, %s\n", name, json_get_string(device, "model", ""),
           json_get_string(device, "features", ""));
    if (versions) {
        printf("  versions:");
        json_object_object_foreach (versions, key, value)
            printf(" %s %s", key, json_object_get_string(value));
        putchar('\n');
    }
    for (size_t i = 0; precisions && i < json_object_array_length(precisions); i++)
        print_precision(display, json_object_array_get_idx(precisions, i));
}

/* What the daemon says of itself: a warning each. */
static void print_notes(struct json_object *daemon)
{
    struct json_object *notes = json_get(daemon, "notes");
    char shown[2048];

    for (size_t i = 0; notes && i < json_object_array_length(notes); i++)
        printf("note: %s\n",
               text_escape_controls(json_object_get_string(json_object_array_get_idx(notes, i)),
                                    shown, sizeof shown));
}

static void print_report(const struct display *display, struct json_object *report)
{
    struct json_object *daemon = json_get(report, "daemon"), *devices = json_get(report, "devices");
    struct json_object *problems = json_get(report, "problems");
    size_t count = json_object_array_length(problems);

    if (daemon)
        printf("traind %s, process %" PRId64 ", %s mode\n\n",
               json_get_string(daemon, "version", "?"), json_get_int(daemon, "pid", 0),
               json_get_string(daemon, "mode", "?"));
    for (size_t i = 0; i < json_object_array_length(devices); i++)
        print_device(display, json_object_array_get_idx(devices, i));
    print_notes(daemon);
    for (size_t i = 0; i < count; i++) {
        char shown[2048];

        printf("problem: %s\n",
               text_escape_controls(json_object_get_string(json_object_array_get_idx(problems, i)),
                                    shown, sizeof shown));
    }
    if (count == 0)
        printf("Everything is in order.\n");
}

static enum exit_status command_execute(struct invocation *invocation)
{
    static const char *const arguments[] = {"verify", "--json", NULL};
    JSON_AUTO struct json_object *report = json_object_new_object(), *devices = NULL;
    struct json_object *problems = json_object_new_array();

    json_set(report, "devices", json_object_new_array());
    if (!invocation_flag(invocation, "no-daemon"))
        devices = ask_daemon(invocation, report, problems);
    json_set(report, "problems", problems);
    run_models(arguments, report, problems);
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++)
        compare_device(json_object_array_get_idx(devices, i), json_get(report, "devices"),
                       problems);
    run_simulated(devices, report, problems);
    if (invocation->json)
        json_print(report, stdout);
    else
        print_report(&invocation->output, report);
    return json_object_array_length(problems) ? EXIT_STATUS_FAILED : EXIT_STATUS_DONE;
}

static const struct command_option verify_options[] = {
    {"no-daemon", 0, NULL, "Look at the machine alone, and ask no daemon", COMPLETE_NOTHING},
    {0},
};

const struct command command_verify = {
    .name = "verify",
    .place = 325,
    .summary = "Check the daemon, its devices, and what they calculate",
    .details =
        "Trains small models for five steps on each device, in each precision that it has, and\n"
        "compares their losses with those of the CPU in float32. Prints how fast they are beside\n"
        "products of matrices, the versions of libraries, and problems: a device that is not "
        "healthy or\ncannot train, a watermark that leaves no memory. More than 100% of products: "
        "the machine was\nbusy when they were measured, and `traind-worker calibrate` measures them "
        "again. Exit status 1:\nthere are problems.",
    .options = verify_options,
    .execute = command_execute,
};
