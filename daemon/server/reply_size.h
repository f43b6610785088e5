/* reply_size.h: keeps replies within a message (JSON_MESSAGE_MAX). What is left of a list depends
 * on its text, not on the number of its elements. */
#pragma once

#include "proto/json.h"

#include <stddef.h>

/* For a list that is most of a reply: the rest has room beside it. */
enum { REPLY_LIST_BYTES = 600 * 1024 };

/* Takes the first elements away until the text of the array has at most `bytes` bytes: the last
 * ones are the newest. */
void reply_keep_last(struct json_object *array, size_t bytes);

/* Counts `element` towards `*used`; whether it still fits. */
bool reply_fits(struct json_object *element, size_t *used, size_t bytes);
