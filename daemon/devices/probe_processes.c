/* probe_processes.c: see probe_processes.h. */
#include "daemon/devices/probe_processes.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSWD_BUFFER = 4096 };

pid_t process_parent(pid_t pid, char *command, size_t size)
{
    char path[32], text[512], *name, *end;
    size_t length;
    int parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = '\0';
    /* "pid (name) state parent …": the name may hold anything, also parentheses */
    name = strchr(text, '(');
    end = strrchr(text, ')');
    if (!name || !end || end < name || sscanf(end + 1, " %*c %d", &parent) != 1)
        return 0;
    if (command)
        snprintf(command, size, "%.*s", (int)(end - name - 1), name + 1);
    return parent;
}

static void find_user(uid_t uid, char *user, size_t size)
{
    char buffer[PASSWD_BUFFER];
    struct passwd entry, *found = NULL;

    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(user, size, "%s", entry.pw_name);
    else
        snprintf(user, size, "%u", (unsigned)uid);
}

void process_describe(struct process_use *process)
{
    char path[32];
    struct stat status;
    pid_t parent = process_parent(process->pid, process->command, sizeof process->command);

    snprintf(path, sizeof path, "/proc/%d", (int)process->pid);
    process->visible = parent > 0 && stat(path, &status) == 0;
    if (!process->visible)
        return;
    process->uid = status.st_uid;
    find_user(process->uid, process->user, sizeof process->user);
    process->ancestors[0] = process->pid;
    for (int i = 1; i < PROCESS_ANCESTORS_MAX && parent > 1; i++) {
        process->ancestors[i] = parent;
        parent = process_parent(parent, NULL, 0);
    }
}

bool process_is_of(const struct process_use *process, const pid_t *jobs, size_t job_count)
{
    for (int i = 0; process->visible && i < PROCESS_ANCESTORS_MAX && process->ancestors[i]; i++)
        for (size_t j = 0; j < job_count; j++)
            if (process->ancestors[i] == jobs[j])
                return true;
    return false;
}

/* ---- the largest ----------------------------------------------------------------------------- */

/* Resident bytes; 0 for a process that has ended or has none, such as the kernel's threads. */
static uint64_t read_resident(const char *pid)
{
    char path[48];
    unsigned long long total, resident;

    snprintf(path, sizeof path, "/proc/%.20s/statm", pid);
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%llu %llu", &total, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Inserts the process in its place among the largest. If the list is full, the smallest is
 * dropped. */
static size_t insert(struct process_use *list, size_t count, size_t limit, pid_t pid,
                     uint64_t memory)
{
    size_t at = count;

    if (count == limit && memory <= list[limit - 1].memory)
        return count;
    if (count == limit)
        at = limit - 1;
    else
        count++;
    for (; at > 0 && list[at - 1].memory < memory; at--)
        list[at] = list[at - 1];
    list[at] = (struct process_use){.pid = pid, .memory = memory};
    return count;
}

size_t processes_find_largest(struct process_use *list, size_t limit, uint64_t least)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;

    while (folder && limit && (entry = readdir(folder))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        uint64_t memory = pid > 0 ? read_resident(entry->d_name) : 0;

        if (memory >= least && memory > 0)
            count = insert(list, count, limit, pid, memory);
    }
    if (folder)
        closedir(folder);
    for (size_t i = 0; i < count; i++)
        process_describe(&list[i]);
    return count;
}
