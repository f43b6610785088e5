/* config.c: the table of configuration keys, and reading files against it. */
#include "daemon/config.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <ini.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum value_type {
    VALUE_TEXT,
    VALUE_PATH,
    VALUE_SWITCH,
    VALUE_KIND,
    VALUE_COUNT,
    VALUE_RATIO,
    VALUE_DURATION,
    VALUE_BYTES
};

#define DEVICE_SECTION "Device" /* written [Device NAME] */
#define LOW_WATERMARK_DEFAULT "0.75"

static const struct key {
    const char *section, *name;
    enum value_type type;
    size_t offset;           /* in struct config, of a device in struct device_config */
    const char *fallback;    /* as it would stand in the file; of a number "": the general rule */
    double minimum, maximum; /* of numbers, in the base unit */
    const char *help;
} keys[] = {
    {"Access", "AdminGroup", VALUE_TEXT, offsetof(struct config, admin_group), "", 0, 0,
     "Group whose members may see and cancel every user's jobs, as root may. Empty: none."},
    {"Access", "ConnectionsPerUser", VALUE_COUNT, offsetof(struct config, connections_per_user),
     "64", 1, 512, "Connections that one user may have open at the same time."},
    {"Access", "JobsPerUser", VALUE_COUNT, offsetof(struct config, jobs_per_user), "100000", 1, 1e9,
     "Jobs of one user that have not ended. Does not bind administrators."},
    {"Access", "MessageTimeout", VALUE_DURATION, offsetof(struct config, message_timeout_seconds),
     "10 s", 0.1, 3600, "How long a client that has sent part of a message may take for its rest."},
    {"Jobs", "CpuSlots", VALUE_COUNT, offsetof(struct config, cpu_slots), "1", 1, 1024,
     "Jobs that run on the CPU at the same time; they share its cores."},
    {"Jobs", "Calibrate", VALUE_SWITCH, offsetof(struct config, calibrate), "yes", 0, 0,
     "Whether a plan measures the CPU, for some ten seconds, and each GPU that it plans for, where "
     "their speed is not known yet (or libraries and driver have changed) and nothing runs there."},
    {"Jobs", "RetryLimit", VALUE_COUNT, offsetof(struct config, retry_limit), "3", 0, 1000,
     "How often a job that crashed is started again, unless its specification says otherwise "
     "(retry.limit)."},
    {"Jobs", "RetryBackoff", VALUE_DURATION, offsetof(struct config, retry_backoff_seconds), "1 s",
     0, 86400, "Pause before the first retry; it doubles with each further one (retry.backoff)."},
    {"Jobs", "SweepPointsMax", VALUE_COUNT, offsetof(struct config, sweep_points_max), "100000", 1,
     1e9, "Jobs that one sweep may stand for."},
    {"Jobs", "DevicesPerUser", VALUE_COUNT, offsetof(struct config, devices_per_user), "0", 0, 1024,
     "Devices that the jobs of one user may run on at the same time. 0: no limit."},
    {"Jobs", "Shares", VALUE_TEXT, offsetof(struct config, shares), "", 0, 0,
     "Weights of users where several want the same devices, such as \"alice:2 bob:0.5\"; everybody "
     "else has 1."},
    {"Jobs", "StopGrace", VALUE_DURATION, offsetof(struct config, stop_grace_seconds), "30 s", 0,
     3600, "Time for a job that is stopped to write its checkpoint, before it is killed."},
    {"Jobs", "MoveAfter", VALUE_DURATION, offsetof(struct config, move_after_seconds), "20 s", 0,
     86400,
     "How long a job runs before it may be moved to another device, or stopped for one that gains "
     "more from its device; both cost it a restart."},
    {"Jobs", "HighWatermarkRatio", VALUE_RATIO, offsetof(struct config, high_watermark_ratio),
     "0.85", 0, 1,
     "Part of a device's memory that jobs and other programs together may fill. 0: no limit."},
    /* Between the two lies what programs outside may take before a job has to leave: without a gap
     * the next small job fills the device up to the mark again, and each of their allocations moves
     * one. A tenth of the memory is that gap. */
    {"Jobs", "LowWatermarkRatio", VALUE_RATIO, offsetof(struct config, low_watermark_ratio),
     LOW_WATERMARK_DEFAULT, 0, 1,
     "Part of a device's memory beyond which no further job joins those that run there. 0: no "
     "limit but the high one."},
    {"Notify", "IdleCommand", VALUE_TEXT, offsetof(struct config, idle_command), "", 0, 0,
     "Program and arguments, separated by spaces, that run when the last job has ended: as "
     "traind's "
     "own user, without a shell, for 5 minutes at most. Empty: none."},
    {"Checkpoints", "DatabaseLimit", VALUE_BYTES, offsetof(struct config, database_limit_bytes),
     "64 MiB", 0, 1e12,
     "Larger checkpoints stay files in the job's folder; smaller ones are kept in "
     "checkpoints.db."},
    {"Nvidia", "Library", VALUE_TEXT, offsetof(struct config, nvidia_library), "libnvidia-ml.so.1",
     0, 0,
     "NVIDIA's management library, by which GPUs are found; it comes with the driver and is loaded "
     "at run time. Empty: GPUs are not looked for."},
    {"Nvidia", "Backend", VALUE_TEXT, offsetof(struct config, nvidia_backend), "installed", 0, 0,
     "The plugin by which native jobs train on GPUs: `installed`, the one beside traind-worker, or "
     "an absolute path. Empty: none does."},
    {"Nvidia", "WarmWorkers", VALUE_COUNT, offsetof(struct config, warm_workers), "0", 0, 16,
     "Workers that wait on each GPU with its context open, so that native jobs begin at once. Each "
     "holds some 530 MiB of its memory, which is booked as in use by others."},
    {DEVICE_SECTION, "Kind", VALUE_KIND, offsetof(struct device_config, kind), "", 0, 0,
     "Of a device that is neither `cpu` nor `cuda:N`: `simulated`, one that computes on the CPU "
     "with a memory and a clock of its own."},
    {DEVICE_SECTION, "Enabled", VALUE_SWITCH, offsetof(struct device_config, enabled), "yes", 0, 0,
     "Whether jobs are placed on it."},
    {DEVICE_SECTION, "Slots", VALUE_COUNT, offsetof(struct device_config, slots), "", 0, 1024,
     "Jobs that run on it at the same time; 0: only its memory limits them. Empty: CpuSlots on the "
     "CPU, elsewhere 1."},
    {DEVICE_SECTION, "HighWatermarkRatio", VALUE_RATIO,
     offsetof(struct device_config, high_watermark_ratio), "", 0, 1,
     "As in [Jobs], for this device. Empty: that one."},
    {DEVICE_SECTION, "LowWatermarkRatio", VALUE_RATIO,
     offsetof(struct device_config, low_watermark_ratio), "", 0, 1,
     "As in [Jobs], for this device. Empty: that one."},
    {DEVICE_SECTION, "Speed", VALUE_RATIO, offsetof(struct device_config, speed), "1", 1e-3, 1e6,
     "Arithmetic of a simulated device, times this CPU's."},
    {DEVICE_SECTION, "Bandwidth", VALUE_RATIO, offsetof(struct device_config, bandwidth), "0", 0,
     1e6, "Memory bandwidth of a simulated device, times this CPU's. 0: the same as Speed."},
    {DEVICE_SECTION, "LaunchLatency", VALUE_DURATION,
     offsetof(struct device_config, launch_seconds), "0", 0, 60,
     "Time that each kernel takes to start on a simulated device."},
    {DEVICE_SECTION, "Memory", VALUE_BYTES, offsetof(struct device_config, memory), "8 GiB", 1,
     1e15, "Memory of a simulated device."},
    {DEVICE_SECTION, "Calibration", VALUE_PATH, offsetof(struct device_config, calibration), "", 0,
     0,
     "File with the speeds of this CPU that those of a simulated device are multiples of, as "
     "`traind-worker calibrate` prints them. Empty: those that are kept for the job's user, or "
     "else "
     "measured once."},
    {DEVICE_SECTION, "OutsideFile", VALUE_PATH, offsetof(struct device_config, outside_file), "", 0,
     0,
     "File with a number of bytes: what programs outside hold of a simulated device's memory. "
     "Read anew when it changes; without the file nobody holds any."},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

static const char *unit_of(enum value_type type)
{
    switch (type) {
    case VALUE_COUNT:
        return "a whole number";
    case VALUE_RATIO:
        return "a number";
    case VALUE_PATH:
        return "an absolute path";
    case VALUE_SWITCH:
        return "yes or no";
    case VALUE_KIND:
        return "a kind of device (\"cpu\", \"cuda\", \"simulated\")";
    case VALUE_DURATION:
        return "a duration (\"500 ms\", \"10 s\", \"5 min\")";
    case VALUE_BYTES:
        return "a size (\"64 MiB\", \"1G\")";
    default:
        return "text";
    }
}

/* ---- values ------------------------------------------------------------------------------------
 */

static int parse_number(const struct key *key, const char *text, double *number)
{
    char *end;
    uint64_t bytes;

    switch (key->type) {
    case VALUE_DURATION:
        return text_parse_duration(text, number);
    case VALUE_BYTES:
        if (text_parse_bytes(text, &bytes) < 0)
            return -EINVAL;
        *number = (double)bytes;
        return 0;
    default:
        *number = strtod(text, &end);
        if (end == text || *end || !isfinite(*number) ||
            (key->type == VALUE_COUNT && *number != floor(*number)))
            return -EINVAL;
        return 0;
    }
}

static bool is_text(const struct key *key)
{
    return key->type == VALUE_TEXT || key->type == VALUE_PATH;
}

static bool is_device_key(const struct key *key)
{
    return strcmp(key->section, DEVICE_SECTION) == 0;
}

static int refuse_value(const struct key *key, const char *text, struct error *error)
{
    return error_set(error, -EINVAL, "%s has to be %s, not \"%s\"", key->name, unit_of(key->type),
                     text);
}

static int set_text(const struct key *key, const char *text, char **place, struct error *error)
{
    char *copy;

    if (key->type == VALUE_PATH && *text && *text != '/')
        return refuse_value(key, text, error);
    if (!(copy = strdup(text)))
        return error_set(error, -ENOMEM, "no memory left");
    free(*place);
    *place = copy;
    return 0;
}

static int set_switch(const struct key *key, const char *text, bool *place, struct error *error)
{
    static const char *const words[] = {"no", "yes", "false", "true", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0) {
            *place = i % 2;
            return 0;
        }
    return refuse_value(key, text, error);
}

static int set_kind(const struct key *key, const char *text, enum device_kind *place,
                    struct error *error)
{
    int kind = device_kind_from_string(text);

    if (kind < 0)
        return refuse_value(key, text, error);
    *place = (enum device_kind)kind;
    return 0;
}

/* `base` is a struct config, of a device's key a struct device_config. */
static int set_value(void *base, const struct key *key, const char *text, struct error *error)
{
    void *place = (char *)base + key->offset;
    bool general = !*text && !*key->fallback; /* of a number: back to the general rule */
    double number = 0;

    if (is_text(key))
        return set_text(key, text, place, error);
    if (key->type == VALUE_SWITCH)
        return set_switch(key, text, place, error);
    if (key->type == VALUE_KIND)
        return set_kind(key, text, place, error);
    if (!general && parse_number(key, text, &number) < 0)
        return refuse_value(key, text, error);
    if (!general && (number < key->minimum || number > key->maximum))
        return error_set(error, -ERANGE, "%s has to lie between %g and %g, not \"%s\"", key->name,
                         key->minimum, key->maximum, text);
    if (key->type == VALUE_COUNT)
        *(int64_t *)place = general ? -1 : (int64_t)number;
    else if (key->type == VALUE_BYTES)
        *(uint64_t *)place = (uint64_t)number;
    else
        *(double *)place = general ? NAN : number;
    return 0;
}

void config_init(struct config *config)
{
    *config = (struct config){0};
    for (int i = 0; i < KEY_COUNT; i++)
        if (!is_device_key(&keys[i]))
            set_value(config, &keys[i], keys[i].fallback, NULL);
}

void config_release(struct config *config)
{
    for (int i = 0; i < KEY_COUNT; i++)
        if (is_text(&keys[i]) && !is_device_key(&keys[i]))
            free(*(char **)((char *)config + keys[i].offset));
    for (size_t i = 0; i < config->device_count; i++) {
        free(config->devices[i].name);
        free(config->devices[i].calibration);
        free(config->devices[i].outside_file);
    }
    free(config->devices);
    *config = (struct config){0};
}

/* ---- devices -----------------------------------------------------------------------------------
 */

const struct device_config *config_device(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->device_count; i++)
        if (strcmp(config->devices[i].name, name) == 0)
            return &config->devices[i];
    return NULL;
}

double config_high_watermark(const struct config *config, const struct device_config *device)
{
    return device && !isnan(device->high_watermark_ratio) ? device->high_watermark_ratio
                                                          : config->high_watermark_ratio;
}

double config_low_watermark(const struct config *config, const struct device_config *device)
{
    double high = config_high_watermark(config, device);
    double low = device && !isnan(device->low_watermark_ratio) ? device->low_watermark_ratio
                                                               : config->low_watermark_ratio;

    return high > 0 && low > high ? high : low;
}

enum { NAME_LIMIT = 31 }; /* the engine's; inih cuts sections at 49 bytes */

/* The kind that a name stands for; -EINVAL of a bad name. */
static int kind_of_name(const char *name, enum device_kind *kind, struct error *error)
{
    char escaped[256];
    size_t digits;

    text_escape_controls(name, escaped, sizeof escaped);
    if (!*name || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "-_.:") != strlen(name))
        return error_set(error, -EINVAL,
                         "the name of a device has letters, digits and \"-_.:\", not \"%s\"",
                         escaped);
    if (strlen(name) > NAME_LIMIT)
        return error_set(error, -EINVAL, "the name of a device has at most %d characters",
                         NAME_LIMIT);
    *kind = strcmp(name, "cpu") == 0 ? DEVICE_CPU : DEVICE_SIMULATED;
    if (strncmp(name, "cuda:", 5) != 0)
        return 0;
    digits = strspn(name + 5, "0123456789");
    if (digits == 0 || name[5 + digits])
        return error_set(error, -EINVAL, "\"cuda:\" stands before a number, as in \"cuda:0\"");
    *kind = DEVICE_CUDA;
    return 0;
}

/* Finds or adds the device of a section [Device NAME]; its kind is that of its name. */
static struct device_config *find_or_add_device(struct config *config, const char *name,
                                                struct error *error)
{
    struct device_config *devices = (struct device_config *)config_device(config, name);
    struct device_config device = {0};

    if (devices)
        return devices;
    if (kind_of_name(name, &device.kind, error) < 0)
        return NULL;
    devices = reallocarray(config->devices, config->device_count + 1, sizeof *devices);
    if (!devices || !(device.name = strdup(name))) {
        config->devices = devices ? devices : config->devices;
        error_set(error, -ENOMEM, "no memory left");
        return NULL;
    }
    for (int i = 0; i < KEY_COUNT; i++)
        if (is_device_key(&keys[i]) && keys[i].type != VALUE_KIND)
            set_value(&device, &keys[i], keys[i].fallback, NULL);
    device.kind_is_open = device.kind == DEVICE_SIMULATED;
    config->devices = devices;
    devices[config->device_count] = device;
    return &devices[config->device_count++];
}

/* ---- files -------------------------------------------------------------------------------------
 */

struct reading {
    struct config *config;
    const char *path;
    FILE *file;
    int line;       /* inih hands out one line after the other, but not their numbers */
    int ratio_line; /* the last one with a ratio of [Jobs] */
    int result;
    struct error *error;
};

static char *read_line(char *line, int size, void *data)
{
    struct reading *reading = data;
    char *read = fgets(line, size, reading->file);

    reading->line += read != NULL;
    if (read && !strchr(line, '\n') && !feof(reading->file) && reading->result == 0)
        reading->result = error_set(reading->error, -EINVAL, "%s:%d: the line is too long",
                                    reading->path, reading->line);
    return read;
}

static const char *nearest_name(const char *section, const char *word)
{
    const char *names[KEY_COUNT];
    size_t count = 0;

    for (int i = 0; i < KEY_COUNT; i++)
        if (!section || strcmp(keys[i].section, section) == 0)
            names[count++] = section ? keys[i].name : keys[i].section;
    return text_nearest(word, names, count);
}

static int refuse(struct reading *reading, const char *what, const char *word, const char *nearest)
{
    char escaped[256];

    reading->result =
        error_set(reading->error, -EINVAL, "%s:%d: there is no %s \"%s\"%s%s%s", reading->path,
                  reading->line, what, text_escape_controls(word, escaped, sizeof escaped),
                  nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    return 0;
}

static int refuse_line(struct reading *reading)
{
    error_prefix(reading->error, "%s:%d", reading->path, reading->line);
    return 0;
}

/* Only the kind that the name says, and what a simulated device alone has only of one. */
static int check_device_key(const struct key *key, const char *value,
                            const struct device_config *device, struct error *error)
{
    static const size_t simulated_alone[] = {offsetof(struct device_config, speed),
                                             offsetof(struct device_config, bandwidth),
                                             offsetof(struct device_config, launch_seconds),
                                             offsetof(struct device_config, memory),
                                             offsetof(struct device_config, calibration),
                                             offsetof(struct device_config, outside_file)};
    const char *kind = device_kind_to_string(device->kind);

    if (key->type == VALUE_KIND && strcmp(value, kind) != 0)
        return error_set(error, -EINVAL,
                         "the kind of the device \"%s\" is %s: \"cpu\" and \"cuda:N\" are real "
                         "devices, any other name is a simulated one",
                         device->name, kind);
    for (size_t i = 0; i < sizeof simulated_alone / sizeof *simulated_alone; i++)
        if (key->offset == simulated_alone[i] && device->kind != DEVICE_SIMULATED)
            return error_set(error, -EINVAL, "%s is for simulated devices; \"%s\" is a real one",
                             key->name, device->name);
    return 0;
}

static int take_device_value(struct reading *reading, const char *device_name, const char *name,
                             const char *value)
{
    struct device_config *device = find_or_add_device(reading->config, device_name, reading->error);

    if (!device) {
        reading->result = -EINVAL;
        return refuse_line(reading);
    }
    for (int i = 0; i < KEY_COUNT; i++) {
        if (!is_device_key(&keys[i]) || strcmp(keys[i].name, name) != 0)
            continue;
        if (device->line == 0 || keys[i].type == VALUE_RATIO)
            device->line = reading->line;
        reading->result = check_device_key(&keys[i], value, device, reading->error);
        if (reading->result == 0)
            reading->result = set_value(device, &keys[i], value, reading->error);
        if (keys[i].type == VALUE_KIND)
            device->kind_is_open = false;
        return reading->result == 0 ? 1 : refuse_line(reading);
    }
    return refuse(reading, "key", name, nearest_name(DEVICE_SECTION, name));
}

/* inih's handler: 1 to go on, 0 for an error. */
static int take_value(void *data, const char *section, const char *name, const char *value)
{
    struct reading *reading = data;
    size_t length = strlen(DEVICE_SECTION);
    bool section_known = false;

    if (reading->result < 0)
        return 0;
    if (strncmp(section, DEVICE_SECTION, length) == 0 && section[length] == ' ')
        return take_device_value(reading, section + length + 1 + strspn(section + length + 1, " "),
                                 name, value);
    for (int i = 0; i < KEY_COUNT; i++) {
        if (is_device_key(&keys[i]) || strcmp(keys[i].section, section) != 0)
            continue;
        section_known = true;
        if (strcmp(keys[i].name, name) != 0)
            continue;
        if (keys[i].type == VALUE_RATIO)
            reading->ratio_line = reading->line;
        reading->result = set_value(reading->config, &keys[i], value, reading->error);
        return reading->result == 0 ? 1 : refuse_line(reading);
    }
    if (!section_known)
        return refuse(reading, "section", section, nearest_name(NULL, section));
    return refuse(reading, "key", name, nearest_name(section, name));
}

/* ---- what only the whole file shows ------------------------------------------------------------
 */

/* `device` may be NULL. A low ratio that is the default gives way to the high one. */
static int check_watermarks(const struct config *config, const struct device_config *device,
                            int line, const char *path, struct error *error)
{
    double high = config_high_watermark(config, device);
    bool own = device && !isnan(device->low_watermark_ratio);
    double low = own ? device->low_watermark_ratio : config->low_watermark_ratio;

    if (high == 0 || low <= high || (!own && low == strtod(LOW_WATERMARK_DEFAULT, NULL)))
        return 0;
    return error_set(error, -EINVAL,
                     "%s:%d: %s%s%sLowWatermarkRatio (%g) may not be above HighWatermarkRatio (%g)",
                     path, line, device ? "of the device \"" : "", device ? device->name : "",
                     device ? "\", " : "", low, high);
}

static int check_sections(const struct reading *reading)
{
    const struct config *config = reading->config;
    int result = check_watermarks(config, NULL, reading->ratio_line, reading->path, reading->error);

    for (size_t i = 0; i < config->device_count && result == 0; i++) {
        const struct device_config *device = &config->devices[i];
        int line = device->line ? device->line : reading->ratio_line;

        if (device->kind_is_open)
            return error_set(reading->error, -EINVAL,
                             "%s:%d: there is no device \"%s\": a simulated one says so with "
                             "Kind = simulated, real ones are \"cpu\" and \"cuda:N\"",
                             reading->path, line, device->name);
        result = check_watermarks(config, device, line, reading->path, reading->error);
    }
    return result;
}

int config_read_file(struct config *config, const char *path, struct error *error)
{
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    struct reading reading = {.config = config, .path = path, .file = file, .error = error};
    int line;

    if (!file)
        return error_set_errno(error, -errno, "cannot read %s", path);
    for (size_t i = 0; i < config->device_count; i++)
        config->devices[i].line = 0;
    line = ini_parse_stream(read_line, &reading, take_value, &reading);
    if (reading.result < 0)
        return reading.result;
    if (line != 0)
        return error_set(error, -EINVAL, "%s:%d: neither \"[Section]\" nor \"Key = value\"", path,
                         line);
    return check_sections(&reading);
}

static int is_config_name(const struct dirent *entry)
{
    return fnmatch("*.conf", entry->d_name, FNM_PERIOD) == 0;
}

int config_read(struct config *config, const char *path, struct error *error)
{
    AUTO_FREE char *folder = NULL;
    struct dirent **entries = NULL;
    int count, result = access(path, F_OK) == 0 ? config_read_file(config, path, error) : 0;

    if (result < 0)
        return result;
    if (asprintf(&folder, "%s.d", path) < 0)
        return error_set(error, -ENOMEM, "no memory left");
    count = scandir(folder, &entries, is_config_name, alphasort);
    for (int i = 0; i < count; i++) {
        AUTO_FREE char *name = NULL;

        if (result == 0 && asprintf(&name, "%s/%s", folder, entries[i]->d_name) >= 0)
            result = config_read_file(config, name, error);
        free(entries[i]);
    }
    free(entries);
    return result;
}

/* ---- printing ----------------------------------------------------------------------------------
 */

/* "Jobs", "Device NAME" */
static const char *heading_of(const char *section)
{
    return strcmp(section, DEVICE_SECTION) == 0 ? DEVICE_SECTION " NAME" : section;
}

static void print_markdown(const char *section, FILE *output)
{
    fprintf(output, "\n## [%s]\n", heading_of(section));
    if (strcmp(section, DEVICE_SECTION) == 0)
        fprintf(output,
                "\nOne section for each device: `[Device cpu]`, `[Device cuda:0]`, or that of a "
                "simulated one, as\n`[Device sim0]`, whose name has letters, digits and `-_.:`.\n");
    fprintf(output, "\n| key | default | meaning |\n|---|---|---|\n");
    for (int i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].section, section) == 0)
            fprintf(output, "| `%s` | `%s` | %s Takes %s. |\n", keys[i].name,
                    *keys[i].fallback ? keys[i].fallback : "(empty)", keys[i].help,
                    unit_of(keys[i].type));
}

static void print_file(const char *section, bool commented, FILE *output)
{
    bool device = strcmp(section, DEVICE_SECTION) == 0; /* NAME is to be replaced */

    fprintf(output, "\n%s[%s]\n", commented && device ? "#" : "", heading_of(section));
    for (int i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].section, section) == 0)
            fprintf(output, "%s%s\n%s%s =%s%s\n", commented ? "# " : "    ", keys[i].help,
                    commented ? "#" : "  ", keys[i].name, *keys[i].fallback ? " " : "",
                    keys[i].fallback);
}

void config_print(enum config_form form, FILE *output)
{
    if (form == CONFIG_MARKDOWN)
        fprintf(
            output,
            "# Configuration\n\n"
            "`/etc/traind/traind.conf`, then `/etc/traind/traind.conf.d/*.conf` in the order of "
            "their names; later\nvalues win. A daemon that serves its user alone reads\n"
            "`~/.config/traind/traind.conf` and its `.d` folder instead. An unknown key is an "
            "error.\nThis page is `traind --help-config=markdown`.\n");
    else if (form == CONFIG_FILE)
        fprintf(output, "# traind.conf: every key with its default. See docs/configuration.md.\n");
    for (int i = 0; i < KEY_COUNT; i++) {
        if (i > 0 && strcmp(keys[i].section, keys[i - 1].section) == 0)
            continue;
        if (form == CONFIG_MARKDOWN)
            print_markdown(keys[i].section, output);
        else
            print_file(keys[i].section, form == CONFIG_FILE, output);
    }
}
