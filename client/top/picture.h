/* picture.h: what `top` shows: the daemon's latest replies. */
#pragma once

#include "client/command_line/invocation.h"

struct picture {
    struct json_object *devices, *running, *queued, *ended; /* replies of Devices and List */
};

/* Fetches everything; `ended`: so many of the jobs that ended last. A daemon that does not answer
 * within a second is left alone, and the picture stays as it is. 0, or -errno and a sentence. */
int picture_fetch(struct picture *picture, struct invocation *invocation, size_t ended,
                  struct error *error);
void picture_release(struct picture *picture);

/* All jobs in one array, which the caller owns. */
struct json_object *picture_jobs(const struct picture *picture);
/* How many of the jobs that have begun are paused. */
size_t picture_count_paused(const struct picture *picture);
/* Writes how many jobs a reply of List has, besides so many `others` of them: "12", or "500+" if
 * there are more. */
char *picture_count(struct json_object *list, size_t others, char *output, size_t size);
/* Prints {"devices", "running", "queued", "ended"} on standard output, one line. */
void picture_print_json(const struct picture *picture);
