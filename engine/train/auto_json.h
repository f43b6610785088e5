/* auto_json.h: variables whose JSON object is released at the end of their scope. */
#pragma once

#include "base/cleanup.h"

#include <json-c/json.h>

static inline void auto_json_release(struct json_object **object)
{
    json_object_put(*object);
}
#define AUTO_JSON CLEANUP(auto_json_release)
