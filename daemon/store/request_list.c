/* request_list.c: see request_list.h. */
#include "daemon/store/request_list.h"

void request_list_append(struct request_list *list, struct request *request)
{
    request->next = NULL;
    if (list->last)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
}

void request_list_join(struct request_list *to, struct request_list *from)
{
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct request_list){0};
}

struct request_list request_list_take(struct request_list *list, size_t limit)
{
    struct request_list taken = {list->first, NULL};
    struct request *last = list->first;

    while (last && last->next && --limit > 0)
        last = last->next;
    if (last) {
        list->first = last->next;
        if (!list->first)
            list->last = NULL;
        last->next = NULL;
    }
    taken.last = last;
    return taken;
}

struct request_list request_list_take_bulk(struct request_list *list, unsigned budget)
{
    size_t count = 0;
    unsigned cost = 0;

    for (const struct request *request = list->first; request; request = request->next) {
        if (count > 0 && cost + request->cost > budget)
            break;
        cost += request->cost;
        count++;
    }
    return request_list_take(list, count);
}
