/* worker_child.c: see worker_child.h. */
#include "worker/trainee/worker_child.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "worker/trainee/worker_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void child_run(struct json_object *(*work)(void *data), void *data, int output)
{
    struct json_object *answer;
    const char *text;
    size_t length;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* its answer would have no reader */
    worker_signals_reset();
    alarm(WORKER_CHILD_SECONDS);
    answer = work(data);
    text = answer ? json_text(answer, &length) : NULL;
    /* skips the exit handlers, which would clean up the parent's resources */
    _exit(text && file_write_all(output, text, length) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static struct json_object *answer_read(int input)
{
    AUTO_FREE char *text = malloc(WORKER_CHILD_ANSWER_MAX);
    struct json_object *answer = NULL;
    size_t length = 0;
    ssize_t part = 1;

    while (text && length < WORKER_CHILD_ANSWER_MAX && part != 0) {
        part = read(input, text + length, WORKER_CHILD_ANSWER_MAX - length);
        if (part < 0 && errno != EINTR)
            return NULL;
        length += part > 0 ? (size_t)part : 0;
    }
    return text && json_parse(text, length, &answer, NULL) == 0 ? answer : NULL;
}

struct json_object *worker_child_ask(struct json_object *(*work)(void *data), void *data,
                                     int *status)
{
    struct json_object *answer;
    int ends[2];
    pid_t child;

    *status = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    child = fork();
    if (child == 0)
        child_run(work, data, ends[1]);
    close(ends[1]);
    answer = child > 0 ? answer_read(ends[0]) : NULL;
    close(ends[0]);
    while (child > 0 && waitpid(child, status, 0) < 0 && errno == EINTR) {
    }
    return answer;
}
