/* internal.h: the table of configuration keys (keys.c), which the files
 * config*.c share. */
#pragma once

#include "daemon/config/config.h"

enum value_type {
    VALUE_TEXT,
    VALUE_PATH,
    VALUE_SWITCH,
    VALUE_KIND, /* read.c takes it: which kinds there are is not known to the table */
    VALUE_DEFAULT_DEVICE,
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
    size_t offset;           /* in struct config, of a device in struct device_config */
    const char *fallback;    /* as it would stand in the file; of a number "": the general rule */
    double minimum, maximum; /* of numbers, in the base unit */
    const char *help;
};

/* Those of one section stand together. */
extern const struct config_key config_keys[];
extern const int config_key_count;

/* Whether nobody has set LowWatermarkRatio of [Jobs], or to what it is anyway. */
bool config_low_watermark_is_default(const struct config *config);

/* Whether its value is a string, which is owned. */
bool config_key_is_text(const struct config_key *key);
/* Whether it belongs into [Device NAME]. */
bool config_key_is_of_device(const struct config_key *key);
/* What values of the type are, for sentences: "a whole number". */
const char *config_key_unit(enum value_type type);
/* The key of the section (NULL: the section) whose name is nearest to the word, or NULL. */
const char *config_key_nearest(const char *section, const char *word);
/* Takes the text for the key's value; `base` is a struct config, of a device's key a struct
 * device_config. */
int config_key_set(void *base, const struct config_key *key, const char *text, struct error *error);
