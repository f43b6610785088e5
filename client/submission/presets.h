/* presets.h: parts of specifications by name, which "resnet18+cifar10+fast" puts together.
 *
 * A preset is a file NAME.json: {"kind", "about", "specification", and of data "files" and "get"}.
 * Those of the user (~/.config/traind/presets) come before those that are installed. */
#pragma once

#include "base/error.h"
#include "client/command_line/invocation.h"
#include "proto/json.h"

#include <stdbool.h>

/* Whether the text may be presets' names with "+" between them, rather than a path. */
bool presets_is_expression(const char *text);

/* Puts the presets together, from left to right: a later one wins. An object with a name or a
 * format of its own (an optimizer) takes the place of an earlier one; a model or data take the
 * place of an earlier preset of that kind as a whole. Checks that the data are there, and are the
 * known ones; they lie in the folder `data`. -ENOENT: there is no such preset, or its data are not
 * there; -EINVAL; with a sentence. The caller owns `*spec`, which is whole where data alone are
 * wrong, and else NULL after a failure. */
int presets_compose(const char *expression, const char *data, struct json_object **spec,
                    struct error *error);

/* All presets, sorted by kind and name: {"name", "kind", "about", and of data "here" and "get"}
 * each, or {"name", "problem"} of one that cannot be used. Data are looked for in the folder
 * `data`; NULL: nowhere. The caller owns the array. */
struct json_object *presets_list(const char *data);

/* The folder that holds the data of presets: TRAIND_DATA, else what the daemon's configuration
 * names, else a folder of the user's. The daemon is asked if there is one. The caller frees it.
 * NULL: without memory, or there is no home. */
char *presets_data_folder(struct invocation *invocation);
