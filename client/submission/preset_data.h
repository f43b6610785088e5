/* preset_data.h: the files of the data sets that presets name. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stdbool.h>

/* Whether all files of the preset lie in the folder; their content is not looked at. */
bool preset_data_is_here(struct json_object *preset, const char *folder);

/* Checks that they are there and have the known digests, where these are known. The sentence says
 * how to get them. */
int preset_data_check(const char *name, struct json_object *preset, const char *folder,
                      struct error *error);

/* Replaces "$TRAIND_DATA" at the beginning of all texts by the folder, and returns the changed
 * specification, which takes the place of `spec`; both have one owner. */
struct json_object *preset_data_place(struct json_object *spec, const char *folder);
