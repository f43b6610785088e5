/* reply_size.h: keeps replies within the size of a message (JSON_MESSAGE_MAX). How much of a list
 * remains depends on the size of its text, not on its number of elements. */
#pragma once

#include "proto/json.h"

#include <stddef.h>

/* The size of a list that is most of a reply; the rest of the reply fits beside it. */
enum { REPLY_LIST_BYTES = 600 * 1024 };

/* Removes elements from the front, where the oldest are, until the array's text has at most `bytes`
 * bytes. */
void reply_keep_last(struct json_object *array, size_t bytes);

/* Adds the size of `element` to `*used`. Returns whether the sum is still within `bytes`. */
bool reply_fits(struct json_object *element, size_t *used, size_t bytes);
