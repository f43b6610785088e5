/* internal.h: the table of configuration keys (keys.c), which the files of config/ share. */
#pragma once

#include "daemon/config/config.h"

enum value_type {
    VALUE_TEXT,
    VALUE_PATH,
    VALUE_PLUGIN,
    VALUE_SWITCH,
    VALUE_KIND, /* read.c parses it, because the table does not know which kinds there are */
    VALUE_DEFAULT_DEVICE,
    VALUE_OVER_MEMORY,
    VALUE_COUNT,
    VALUE_RATIO,
    VALUE_DURATION,
    VALUE_BYTES
};

#define DEVICE_SECTION "Device" /* written [Device NAME] */
#define LOW_WATERMARK_DEFAULT "0.75"

struct config_key {
    const char *section, *name;
    enum value_type type;
    size_t offset;           /* in struct config; for a device's key, in struct device_config */
    const char *fallback;    /* default, as written in the file; "" of a number: the general rule */
    double minimum, maximum; /* range of numbers, in the base unit */
    const char *help;
};

/* The keys of one section are adjacent. */
extern const struct config_key config_keys[];
extern const int config_key_count;

/* Whether LowWatermarkRatio of [Jobs] has its default value, set or not. */
bool config_low_watermark_is_default(const struct config *config);

/* Whether its value is a string, which the configuration owns. */
bool config_key_is_text(const struct config_key *key);
/* Whether the key belongs to [Device NAME]. */
bool config_key_is_of_device(const struct config_key *key);
/* Describes the type's values in sentences: "a whole number". */
const char *config_key_unit(enum value_type type);
/* The key of the section whose name is nearest to the word, or NULL. If `section` is NULL: the
 * nearest section. */
const char *config_key_nearest(const char *section, const char *word);
/* Lists the kinds of real devices ("cpu and cuda:N"), or those that a section makes ("simulated or
 * accelerator"), each between two `quote`s. Returns `text`. */
char *config_list_kinds(device_kind_at *kind_at, bool real, const char *quote, char *text,
                        size_t size);
/* Finds the kind of a device's name. A name that no real device can have gets the first simulated
 * kind. -EINVAL for a bad name. */
int config_kind_of_name(device_kind_at *kind_at, const char *name, const struct device_kind **found,
                        struct error *error);
/* Sets the key's value from the text. `base` is a struct config, or for a device's key a struct
 * device_config. */
int config_key_set(void *base, const struct config_key *key, const char *text, struct error *error);
