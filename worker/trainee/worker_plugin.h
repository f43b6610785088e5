/* worker_plugin.h: loads backends at run time. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

/* Loads the backend `name` ("cuda") from lib/traind-<name>.so beside the program's folder, or else
 * from lib/traind/traind-<name>.so. `path`, unless NULL, is loaded instead. The backend stays
 * loaded. -ENOENT: it is not installed; -ERROR_OTHER_VERSION: it was built for another version of
 * traind. */
int worker_plugin_load(const char *name, const char *path, const struct backend **backend,
                       struct error *error);
