/* shim_metrics.c: the descriptor on which a command writes its metrics, one line of JSON each. It
 * is a pipe, which costs a short attempt much less time than a file. The shim copies whole lines
 * from it to the spool, with one write at a time. Several processes of the job may write at once:
 * writes of up to PIPE_BUF (4096) bytes to a pipe are atomic. */
#include "base/log.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_SIZE = 1024 * 1024, /* a longer line breaks the spool's rules */
    FIRST_FREE_DESCRIPTOR = 10 /* above those that the trainee is given */
};

int shim_metrics_open(struct shim_metrics *metrics, struct error *error)
{
    int ends[2], lifted;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(error, -errno, "cannot make a pipe for metrics");
    lifted = fcntl(ends[1], F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR);
    close(ends[1]);
    if (lifted < 0) {
        close(ends[0]);
        return error_set_errno(error, -errno, "cannot make a pipe for metrics");
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the writer's end blocks, as standard output does */
    metrics->reader = ends[0];
    metrics->writer = lifted;
    return 0;
}

void shim_metrics_started(struct shim_metrics *metrics)
{
    if (metrics->writer >= 0)
        close(metrics->writer);
    metrics->writer = -1;
}

/* Appends to the spool and returns how many bytes were written. Logs only the first failure; a
 * failure does not end the job. */
static size_t spool_append(struct shim_metrics *metrics, const char *bytes, size_t size)
{
    AUTO_CLOSE int spool =
        open("spool", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    ssize_t written;

    do
        written = spool < 0 ? -1 : write(spool, bytes, size);
    while (spool >= 0 && written < 0 && errno == EINTR);
    if (written != (ssize_t)size && !metrics->complained) {
        metrics->complained = true;
        log_error("metrics cannot be written to the spool, and wait in memory: %s",
                  written < 0 ? strerror(errno) : "the disk is full");
    }
    if (written <= 0)
        return 0;
    metrics->torn = bytes[written - 1] != '\n';
    return (size_t)written;
}

/* Removes `size` bytes from the buffer. */
static void buffer_drop(struct shim_metrics *metrics, size_t start, size_t size)
{
    metrics->used -= size;
    memmove(metrics->buffer + start, metrics->buffer + start + size, metrics->used - start);
}

/* Drops the complete lines in the buffer (`whole` bytes) and counts them. Keeps a line whose first
 * part is in the spool already if others follow, because the next line would otherwise be appended
 * to that part. */
static void lines_lose(struct shim_metrics *metrics, size_t whole)
{
    size_t start = 0;

    if (metrics->torn) {
        const char *newline = memchr(metrics->buffer, '\n', whole);

        start = newline ? (size_t)(newline - metrics->buffer) + 1 : 0;
        if (start == whole)
            start = 0;
    }
    for (size_t i = start; i < whole; i++)
        metrics->lost += metrics->buffer[i] == '\n';
    buffer_drop(metrics, start, whole - start);
}

/* Writes the complete lines of the buffer to the spool, and also a line that fills the whole
 * buffer. If the disk is full they wait in the buffer; if that is full too, they are lost. */
static void lines_append(struct shim_metrics *metrics)
{
    const char *newline = memrchr(metrics->buffer, '\n', metrics->used);
    size_t whole = newline ? (size_t)(newline - metrics->buffer) + 1 : 0, written;

    if (whole == 0 && metrics->used == BUFFER_SIZE)
        whole = metrics->used;
    if (whole == 0)
        return;
    written = spool_append(metrics, metrics->buffer, whole);
    buffer_drop(metrics, 0, written);
    if (metrics->used == BUFFER_SIZE)
        lines_lose(metrics, whole - written);
}

bool shim_metrics_read(struct shim_metrics *metrics)
{
    ssize_t got;

    if (metrics->reader < 0)
        return false;
    if (!metrics->buffer)
        metrics->buffer = malloc(BUFFER_SIZE); /* pages count once they are written to */
    if (!metrics->buffer)
        return false;
    got = read(metrics->reader, metrics->buffer + metrics->used, BUFFER_SIZE - metrics->used);
    if (got > 0) {
        metrics->used += (size_t)got;
        lines_append(metrics);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) { /* no writer is open */
        close(metrics->reader);
        metrics->reader = -1;
    }
    return got > 0;
}

void shim_metrics_finish(struct shim_metrics *metrics)
{
    shim_metrics_started(metrics);
    while (shim_metrics_read(metrics)) { /* no process writes any more */
    }
    if (metrics->used > 0 && metrics->used < BUFFER_SIZE) {
        if (metrics->buffer[metrics->used - 1] != '\n') /* the last line has no line break */
            metrics->buffer[metrics->used++] = '\n';
        lines_append(metrics);
    }
    for (size_t i = 0; i < metrics->used; i++)
        metrics->lost += metrics->buffer[i] == '\n';
    metrics->used = 0;
    if (metrics->reader >= 0)
        close(metrics->reader);
    metrics->reader = -1;
    free(metrics->buffer);
    metrics->buffer = NULL;
}
