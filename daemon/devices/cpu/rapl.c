/* rapl.c: see rapl.h. */
#include "daemon/devices/cpu/rapl.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 64 };

/* Reads the beginning of `folder`/`name`. False: it cannot be read. */
static bool text_read(const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_MAX];
    AUTO_CLOSE int file = -1;
    ssize_t size;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    file = open(path, O_RDONLY | O_CLOEXEC);
    size = file < 0 ? -1 : read(file, text, TEXT_BYTES - 1);
    if (size < 0)
        return false;
    text[size] = '\0';
    return true;
}

static bool number_read(const char *folder, const char *name, uint64_t *number)
{
    char text[TEXT_BYTES];

    return text_read(folder, name, text) && sscanf(text, "%" SCNu64, number) == 1;
}

/* Whether the folder's domain is a package: "package-0", or "package-0-die-1" of processors with
 * several dies. */
static bool is_package(const char *folder)
{
    static const char prefix[] = "package-";
    char text[TEXT_BYTES];

    return text_read(folder, "name", text) && strncmp(text, prefix, sizeof prefix - 1) == 0;
}

/* "intel-rapl:0" of the processors' registers, also on AMD. "intel-rapl-mmio:0" would count the
 * same package again, and "intel-rapl:0:0" is a part of one. */
static bool is_domain(const char *name)
{
    unsigned number;
    int length = 0;

    return sscanf(name, "intel-rapl:%u%n", &number, &length) == 1 && !name[length];
}

void rapl_open(struct rapl *rapl, const char *root)
{
    char directory[PATH_MAX];
    DIR *domains;
    const struct dirent *entry;

    memset(rapl, 0, sizeof *rapl);
    if (snprintf(directory, sizeof directory, "%s/sys/class/powercap", root) >=
            (int)sizeof directory ||
        !(domains = opendir(directory)))
        return;
    while (rapl->count < RAPL_PACKAGES_MAX && (entry = readdir(domains))) {
        struct rapl_package *package = &rapl->packages[rapl->count];

        if (is_domain(entry->d_name) &&
            snprintf(package->path, sizeof package->path, "%s/%s", directory, entry->d_name) <
                (int)sizeof package->path &&
            is_package(package->path) &&
            number_read(package->path, "max_energy_range_uj", &package->range) &&
            number_read(package->path, "energy_uj", &package->last))
            rapl->count++;
    }
    closedir(domains);
}

bool rapl_read(struct rapl *rapl, double *joules)
{
    for (int i = 0; i < rapl->count; i++) {
        struct rapl_package *package = &rapl->packages[i];
        uint64_t now, used;

        if (!number_read(package->path, "energy_uj", &now))
            return false;
        used = now - package->last;
        if (now < package->last) /* it began again */
            used = package->range > package->last ? package->range - package->last + now : now;
        rapl->joules += 1e-6 * (double)used;
        package->last = now;
    }
    *joules = rapl->joules;
    return rapl->count > 0;
}
