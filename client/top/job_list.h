/* job_list.h: the jobs of `top`: which of them are listed, in which order, and which one is
 * selected. It knows no screen and no daemon. */
#pragma once

#include "proto/json.h"

#include <stddef.h>

enum job_order {
    ORDER_STATE, /* those that run, those that wait by their place in the queue, those that ended */
    ORDER_NUMBER,
    ORDER_NAME,
    ORDER_USER,
    ORDER_DEVICE,
    ORDER_PRIORITY,
    ORDER_TIME, /* how long they ran */
    ORDER_COUNT
};

struct job_list {
    struct json_object **jobs; /* owned references, in order */
    size_t count, room;
    struct json_object *all; /* an array of Job; owned */
    char filter[128];        /* "": all */
    enum job_order order;
    bool reversed;
    int64_t selected; /* the job's number; 0: none */
    size_t index;     /* where it stands, or where it stood before it vanished */
    size_t offset;    /* of the first job that is shown */
    size_t shown;     /* how many lines there are for jobs */
    double now;       /* of the order by time */
};

/* What people call the order. */
const char *job_order_name(enum job_order order);

/* Replaces the jobs; takes over `all`. The selected job stays selected; if it is gone, that which
 * took its place is. */
void job_list_set(struct job_list *list, struct json_object *all);
void job_list_release(struct job_list *list);
/* Call it after `filter`, `order`, `reversed` or `shown` changed. */
void job_list_arrange(struct job_list *list);

/* Selects the job `lines` below (above) the selected one, at most the last (first) one. */
void job_list_step(struct job_list *list, long lines);
/* Selects the job that is shown in that line; false: there is none. */
bool job_list_select_line(struct job_list *list, size_t line);
/* Shows jobs `lines` below (above); the selection stays on what is shown. */
void job_list_scroll(struct job_list *list, long lines);
/* The selected job, borrowed; NULL: there is none. */
struct json_object *job_list_selected(const struct job_list *list);
