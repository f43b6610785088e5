/* reply_size.c: see reply_size.h. */
#include "daemon/server/reply_size.h"

bool reply_fits(struct json_object *element, size_t *used, size_t bytes)
{
    size_t length = 0;

    if (element)
        json_text(element, &length);
    *used += length + 1; /* and a comma */
    return *used <= bytes;
}

void reply_keep_last(struct json_object *array, size_t bytes)
{
    size_t count =
        json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
    size_t kept = 0, used = 0;

    while (kept < count &&
           reply_fits(json_object_array_get_idx(array, count - 1 - kept), &used, bytes))
        kept++;
    if (kept < count)
        json_object_array_del_idx(array, 0, count - kept);
}
