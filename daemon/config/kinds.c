/* kinds.c: which kind of device the name of a section [Device NAME] means. The kinds are those of
 * the registry of drivers, which the configuration gets as config->kind_at. */
#include "base/text.h"
#include "daemon/config/internal.h"

#include <errno.h>
#include <string.h>

enum { NAME_LIMIT = 31 }; /* the engine's limit; inih cuts sections at 49 bytes */

char *config_list_kinds(device_kind_at *kind_at, bool real, const char *quote, char *text,
                        size_t size)
{
    const struct device_kind *kind;
    size_t used = 0;

    *text = '\0';
    for (size_t i = 0; (kind = kind_at(i)) && used < size; i++)
        if (real == (kind->naming != DEVICE_NAMED_BY_SECTION))
            used += (size_t)snprintf(text + used, size - used, "%s%s%s%s%s",
                                     used ? (real ? " and " : " or ") : "", quote, kind->name,
                                     kind->naming == DEVICE_NAMED_BY_NUMBER ? ":N" : "", quote);
    return text;
}

/* Whether the name is like "cuda:0" for the kind "cuda". */
static bool is_numbered(const char *name, const struct device_kind *kind)
{
    size_t length = strlen(kind->name);

    return kind->naming == DEVICE_NAMED_BY_NUMBER && strncmp(name, kind->name, length) == 0 &&
           name[length] == ':';
}

int config_kind_of_name(device_kind_at *kind_at, const char *name, const struct device_kind **found,
                        struct error *error)
{
    const struct device_kind *kind = device_kind_find(kind_at, name);
    char escaped[256];
    const char *number;

    text_escape_controls(name, escaped, sizeof escaped);
    if (!*name || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "-_.:") != strlen(name))
        return error_set(error, -EINVAL,
                         "the name of a device has letters, digits and \"-_.:\", not \"%s\"",
                         escaped);
    if (strlen(name) > NAME_LIMIT)
        return error_set(error, -EINVAL, "the name of a device has at most %d characters",
                         NAME_LIMIT);
    *found = kind;
    if (kind && kind->naming == DEVICE_NAMED_AS_KIND)
        return 0;
    /* such a name in `move JOB auto` or device.prefer, allow, deny would be ambiguous */
    if (kind || default_device_from_string(name) >= 0)
        return error_set(error, -EINVAL,
                         "\"%s\" stands for more than one device where jobs name theirs; give this "
                         "one another name, such as \"%s0\"",
                         name, default_device_from_string(name) >= 0 ? "sim" : name);
    for (size_t i = 0; (kind = kind_at(i)) && !is_numbered(name, kind); i++)
        if (kind->naming == DEVICE_NAMED_BY_SECTION && !*found)
            *found = kind;
    if (!kind)
        return 0;
    number = name + strlen(kind->name) + 1;
    if (!*number || number[strspn(number, "0123456789")])
        return error_set(error, -EINVAL, "\"%s:\" stands before a number, as in \"%s:0\"",
                         kind->name, kind->name);
    *found = kind;
    return 0;
}
