/* torch_model.c: see torch_model.h. */
#include "client/submission/torch_model.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUTS_MAX = 8, ARGUMENTS_MAX = 8 + 2 * INPUTS_MAX };

/* The file beside the module: "model.Net.onnx" of "model.py:Net". */
static int file_name(const char *module, char *name, size_t size, struct error *error)
{
    const char *colon = strrchr(module, ':');
    size_t length = colon ? (size_t)(colon - module) : 0;

    if (length > 3 && strncmp(colon - 3, ".py", 3) == 0)
        length -= 3;
    if (length == 0 || !colon[1] || strchr(colon, '/') ||
        snprintf(name, size, "%.*s.%s.onnx", (int)length, module, colon + 1) >= (int)size)
        return error_set(error, -EINVAL,
                         "model.torch is \"%s\": name a file and what is in it, such as "
                         "\"model.py:Net\"",
                         module);
    return 0;
}

/* Adds --input for each shape; returns how many arguments there are then. */
static int inputs_add(struct json_object *input, const char **arguments, int count,
                      struct error *error)
{
    bool several = json_object_is_type(input, json_type_array);
    size_t shapes = several ? json_object_array_length(input) : 1;

    for (size_t i = 0; i < shapes && shapes <= INPUTS_MAX; i++) {
        struct json_object *shape = several ? json_object_array_get_idx(input, i) : input;

        if (!json_object_is_type(shape, json_type_string))
            break;
        arguments[count++] = "--input";
        arguments[count++] = json_object_get_string(shape);
        if (i + 1 == shapes)
            return count;
    }
    return error_set(error, -EINVAL,
                     "model.torch needs model.input: the shape of a batch, such as "
                     "\"1,3,224,224\" or \"1,64:int64\", or a list of one for each input");
}

static int export_run(const char *directory, const char *const *arguments, struct error *error)
{
    posix_spawn_file_actions_t actions;
    int status, code = posix_spawn_file_actions_init(&actions);
    pid_t pid;

    if (code)
        return error_set_errno(error, -code, "cannot start %s", arguments[0]);
    code = posix_spawn_file_actions_addchdir_np(&actions, directory);
    if (!code)
        code = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (!code)
        code = posix_spawnp(&pid, arguments[0], &actions, NULL, (char *const *)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (code)
        return error_set_errno(error, -code, "model.torch: cannot start %s in %s", arguments[0],
                               directory);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set_errno(error, -errno, "cannot wait for %s", arguments[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return error_set(error, -EINVAL,
                     "model.torch: `%s -m traind.export %s` failed, as it says above; it needs the "
                     "packages traind, torch and onnxscript (TRAIND_PYTHON names another Python)",
                     arguments[0], arguments[3]);
}

int torch_model_export(struct json_object *spec, struct error *error)
{
    struct json_object *model = json_get(spec, "model");
    const char *module = json_get_string(model, "torch", NULL), *python = getenv("TRAIND_PYTHON");
    const char *arguments[ARGUMENTS_MAX] = {python && *python ? python : "python3", "-m",
                                            "traind.export", module};
    char name[PATH_MAX];
    int count = 4, code;

    if (!module)
        return 0;
    code = file_name(module, name, sizeof name, error);
    if (code)
        return code;
    count = inputs_add(json_get(model, "input"), arguments, count, error);
    if (count < 0)
        return count;
    arguments[count++] = "-o";
    arguments[count] = name;
    code = export_run(json_get_string(spec, "directory", "."), arguments, error);
    if (code)
        return code;
    json_object_object_del(model, "torch"); /* `module` ends here */
    json_object_object_del(model, "input");
    json_set_string(model, "onnx", name);
    return 0;
}
