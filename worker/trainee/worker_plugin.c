/* worker_plugin.c: see worker_plugin.h. */
#include "worker/trainee/worker_plugin.h"

#include "base/cleanup.h"
#include "base/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void *open_beside(const char *format, const char *name)
{
    AUTO_FREE char *relative = NULL;
    AUTO_FREE char *path = NULL;

    if (asprintf(&relative, format, name) < 0)
        return NULL;
    path = file_beside_program(relative);
    return path && access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_plugin(const char *name, const char *path)
{
    void *library;

    dlerror(); /* forgets older errors */
    if (path)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    library = open_beside("../lib/traind-%s.so", name);
    return library ? library : open_beside("../lib/traind/traind-%s.so", name);
}

int worker_plugin_load(const char *name, const char *path, const struct backend **backend,
                       struct error *error)
{
    const struct backend *(*entry)(void);
    void *library = open_plugin(name, path);
    const char *why;

    if (!library) {
        why = dlerror();
        if (!why)
            return error_set(error, -ENOENT,
                             "the backend for %s cannot be loaded: it is not installed (make %s)",
                             name, name);
        return error_set(error, -ENOENT, "the backend for %s cannot be loaded: %s", name, why);
    }
    *(void **)&entry = dlsym(library, "traind_backend");
    if (!entry || entry()->interface_version != BACKEND_INTERFACE_VERSION) {
        dlclose(library);
        return error_set(error, -ERROR_OTHER_VERSION,
                         "the backend for %s belongs to another version of traind; build it anew",
                         name);
    }
    *backend = entry();
    return 0;
}
