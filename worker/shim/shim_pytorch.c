/* shim_pytorch.c: a hard limit on what PyTorch takes of a GPU. Its allocator has one,
 * per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, but an older PyTorch ends with an error
 * at an option that it does not know. Which options it knows stands in a header that every package
 * of PyTorch brings along. So the shim looks, as the job's user, for packages beside the program:
 * in the folder of its environment and where PYTHONPATH and the user's own packages lie. All that
 * it finds must know the option. What it does not find is left to the daemon, which watches what
 * jobs hold. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "worker/shim/shim.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "torch/include/c10/cuda/CUDAAllocatorConfig.h"
#define OPTION "per_process_memory_fraction"

enum { HEADER_MAX = 256 * 1024 };

/* What is known of the packages that were found. */
struct packages {
    int with, without; /* the option */
};

static char **variable_find(const struct attempt_config *config, const char *name)
{
    size_t length = strlen(name);

    for (char **entry = config->environment; entry && *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return entry;
    return NULL;
}

static const char *variable(const struct attempt_config *config, const char *name)
{
    char **entry = variable_find(config, name);

    return entry ? *entry + strlen(name) + 1 : NULL;
}

/* Looks at the package in a folder of modules, if there is one. */
static void look(const char *folder, struct packages *packages)
{
    AUTO_FREE char *path = memory_format("%s/" HEADER, folder);
    AUTO_FREE char *text = NULL;
    AUTO_CLOSE int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    AUTO_FREE char *module = memory_format("%s/torch", folder);
    ssize_t length;

    if (file < 0) { /* a PyTorch without the header may be of any version */
        packages->without += access(module, F_OK) == 0;
        return;
    }
    text = memory_allocate(HEADER_MAX);
    length = read(file, text, HEADER_MAX);
    if (length > 0 && memmem(text, (size_t)length, "\"" OPTION "\"", strlen(OPTION) + 2))
        packages->with++;
    else
        packages->without++;
}

/* Looks into PREFIX/lib/python3.…/site-packages and dist-packages. */
static void look_below(const char *prefix, struct packages *packages)
{
    AUTO_FREE char *library = memory_format("%s/lib", prefix);
    DIR *versions = opendir(library);
    struct dirent *version;

    while (versions && (version = readdir(versions))) {
        AUTO_FREE char *site = memory_format("%s/%s/site-packages", library, version->d_name);
        AUTO_FREE char *dist = memory_format("%s/%s/dist-packages", library, version->d_name);

        if (strncmp(version->d_name, "python3", strlen("python3")) != 0)
            continue;
        look(site, packages);
        look(dist, packages);
    }
    if (versions)
        closedir(versions);
}

/* The path of the program, owned; NULL: it is not in PATH. */
static char *program_find(const struct attempt_config *config)
{
    const char *program = config->arguments[0], *path = variable(config, "PATH");

    if (strchr(program, '/'))
        return *program == '/' ? memory_copy_text(program)
                               : memory_format("%s/%s", config->directory, program);
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *file = memory_format("%.*s/%s", (int)length, path, program);

        if (access(file, X_OK) == 0)
            return file;
        free(file);
        path += length + (path[length] == ':');
    }
    return NULL;
}

/* Cuts the last name off the path. */
static bool path_up(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* Whether the PyTorch that the program will import knows the option. A program of the system that
 * is not Python itself says nothing about the Python that it starts. */
static bool knows_option(const struct attempt_config *config)
{
    AUTO_FREE char *program = program_find(config);
    const char *name = program ? strrchr(program, '/') + 1 : "";
    bool is_python = strncmp(name, "python", strlen("python")) == 0, is_system;
    const char *path = variable(config, "PYTHONPATH"), *home = variable(config, "HOME");
    struct packages packages = {0};

    if (!program || !path_up(program) || !path_up(program))
        return false;
    is_system = strcmp(program, "/usr") == 0 || strcmp(program, "/usr/local") == 0;
    if (!is_python && is_system)
        return false;
    look_below(program, &packages);
    if (strcmp(program, "/usr") == 0)
        look_below("/usr/local", &packages);
    while (path && *path) {
        size_t length = strcspn(path, ":");
        AUTO_FREE char *folder = memory_format("%.*s", (int)length, path);

        look(folder, &packages);
        path += length + (path[length] == ':');
    }
    if (home && is_system) {
        AUTO_FREE char *local = memory_format("%s/.local", home);

        look_below(local, &packages);
    }
    return packages.with > 0 && packages.without == 0;
}

void shim_pytorch_limit(struct attempt_config *config)
{
    static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    const char *part = variable(config, "TRAIND_DEVICE_MEMORY_PART");
    AUTO_FREE char *ours = part ? memory_format("garbage_collection_threshold:%s", part) : NULL;

    if (!part || !knows_option(config))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char **entry = variable_find(config, names[i]);
        char *longer;

        if (!entry || strcmp(variable(config, names[i]), ours) != 0)
            continue; /* the user's own */
        longer = memory_format("%s," OPTION ":%s", *entry, part);
        free(*entry);
        *entry = longer;
    }
}
