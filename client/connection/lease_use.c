/* lease_use.c: see lease_use.h. */
#include "client/connection/lease_use.h"

#include "client/connection/connection.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Meanwhile the shell's terminal stands still. */
enum { PATIENCE_MILLISECONDS = 500 };

static const double USED_PART = 0.01; /* of a GPU: what a driver reports of an idle one is less */

struct process {
    int pid, parent;
    double seconds;
};

/* Reads /proc/PID/stat. The program's name is in parentheses and may contain any character. */
static bool process_read(const char *name, struct process *process)
{
    char path[300], text[1024];
    unsigned long user, system;
    const char *after;
    FILE *file;
    size_t size;

    snprintf(path, sizeof path, "/proc/%s/stat", name);
    file = fopen(path, "re");
    if (!file)
        return false;
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                         &process->parent, &user, &system) != 3)
        return false;
    process->pid = atoi(name);
    process->seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static size_t processes_read(struct process **list)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;

    while (folder && (entry = readdir(folder))) {
        struct process process, *grown;

        if (!isdigit((unsigned char)entry->d_name[0]) || !process_read(entry->d_name, &process))
            continue;
        grown = reallocarray(*list, count + 1, sizeof **list);
        if (!grown)
            break;
        *list = grown;
        grown[count++] = process;
    }
    if (folder)
        closedir(folder);
    return count;
}

double lease_processor_seconds(int root)
{
    AUTO_FREE struct process *list = NULL;
    size_t count = processes_read(&list), known = 0;
    double seconds = 0;

    /* moves the children of each known process behind it */
    for (size_t at = 0; at <= known; at++) {
        int parent = at == 0 ? root : list[at - 1].pid;

        for (size_t i = known; i < count; i++) {
            struct process child = list[i];

            if (child.parent != parent)
                continue;
            list[i] = list[known];
            list[known++] = child;
        }
    }
    for (size_t i = 0; i < known; i++)
        if (list[i].pid != getpid())
            seconds += list[i].seconds;
    return seconds;
}

/* Whether the comma-separated list has the name. */
static bool list_has(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

bool lease_device_is_used(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    const char *own = getenv("TRAIND_DEVICE");
    struct json_object *devices;

    if (!own || strcmp(own, "cpu") == 0)
        return false;
    if (!connection_try_within(invocation, PATIENCE_MILLISECONDS, "Devices",
                               json_object_new_object(), &reply))
        return true;
    devices = json_get(reply.parameters, "devices");
    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);

        if (list_has(own, json_get_string(device, "name", "")) &&
            json_get_double(device, "utilisation", 0) > USED_PART)
            return true;
    }
    return false;
}
