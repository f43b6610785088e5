/* sharing_leftovers.c: see sharing_leftovers.h. */
#include "daemon/attempts/sharing_leftovers.h"

#include "base/log.h"
#include "daemon/attempts/processes.h"
#include "daemon/attempts/sharing_services.h"
#include "daemon/folder/attempt_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { LEFTOVERS_MAX = 1024 }; /* the most that one start removes */

/* The numbers of services' folders are milliseconds since the epoch, higher than those of
 * notifications. */
static const int64_t first_folder = 1000000000000;

struct sharing_leftovers {
    struct daemon *daemon;
    uv_work_t work;
    size_t count;
    int64_t folders[LEFTOVERS_MAX];
};

static void leftovers_read(DIR *listing, const char *state_directory,
                           struct sharing_leftovers *leftovers)
{
    struct dirent *entry;

    while (leftovers->count < LEFTOVERS_MAX && (entry = readdir(listing))) {
        struct attempt_place place = {.state_directory = state_directory};
        char *end;

        if (strncmp(entry->d_name, "0.", 2) != 0 || !isdigit((unsigned char)entry->d_name[2]))
            continue;
        place.attempt = strtoll(entry->d_name + 2, &end, 10);
        if (!*end && place.attempt >= first_folder && !attempt_is_alive(&place))
            leftovers->folders[leftovers->count++] = place.attempt;
    }
}

void sharing_leftovers_find(const char *state_directory, struct sharing_leftovers **found)
{
    char path[PATH_MAX];
    DIR *listing;

    *found = NULL;
    job_group_path(path, state_directory, 0);
    listing = opendir(path);
    if (!listing)
        return;
    *found = calloc(1, sizeof **found);
    if (*found)
        leftovers_read(listing, state_directory, *found);
    closedir(listing);
}

void sharing_leftovers_free(struct sharing_leftovers *leftovers)
{
    free(leftovers);
}

static void leftover_remove(uv_work_t *work)
{
    const struct sharing_leftovers *leftovers = work->data;
    int64_t folder = leftovers->folders[leftovers->count - 1];
    int result = attempt_folder_remove(leftovers->daemon->state_directory, 0, folder);

    if (result < 0)
        log_warning("the folder of a sharing service that has ended, 0.%lld, stays until the next "
                    "start: %s",
                    (long long)folder, strerror(-result));
}

static void on_leftover_removed(uv_work_t *work, int status)
{
    struct sharing_leftovers *leftovers = work->data;

    leftovers->count--;
    sharing_leftovers_remove(leftovers->daemon, status == 0 ? leftovers : NULL);
    if (status < 0)
        free(leftovers);
}

void sharing_leftovers_remove(struct daemon *daemon, struct sharing_leftovers *leftovers)
{
    if (!leftovers)
        return;
    leftovers->daemon = daemon;
    leftovers->work.data = leftovers;
    if (leftovers->count == 0 || sharing_services_are_stopped(daemon))
        free(leftovers);
    else
        daemon_queue_work(daemon, &leftovers->work, leftover_remove, on_leftover_removed);
}
