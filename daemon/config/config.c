/* config.c: the configuration in memory: its defaults, and the values that apply to a device. */
#include "daemon/config/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void config_init(struct config *config, device_kind_at *kind_at)
{
    *config = (struct config){.kind_at = kind_at};
    for (int i = 0; i < config_key_count; i++)
        if (!config_key_is_of_device(&config_keys[i]))
            config_key_set(config, &config_keys[i], config_keys[i].fallback, NULL);
}

void config_release(struct config *config)
{
    for (int i = 0; i < config_key_count; i++)
        if (config_key_is_text(&config_keys[i]) && !config_key_is_of_device(&config_keys[i]))
            free(*(char **)((char *)config + config_keys[i].offset));
    for (size_t i = 0; i < config->device_count; i++) {
        free(config->devices[i].name);
        free(config->devices[i].calibration);
        free(config->devices[i].outside_file);
    }
    free(config->devices);
    *config = (struct config){0};
}

/* ---- devices --------------------------------------------------------------------------------- */

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

bool config_low_watermark_is_default(const struct config *config)
{
    return config->low_watermark_ratio == strtod(LOW_WATERMARK_DEFAULT, NULL);
}

double config_low_watermark(const struct config *config, const struct device_config *device)
{
    double high = config_high_watermark(config, device);
    bool own = device && !isnan(device->low_watermark_ratio);
    double low = own ? device->low_watermark_ratio : config->low_watermark_ratio;

    if (low <= high)
        return low;
    if (high == 0 && (own || !config_low_watermark_is_default(config)))
        return low; /* the high watermark is off, and this limit was set on purpose */
    return high;
}
