/* request_list.h: queues of the store's requests (store.c), which are linked and not copied. */
#pragma once

#include "daemon/store/store.h"

#include <stddef.h>

struct request {
    store_work work;
    store_done done;
    void *data;
    int result;
    struct error *error; /* owned; only for a failure */
    unsigned cost;       /* rows, of a bulk request */
    struct request *next;
};

struct request_list {
    struct request *first, *last;
};

void request_list_append(struct request_list *list, struct request *request);
/* Moves all of `from` (not empty) to the end of `to`. */
void request_list_join(struct request_list *to, struct request_list *from);
/* Takes at most `limit` requests from the front. */
struct request_list request_list_take(struct request_list *list, size_t limit);
/* Takes requests from the front while their cost fits into `budget`, at least one. */
struct request_list request_list_take_bulk(struct request_list *list, unsigned budget);
