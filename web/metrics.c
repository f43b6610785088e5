/* metrics.c: see metrics.h. Names and units follow https://prometheus.io/docs/practices/naming/.
 * Labels hold what the machine is: devices, of which there are 64 at most, and states. No label
 * holds a job, a user or a text that a user chose, so there is a bound to the series, and nobody's
 * names are told. */
#include "web/metrics.h"

#include "base/cleanup.h"
#include "proto/varlink.h"
#include "web/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALL_MILLISECONDS = 20000
}; /* Prometheus gives up after 10 s, unless it is told otherwise */

/* ---- lines ----------------------------------------------------------------------------------- */

static void family_print(FILE *output, const char *name, const char *type, const char *help)
{
    fprintf(output, "# HELP traind_%s %s\n# TYPE traind_%s %s\n", name, help, name, type);
}

/* The value of a label, with backslashes before what would end it. */
static void label_print(FILE *output, const char *label, const char *value)
{
    fprintf(output, "%s=\"", label);
    for (; *value; value++) {
        if (*value == '\n')
            fputs("\\n", output);
        else if (*value == '\\' || *value == '"')
            fprintf(output, "\\%c", *value);
        else
            fputc(*value, output);
    }
    fputc('"', output);
}

static void value_print(FILE *output, double value)
{
    char text[JSON_DOUBLE_BYTES];

    fprintf(output, " %s\n", json_format_double(value, text, sizeof text));
}

/* A line with one label or, with `label` NULL, none. */
static void sample_print(FILE *output, const char *name, const char *label, const char *of,
                         double value)
{
    fprintf(output, "traind_%s", name);
    if (label) {
        fputc('{', output);
        label_print(output, label, of);
        fputc('}', output);
    }
    value_print(output, value);
}

/* A number or a truth; NAN: there is none. */
static double member_number(struct json_object *object, const char *member)
{
    struct json_object *value = json_get(object, member);

    if (json_object_is_type(value, json_type_boolean))
        return json_object_get_boolean(value);
    return json_get_double(object, member, NAN);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

struct metric {
    const char *name, *type, *member, *help;
};

/* Of the reply to Statistics. */
static const struct metric daemon_metrics[] = {
    {"start_time_seconds", "gauge", "started", "When the daemon started, in seconds since 1970."},
    {"jobs_waiting", "gauge", "waiting", "Jobs that wait for a device."},
    {"longest_wait_seconds", "gauge", "longest_wait_seconds",
     "How long the job has waited for a device that has waited longest; 0: none waits."},
    {"decisions_total", "counter", "decisions", "Placement decisions since the start."},
    {"decision_seconds_total", "counter", "decision_seconds",
     "Processor time of the placement decisions."},
    {"connections", "gauge", "connections", "Open connections of clients to the daemon."},
    {"calls", "gauge", "calls", "Calls that the daemon has not answered yet, this one included."},
    {"pending_requests", "gauge", "pending_requests",
     "Changes and queries that the databases have not answered yet."},
    {"database_bytes", "gauge", "database_bytes", "Room that the databases take on the disk."},
    {"disk_full", "gauge", "disk_full", "1 while the disk is too full to store anything."},
};

/* {"running": 2, …} of a member of the reply. */
static void states_print(FILE *output, struct json_object *statistics, const struct metric *metric)
{
    struct json_object *counts = json_get(statistics, metric->member);

    if (!json_object_is_type(counts, json_type_object))
        return;
    family_print(output, metric->name, metric->type, metric->help);
    json_object_object_foreach (counts, state, count)
        sample_print(output, metric->name, "state", state, json_object_get_double(count));
}

static void daemon_print(FILE *output, struct json_object *ping, struct json_object *statistics)
{
    static const struct metric live = {"jobs", "gauge", "jobs",
                                       "Jobs that have not ended, by their states."};
    static const struct metric ended = {"jobs_ended_total", "counter", "ended",
                                        "Jobs that have ended since the start, by their states."};

    family_print(output, "build_info", "gauge", "The version of the daemon.");
    sample_print(output, "build_info", "version", json_get_string(ping, "version", ""), 1);
    states_print(output, statistics, &live);
    states_print(output, statistics, &ended);
    for (size_t i = 0; i < sizeof daemon_metrics / sizeof *daemon_metrics; i++) {
        const struct metric *metric = &daemon_metrics[i];
        double value = member_number(statistics, metric->member);

        if (isnan(value))
            continue;
        family_print(output, metric->name, metric->type, metric->help);
        sample_print(output, metric->name, NULL, NULL, value);
    }
}

/* ---- devices --------------------------------------------------------------------------------- */

/* Of type Device. */
static const struct metric device_metrics[] = {
    {"device_utilisation_ratio", "gauge", "utilisation",
     "Part of the time that the device is busy."},
    {"device_memory_total_bytes", "gauge", "memory_total", "Memory of the device; 0: not known."},
    {"device_memory_used_bytes", "gauge", "memory_used", "Memory that all programs use."},
    {"device_memory_booked_bytes", "gauge", "memory_booked", "Memory that jobs have booked."},
    {"device_memory_outside_bytes", "gauge", "memory_outside",
     "Memory that programs use which are no jobs."},
    {"device_temperature_celsius", "gauge", "temperature", "Temperature of the device."},
    {"device_power_watts", "gauge", "power_watts", "Power that the device takes."},
    {"device_energy_joules_total", "counter", "energy_joules",
     "Energy that the device has taken since its driver was loaded."},
    {"device_ecc_errors_total", "counter", "ecc_errors",
     "Uncorrectable errors of the memory since the driver was loaded."},
    {"device_cpu_pressure_ratio", "gauge", "cpu_pressure",
     "Part of the last ten seconds in which a process waited for a core."},
    {"device_memory_pressure_ratio", "gauge", "memory_pressure",
     "Part of the last ten seconds in which a process waited for memory."},
};

static double device_number(struct json_object *device, const char *member)
{
    double value = member_number(device, member);

    return isnan(value) && strcmp(member, "utilisation") == 0 ? member_number(device, "cores_busy")
                                                              : value;
}

static struct json_object *device_at(struct json_object *devices, size_t index)
{
    return json_object_array_get_idx(devices, index);
}

static void device_metric_print(FILE *output, struct json_object *devices,
                                const struct metric *metric)
{
    bool begun = false;

    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        double value = device_number(device_at(devices, i), metric->member);

        if (isnan(value))
            continue;
        if (!begun)
            family_print(output, metric->name, metric->type, metric->help);
        begun = true;
        sample_print(output, metric->name, "device",
                     json_get_string(device_at(devices, i), "name", ""), value);
    }
}

static void device_info_print(FILE *output, struct json_object *devices)
{
    static const char *const members[] = {"kind", "model", "id"};

    family_print(output, "device_info", "gauge", "What the device is.");
    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        struct json_object *device = device_at(devices, i);

        fputs("traind_device_info{", output);
        label_print(output, "device", json_get_string(device, "name", ""));
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            fputc(',', output);
            label_print(output, members[m], json_get_string(device, members[m], ""));
        }
        fputc('}', output);
        value_print(output, 1);
    }
}

/* A line for each state that a device may have: 1 of the one that it has. */
static void device_health_print(FILE *output, struct json_object *devices)
{
    static const char *const states[] = {"healthy", "draining", "quarantined", "lost"};

    family_print(output, "device_health", "gauge",
                 "1 of the state that the device is in: healthy, draining, quarantined or lost.");
    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        struct json_object *device = device_at(devices, i);

        for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
            fputs("traind_device_health{", output);
            label_print(output, "device", json_get_string(device, "name", ""));
            fputc(',', output);
            label_print(output, "state", states[s]);
            fputc('}', output);
            value_print(output, strcmp(json_get_string(device, "health", ""), states[s]) == 0);
        }
    }
}

static void device_jobs_print(FILE *output, struct json_object *devices)
{
    family_print(output, "device_jobs", "gauge", "Jobs that run or start on the device.");
    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        struct json_object *device = device_at(devices, i), *jobs = json_get(device, "jobs");

        sample_print(output, "device_jobs", "device", json_get_string(device, "name", ""),
                     (double)(jobs ? json_object_array_length(jobs) : 0));
    }
}

static void devices_print(FILE *output, struct json_object *devices)
{
    if (!json_object_is_type(devices, json_type_array) || json_object_array_length(devices) == 0)
        return;
    device_info_print(output, devices);
    device_health_print(output, devices);
    device_jobs_print(output, devices);
    for (size_t i = 0; i < sizeof device_metrics / sizeof *device_metrics; i++)
        device_metric_print(output, devices, &device_metrics[i]);
}

/* ---- the text -------------------------------------------------------------------------------- */

char *web_metrics_format(struct json_object *ping, struct json_object *statistics,
                         struct json_object *devices)
{
    char *text = NULL;
    size_t size;
    FILE *output = open_memstream(&text, &size);
    bool failed;

    if (!output)
        return NULL;
    family_print(output, "up", "gauge", "Whether the daemon answers.");
    sample_print(output, "up", NULL, NULL, ping != NULL);
    if (ping) {
        daemon_print(output, ping, statistics);
        devices_print(output, json_get(devices, "devices"));
    }
    failed = ferror(output);
    if (fclose(output) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

char *web_metrics_text(const struct web_options *options)
{
    static const char *const further[] = {"io.traind.Statistics", "io.traind.Devices"};
    enum { PING, STATISTICS, DEVICES, REPLIES };
    struct varlink_reply replies[REPLIES] = {0};
    struct varlink_client *client = NULL;
    struct error error;
    int result = web_call_send(options, "Ping", NULL, false, &client, &error);
    char *text;

    for (size_t i = 0; i < REPLIES - 1 && result == 0; i++)
        result = varlink_client_send(client, further[i], NULL, false, &error);
    for (size_t i = 0; i < REPLIES && result == 0; i++) {
        result = varlink_client_receive(client, CALL_MILLISECONDS, &replies[i], &error);
        if (result == 0 && replies[i].error)
            result = -ERROR_SERVICE_REPLY;
    }
    text = result == 0
               ? web_metrics_format(replies[PING].parameters, replies[STATISTICS].parameters,
                                    replies[DEVICES].parameters)
               : web_metrics_format(NULL, NULL, NULL);
    for (size_t i = 0; i < REPLIES; i++)
        varlink_reply_release(&replies[i]);
    varlink_client_free(client);
    return text;
}
