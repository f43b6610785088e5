/* read.c: reads configuration files: sections and values against the table of keys, and checks that
 * need the whole file. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "base/text.h"
#include "daemon/config/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <ini.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices --------------------------------------------------------------------------------- */

/* Finds or adds the device of a section [Device NAME], with the kind that its name implies. */
static struct device_config *find_or_add_device(struct config *config, const char *name,
                                                struct error *error)
{
    struct device_config *devices = (struct device_config *)config_device(config, name);
    struct device_config device = {0};

    if (devices)
        return devices;
    if (config_kind_of_name(config->kind_at, name, &device.kind, error) < 0)
        return NULL;
    devices = reallocarray(config->devices, config->device_count + 1, sizeof *devices);
    if (!devices || !(device.name = strdup(name))) {
        config->devices = devices ? devices : config->devices;
        error_no_memory(error, "the configuration");
        return NULL;
    }
    for (int i = 0; i < config_key_count; i++)
        if (config_key_is_of_device(&config_keys[i]) && config_keys[i].type != VALUE_KIND)
            config_key_set(&device, &config_keys[i], config_keys[i].fallback, NULL);
    device.kind_is_open = device.kind->naming == DEVICE_NAMED_BY_SECTION;
    config->devices = devices;
    devices[config->device_count] = device;
    return &devices[config->device_count++];
}

/* ---- files ----------------------------------------------------------------------------------- */

struct reading {
    struct config *config;
    const char *path;
    FILE *file;
    int line;       /* counted here, because inih does not pass line numbers on */
    int ratio_line; /* the last line with a ratio of [Jobs] */
    int result;
    struct error *error;
};

static char *read_line(char *line, int size, void *data)
{
    struct reading *reading = data;
    char *read = fgets(line, size, reading->file);

    reading->line += read != NULL;
    if (!read && ferror(reading->file) && reading->result == 0)
        reading->result = error_set_errno(reading->error, -errno, "cannot read %s", reading->path);
    if (read && !strchr(line, '\n') && !feof(reading->file) && reading->result == 0)
        reading->result = error_set(reading->error, -EINVAL, "%s:%d: the line is too long",
                                    reading->path, reading->line);
    return read;
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

static int refuse_section(struct reading *reading, const char *section, const char *key)
{
    char escaped[256];

    if (*section && strcmp(section, DEVICE_SECTION) != 0)
        return refuse(reading, "section", section, config_key_nearest(NULL, section));
    text_escape_controls(key, escaped, sizeof escaped);
    reading->result =
        *section
            ? error_set(reading->error, -EINVAL,
                        "%s:%d: the section of a device names it, such as [" DEVICE_SECTION " cpu]",
                        reading->path, reading->line)
            : error_set(reading->error, -EINVAL,
                        "%s:%d: the key \"%s\" is in no section: a line such as [Jobs] has to "
                        "come before it",
                        reading->path, reading->line, escaped);
    return 0;
}

static int refuse_line(struct reading *reading)
{
    error_prefix(reading->error, "%s:%d", reading->path, reading->line);
    return 0;
}

/* Sets Kind: the kind that the name implies, or one of the simulated ones. */
static int take_kind(device_kind_at *kind_at, const char *name, struct device_config *device,
                     struct error *error)
{
    bool open = device->kind->naming == DEVICE_NAMED_BY_SECTION;
    const struct device_kind *kind = device_kind_find(kind_at, name);
    char real[128], others[128];

    config_list_kinds(kind_at, true, "\"", real, sizeof real);
    config_list_kinds(kind_at, false, "", others, sizeof others);
    if (!kind || (kind != device->kind && !(open && kind->naming == DEVICE_NAMED_BY_SECTION)))
        return error_set(error, -EINVAL,
                         "the kind of the device \"%s\" is %s: %s are real devices, any other name "
                         "is a simulated one",
                         device->name, open ? others : device->kind->name, real);
    device->kind = kind;
    device->kind_is_open = false;
    return 0;
}

/* What a device that its section makes has, only of such a one. */
static int check_device_key(const struct config_key *key, const struct device_config *device,
                            struct error *error)
{
    static const size_t made_by_section[] = {
        offsetof(struct device_config, speed),          offsetof(struct device_config, bandwidth),
        offsetof(struct device_config, launch_seconds), offsetof(struct device_config, memory),
        offsetof(struct device_config, loss_error),     offsetof(struct device_config, calibration),
        offsetof(struct device_config, outside_file)};

    for (size_t i = 0; i < sizeof made_by_section / sizeof *made_by_section; i++)
        if (key->offset == made_by_section[i] && device->kind->naming != DEVICE_NAMED_BY_SECTION)
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
    for (int i = 0; i < config_key_count; i++) {
        if (!config_key_is_of_device(&config_keys[i]) || strcmp(config_keys[i].name, name) != 0)
            continue;
        if (device->line == 0 || config_keys[i].type == VALUE_RATIO)
            device->line = reading->line;
        reading->result = check_device_key(&config_keys[i], device, reading->error);
        if (reading->result == 0 && config_keys[i].type == VALUE_KIND)
            reading->result = take_kind(reading->config->kind_at, value, device, reading->error);
        else if (reading->result == 0)
            reading->result = config_key_set(device, &config_keys[i], value, reading->error);
        return reading->result == 0 ? 1 : refuse_line(reading);
    }
    return refuse(reading, "key", name, config_key_nearest(DEVICE_SECTION, name));
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
    for (int i = 0; i < config_key_count; i++) {
        if (config_key_is_of_device(&config_keys[i]) ||
            strcmp(config_keys[i].section, section) != 0)
            continue;
        section_known = true;
        if (strcmp(config_keys[i].name, name) != 0)
            continue;
        if (config_keys[i].type == VALUE_RATIO)
            reading->ratio_line = reading->line;
        reading->result = config_key_set(reading->config, &config_keys[i], value, reading->error);
        return reading->result == 0 ? 1 : refuse_line(reading);
    }
    if (!section_known)
        return refuse_section(reading, section, name);
    return refuse(reading, "key", name, config_key_nearest(section, name));
}

/* ---- checks of the whole file ---------------------------------------------------------------- */

/* `device` may be NULL. A default low ratio gives way to the high one. */
static int check_watermarks(const struct config *config, const struct device_config *device,
                            int line, const char *path, struct error *error)
{
    double high = config_high_watermark(config, device);
    bool own = device && !isnan(device->low_watermark_ratio);
    double low = own ? device->low_watermark_ratio : config->low_watermark_ratio;

    if (high == 0 || low <= high || (!own && config_low_watermark_is_default(config)))
        return 0;
    return error_set(error, -EINVAL,
                     "%s:%d: %s%s%sLowWatermarkRatio (%g) may not be above HighWatermarkRatio (%g)",
                     path, line, device ? "of the device \"" : "", device ? device->name : "",
                     device ? "\", " : "", low, high);
}

static int refuse_open_kind(const struct reading *reading, int line, const char *name)
{
    char real[128], others[128];

    config_list_kinds(reading->config->kind_at, true, "\"", real, sizeof real);
    config_list_kinds(reading->config->kind_at, false, "", others, sizeof others);
    return error_set(reading->error, -EINVAL,
                     "%s:%d: there is no device \"%s\": a simulated one says so with Kind = %s, "
                     "real ones are %s",
                     reading->path, line, name, others, real);
}

static int check_sections(const struct reading *reading)
{
    const struct config *config = reading->config;
    int result = check_watermarks(config, NULL, reading->ratio_line, reading->path, reading->error);

    for (size_t i = 0; i < config->device_count && result == 0; i++) {
        const struct device_config *device = &config->devices[i];
        int line = device->line ? device->line : reading->ratio_line;

        if (device->kind_is_open)
            return refuse_open_kind(reading, line, device->name);
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

/* Whether errno says that there is no such file. A home such as /dev/null gives ENOTDIR. */
static bool nothing_is_there(void)
{
    return errno == ENOENT || errno == ENOTDIR;
}

int config_read(struct config *config, const char *path, struct error *error)
{
    AUTO_FREE char *folder = memory_format("%s.d", path);
    struct dirent **entries = NULL;
    int count, result = 0;

    if (access(path, F_OK) == 0 || !nothing_is_there())
        result = config_read_file(config, path, error);
    if (result < 0)
        return result;
    count = scandir(folder, &entries, is_config_name, alphasort);
    if (count < 0 && !nothing_is_there())
        return error_set_errno(error, -errno, "cannot read the folder %s", folder);
    for (int i = 0; i < count; i++) {
        AUTO_FREE char *name = memory_format("%s/%s", folder, entries[i]->d_name);

        if (result == 0)
            result = config_read_file(config, name, error);
        free(entries[i]);
    }
    free(entries);
    return result;
}
