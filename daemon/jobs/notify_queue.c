/* notify_queue.c: see notify_queue.h. */
#include "daemon/jobs/notify_queue.h"

#include "base/memory.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>

/* Each running command costs a shim, and a descriptor of traind, for up to NOTIFY_SECONDS. */
enum { NOTICES_AT_ONCE = 64, NOTICES_OF_USER = 8 };

struct waiting_end {
    struct waiting_end *next;
    int64_t job;
};

/* One user's waiting ends and running commands. An entry is never removed, because users are
 * few. */
struct notify_user {
    struct notify_user *next;
    uid_t uid;
    size_t running;
    struct waiting_end *first, *last;
};

struct notify_queue {
    struct notify_user *users, *next;
    size_t running;
    notify_queue_turn turn;
};

/* The user's entry, which is made if there is none. */
static struct notify_user *user_make(struct jobs *jobs, uid_t uid)
{
    struct notify_user *user = jobs->notify_queue->users;

    while (user && user->uid != uid)
        user = user->next;
    if (user)
        return user;
    user = memory_zero(sizeof *user);
    user->uid = uid;
    user->next = jobs->notify_queue->users;
    jobs->notify_queue->users = user;
    return user;
}

/* The user whose turn it is; NULL: no user has an end that may run. */
static struct notify_user *next_user(const struct jobs *jobs)
{
    struct notify_user *begin =
        jobs->notify_queue->next ? jobs->notify_queue->next : jobs->notify_queue->users;
    struct notify_user *user = begin;

    if (jobs->notify_queue->running >= NOTICES_AT_ONCE)
        return NULL;
    while (user && !(user->first && user->running < NOTICES_OF_USER)) {
        user = user->next ? user->next : jobs->notify_queue->users;
        if (user == begin)
            return NULL;
    }
    return user;
}

static void run_next(struct jobs *jobs)
{
    struct notify_user *user;

    while (!jobs->stopping && (user = next_user(jobs))) {
        struct waiting_end *end = user->first;
        int64_t job = end->job;

        jobs->notify_queue->next = user->next;
        user->first = end->next;
        free(end);
        notify_queue_take(jobs, user->uid);
        jobs->notify_queue->turn(jobs, job, user->uid);
    }
}

void notify_queue_add(struct jobs *jobs, int64_t job, uid_t uid)
{
    struct notify_user *user = user_make(jobs, uid);
    struct waiting_end *end = memory_allocate(sizeof *end);

    *end = (struct waiting_end){.job = job};
    if (user->first)
        user->last->next = end;
    else
        user->first = end;
    user->last = end;
    run_next(jobs);
}

void notify_queue_take(struct jobs *jobs, uid_t uid)
{
    jobs->notify_queue->running++;
    user_make(jobs, uid)->running++;
}

void notify_queue_give_back(struct jobs *jobs, uid_t uid)
{
    jobs->notify_queue->running--;
    user_make(jobs, uid)->running--;
    run_next(jobs);
}

void notify_queue_start(struct jobs *jobs, notify_queue_turn turn)
{
    jobs->notify_queue = memory_zero(sizeof *jobs->notify_queue);
    jobs->notify_queue->turn = turn;
}

void notify_queue_free(struct jobs *jobs)
{
    if (!jobs->notify_queue)
        return;
    for (struct notify_user *user = jobs->notify_queue->users, *next; user; user = next) {
        for (struct waiting_end *end = user->first, *after; end; end = after) {
            after = end->next;
            free(end);
        }
        next = user->next;
        free(user);
    }
    free(jobs->notify_queue);
}
