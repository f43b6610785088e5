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

enum value_type { VALUE_TEXT, VALUE_COUNT, VALUE_RATIO, VALUE_DURATION, VALUE_BYTES };

static const struct key {
    const char *section, *name;
    enum value_type type;
    size_t offset;           /* in struct config */
    const char *fallback;    /* as it would stand in the file */
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
    {"Jobs", "RetryLimit", VALUE_COUNT, offsetof(struct config, retry_limit), "3", 0, 1000,
     "How often a job that crashed is started again, unless its specification says otherwise "
     "(retry.limit)."},
    {"Jobs", "RetryBackoff", VALUE_DURATION, offsetof(struct config, retry_backoff_seconds), "1 s",
     0, 86400, "Pause before the first retry; it doubles with each further one (retry.backoff)."},
    {"Jobs", "StopGrace", VALUE_DURATION, offsetof(struct config, stop_grace_seconds), "30 s", 0,
     3600, "Time for a job that is stopped to write its checkpoint, before it is killed."},
    {"Jobs", "HighWatermarkRatio", VALUE_RATIO, offsetof(struct config, high_watermark_ratio),
     "0.85", 0, 1,
     "Part of a device's memory that jobs and other programs together may fill. 0: no limit."},
    {"Checkpoints", "DatabaseLimit", VALUE_BYTES, offsetof(struct config, database_limit_bytes),
     "64 MiB", 0, 1e12,
     "Larger checkpoints stay files in the job's folder; smaller ones are kept in "
     "checkpoints.db."},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

static const char *unit_of(enum value_type type)
{
    switch (type) {
    case VALUE_COUNT:
        return "a whole number";
    case VALUE_RATIO:
        return "a number";
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

static int set_value(struct config *config, const struct key *key, const char *text,
                     struct error *error)
{
    void *place = (char *)config + key->offset;
    double number;

    if (key->type == VALUE_TEXT) {
        char *copy = strdup(text);
        if (!copy)
            return error_set(error, -ENOMEM, "no memory left");
        free(*(char **)place);
        *(char **)place = copy;
        return 0;
    }
    if (parse_number(key, text, &number) < 0)
        return error_set(error, -EINVAL, "%s has to be %s, not \"%s\"", key->name,
                         unit_of(key->type), text);
    if (number < key->minimum || number > key->maximum)
        return error_set(error, -ERANGE, "%s has to lie between %g and %g, not \"%s\"", key->name,
                         key->minimum, key->maximum, text);
    if (key->type == VALUE_COUNT)
        *(int64_t *)place = (int64_t)number;
    else if (key->type == VALUE_BYTES)
        *(uint64_t *)place = (uint64_t)number;
    else
        *(double *)place = number;
    return 0;
}

void config_init(struct config *config)
{
    *config = (struct config){0};
    for (int i = 0; i < KEY_COUNT; i++)
        set_value(config, &keys[i], keys[i].fallback, NULL);
}

void config_release(struct config *config)
{
    for (int i = 0; i < KEY_COUNT; i++)
        if (keys[i].type == VALUE_TEXT)
            free(*(char **)((char *)config + keys[i].offset));
    *config = (struct config){0};
}

/* ---- files -------------------------------------------------------------------------------------
 */

struct reading {
    struct config *config;
    const char *path;
    FILE *file;
    int line; /* inih hands out one line after the other, but not their numbers */
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

/* inih's handler: 1 to go on, 0 for an error. */
static int take_value(void *data, const char *section, const char *name, const char *value)
{
    struct reading *reading = data;
    bool section_known = false;

    if (reading->result < 0)
        return 0;
    for (int i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].section, section) != 0)
            continue;
        section_known = true;
        if (strcmp(keys[i].name, name) != 0)
            continue;
        reading->result = set_value(reading->config, &keys[i], value, reading->error);
        if (reading->result < 0)
            error_prefix(reading->error, "%s:%d", reading->path, reading->line);
        return reading->result == 0;
    }
    if (!section_known)
        return refuse(reading, "section", section, nearest_name(NULL, section));
    return refuse(reading, "key", name, nearest_name(section, name));
}

int config_read_file(struct config *config, const char *path, struct error *error)
{
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    struct reading reading = {.config = config, .path = path, .file = file, .error = error};
    int line;

    if (!file)
        return error_set_errno(error, -errno, "cannot read %s", path);
    line = ini_parse_stream(read_line, &reading, take_value, &reading);
    if (reading.result < 0)
        return reading.result;
    if (line != 0)
        return error_set(error, -EINVAL, "%s:%d: neither \"[Section]\" nor \"Key = value\"", path,
                         line);
    return 0;
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

static void print_markdown(const char *section, FILE *output)
{
    fprintf(output, "\n## [%s]\n\n| key | default | meaning |\n|---|---|---|\n", section);
    for (int i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].section, section) == 0)
            fprintf(output, "| `%s` | `%s` | %s Takes %s. |\n", keys[i].name,
                    *keys[i].fallback ? keys[i].fallback : "(empty)", keys[i].help,
                    unit_of(keys[i].type));
}

static void print_file(const char *section, bool commented, FILE *output)
{
    fprintf(output, "\n[%s]\n", section);
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
