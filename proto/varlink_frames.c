/* varlink_frames.c: splits a stream into messages, each of which ends with a NUL; see varlink.h. */
#include "proto/varlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAMES_CAPACITY_MIN = 4096,
    FRAMES_CAPACITY_IDLE = 65536 /* an empty buffer larger than this is freed */
};

void varlink_frames_release(struct varlink_frames *frames)
{
    free(frames->buffer);
    *frames = (struct varlink_frames){0};
}

int varlink_frames_space(struct varlink_frames *frames, char **space, size_t *size)
{
    if (frames->start == frames->end) {
        frames->start = frames->end = frames->searched = 0;
        if (frames->capacity > FRAMES_CAPACITY_IDLE)
            varlink_frames_release(frames);
    }
    if (frames->end == frames->capacity && frames->start > 0) {
        memmove(frames->buffer, frames->buffer + frames->start, frames->end - frames->start);
        frames->end -= frames->start;
        frames->searched -= frames->start;
        frames->start = 0;
    }
    if (frames->end == frames->capacity) {
        size_t capacity = frames->capacity ? 2 * frames->capacity : FRAMES_CAPACITY_MIN;
        char *buffer;

        if (frames->capacity >= JSON_MESSAGE_MAX)
            return memchr(frames->buffer, '\0', frames->end) ? -ENOBUFS : -EMSGSIZE;
        buffer = realloc(frames->buffer, capacity);
        if (!buffer)
            return -ENOMEM;
        frames->buffer = buffer;
        frames->capacity = capacity;
    }
    *space = frames->buffer + frames->end;
    *size = frames->capacity - frames->end;
    return 0;
}

void varlink_frames_added(struct varlink_frames *frames, size_t size)
{
    frames->end += size;
}

int varlink_frames_next(struct varlink_frames *frames, const char **message, size_t *length)
{
    const char *nul = NULL;

    if (frames->searched < frames->end)
        nul = memchr(frames->buffer + frames->searched, '\0', frames->end - frames->searched);
    if (!nul) {
        frames->searched = frames->end;
        return frames->end - frames->start >= JSON_MESSAGE_MAX ? -EMSGSIZE : 0;
    }
    *message = frames->buffer + frames->start;
    *length = (size_t)(nul - *message);
    frames->start += *length + 1;
    frames->searched = frames->start;
    return 1;
}
