/* worker_plugin.h: backends that are loaded at run time. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

/* The backend `name` ("cuda") from lib/traind-<name>.so beside the program's folder, else
 * lib/traind/traind-<name>.so; `path`, unless NULL, is loaded instead. It stays loaded. -ENOENT: it
 * is not installed; -ERROR_OTHER_VERSION: it was built for another version of traind. */
int worker_plugin_load(const char *name, const char *path, const struct backend **backend,
                       struct error *error);
