/* power.c: see power.h. The files are those of the kernel's
 * Documentation/ABI/testing/sysfs-devices-power. */
#include "daemon/devices/nvidia/power.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Whether a file of the device's folder `power` holds this word. */
static bool device_says(const char *folder, const char *device, const char *file, const char *word)
{
    char path[2 * PATH_MAX], found[32] = "";
    FILE *text;
    bool same;

    snprintf(path, sizeof path, "%s/%s/power/%s", folder, device, file);
    text = fopen(path, "re");
    if (!text)
        return false;
    same = fscanf(text, "%31s", found) == 1 && strcmp(found, word) == 0;
    fclose(text);
    return same;
}

enum nvidia_power nvidia_power_read(const char *root)
{
    char folder[PATH_MAX];
    size_t asleep = 0, awake = 0;
    const struct dirent *entry;
    bool stays_on = false;
    DIR *devices;

    snprintf(folder, sizeof folder, "%s/sys/bus/pci/drivers/nvidia", root);
    devices = opendir(folder);
    if (!devices)
        return NVIDIA_STAYS_ON;
    while (!stays_on && (entry = readdir(devices))) {
        if (!strchr(entry->d_name, ':')) /* 0000:01:00.0; the others are files of the driver */
            continue;
        stays_on = !device_says(folder, entry->d_name, "control", "auto");
        if (device_says(folder, entry->d_name, "runtime_status", "suspended"))
            asleep++;
        else
            awake++;
    }
    closedir(devices);
    if (stays_on || asleep + awake == 0)
        return NVIDIA_STAYS_ON;
    return awake > 0 ? NVIDIA_MAY_SLEEP : NVIDIA_ASLEEP;
}
