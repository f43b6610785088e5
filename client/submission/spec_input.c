/* spec_input.c: see spec_input.h. */
#include "client/submission/spec_input.h"

#include "base/text.h"
#include "client/submission/presets.h"
#include "client/submission/spec_options.h"
#include "client/submission/torch_model.h"
#include "proto/job_spec.h"
#include "proto/profile_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPECS_FILE_MAX = 256 * 1024 * 1024 };

/* Variables of the submitting environment that a job's programs need. */
static const char *const inherited_variables[] = {
    "PATH", "LANG", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH",
};

/* Variables that are left out: the shell's own, and those that select a device, which the daemon
 * sets. */
static const char *const left_variables[] = {
    "_", "SHLVL", "PWD", "OLDPWD", "CUDA_VISIBLE_DEVICES",
};

enum { SHELL_ENVIRONMENT_MAX = 256 * 1024 };

/* Reads a pipe or a terminal to its end, at most SPECS_FILE_MAX bytes. */
static int input_read(int descriptor, const char *name, char **text, size_t *size,
                      struct error *error)
{
    AUTO_FREE char *buffer = NULL;
    size_t capacity = 0, used = 0;
    ssize_t got;

    do {
        if (used == capacity) {
            char *grown = realloc(buffer, capacity = capacity ? 2 * capacity : 65536);

            if (!grown)
                return error_set(error, -ENOMEM, "not enough memory to read %s", name);
            buffer = grown;
        }
        got = read(descriptor, buffer + used, capacity - used);
        if (got < 0 && errno != EINTR)
            return error_set_errno(error, -errno, "cannot read %s", name);
        used += got > 0 ? (size_t)got : 0;
        if (used > SPECS_FILE_MAX)
            return error_set(error, -EFBIG, "%s has more than %d bytes", name, SPECS_FILE_MAX);
    } while (got != 0);
    *text = TAKE_POINTER(buffer);
    *size = used;
    return 0;
}

/* Parses the file; "-" is standard input, and <(COMMAND) of a shell gives a pipe. What is no file
 * may be names of presets. */
static int spec_parse(struct invocation *invocation, const char *path, struct json_object **spec,
                      struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    AUTO_CLOSE int pipe = -1;
    AUTO_FREE char *text = NULL;
    struct stat status;
    size_t size = 0;
    int result;

    if (!standard && access(path, F_OK) < 0 && presets_is_expression(path)) {
        AUTO_FREE char *folder = presets_data_folder(invocation);

        return presets_compose(path, folder, spec, error);
    }
    if (!standard && (stat(path, &status) < 0 || !S_ISFIFO(status.st_mode)))
        return json_parse_file(path, SPECS_FILE_MAX, spec, error);
    if (!standard && (pipe = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    result = input_read(standard ? STDIN_FILENO : pipe, name, &text, &size, error);
    if (result < 0)
        return result;
    result = json_parse(text, size, spec, error);
    return result < 0 ? error_prefix(error, "%s", name) : 0;
}

/* Applies --set and --profile. */
static int options_apply(const struct invocation *invocation, struct json_object *spec,
                         struct error *error)
{
    const char *assignment;
    int result;

    for (size_t at = 0; (assignment = invocation_option_next(invocation, "set", &at));) {
        result = job_spec_set(spec, assignment, error);
        if (result < 0)
            return error_prefix(error, "--set");
    }
    if (invocation_flag(invocation, "profile") && !json_get(json_get(spec, "train"), "profile")) {
        char profile[64];

        snprintf(profile, sizeof profile, "train.profile=%d", PROFILE_STEPS_DEFAULT);
        result = job_spec_set(spec, profile, error);
        if (result < 0)
            return error_prefix(error, "--profile");
    }
    return 0;
}

/* Where a preset's data are missing and a key of the specification is wrong, too, the key is told:
 * nobody should fetch data to learn of it. */
static void key_error_prefer(const struct invocation *invocation, struct json_object *spec,
                             struct error *error)
{
    JSON_AUTO struct json_object *normalised = NULL;
    struct error wrong = {0};

    if (options_apply(invocation, spec, &wrong) < 0 ||
        job_spec_normalise(spec, &normalised, NULL, &wrong) < 0)
        *error = wrong;
}

int spec_input_read(struct invocation *invocation, const char *path, struct json_object *specs,
                    struct error *error)
{
    JSON_AUTO struct json_object *content = NULL;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    int result = spec_parse(invocation, path, &content, error);
    bool several;
    size_t count;

    if (result < 0 && content)
        key_error_prefer(invocation, content, error);
    if (result < 0)
        return error->code;
    several = json_object_is_type(content, json_type_array);
    count = several ? json_object_array_length(content) : 1;
    if (count == 0)
        return error_set(error, -EINVAL, "%s holds an empty array: there is nothing to submit",
                         name);
    for (size_t i = 0; i < count; i++) {
        struct json_object *spec = several ? json_object_array_get_idx(content, i) : content;

        if (!json_object_is_type(spec, json_type_object))
            return error_set(error, -EINVAL,
                             "%s: a job specification is a JSON object such as {\"command\": "
                             "[\"true\"]}; `trainctl help spec` lists its keys",
                             name);
        json_object_array_add(specs, json_object_get(spec));
    }
    return 0;
}

/* Applies --env NAME=VALUE, or NAME with its present value. */
static int environment_set(struct json_object *environment, const char *assignment,
                           struct error *error)
{
    const char *equals = strchr(assignment, '=');
    AUTO_FREE char *name =
        equals ? strndup(assignment, (size_t)(equals - assignment)) : strdup(assignment);
    const char *value;

    if (!name)
        return error_set(error, -ENOMEM, "not enough memory");
    if (!*name)
        return error_set(error, -EINVAL, "--env=%s: the name of the variable is missing",
                         assignment);
    value = equals ? equals + 1 : getenv(name);
    if (!value)
        return error_set(error, -EINVAL,
                         "--env=%s: it is not set here; give it a value: --env=%s=…", name, name);
    json_set_string(environment, name, value);
    return 0;
}

static bool variable_is_left(const char *name)
{
    for (size_t i = 0; i < sizeof left_variables / sizeof *left_variables; i++)
        if (strcmp(left_variables[i], name) == 0)
            return true;
    return strncmp(name, "TRAIND_", 7) == 0 && strcmp(name, "TRAIND_SOCKET") != 0;
}

static bool is_inherited(const char *name)
{
    for (size_t i = 0; i < sizeof inherited_variables / sizeof *inherited_variables; i++)
        if (strcmp(inherited_variables[i], name) == 0)
            return true;
    return false;
}

int spec_input_add_shell_environment(struct json_object *spec, struct error *error)
{
    struct json_object *variables = json_object_new_object();
    size_t bytes = 0;

    json_set(spec, "shell_environment", variables);
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[256];

        if (!equals || equals == *at || (size_t)(equals - *at) >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *at), *at);
        if (variable_is_left(name))
            continue;
        if (!text_is_utf8(*at, strlen(*at))) { /* a JSON string cannot contain it */
            if (!is_inherited(name))           /* of which spec_input_complete() tells */
                complain("the variable %s is no UTF-8, which all texts are: the job goes without "
                         "it",
                         text_is_utf8(name, strlen(name)) ? name : "of such a name");
            continue;
        }
        bytes += strlen(*at);
        json_set_string(variables, name, equals + 1);
    }
    if (bytes > SHELL_ENVIRONMENT_MAX)
        return error_set(error, -E2BIG,
                         "the environment has %zu bytes, more than a job takes along (%d); pass "
                         "--no-env, and what it needs by --env NAME",
                         bytes, SHELL_ENVIRONMENT_MAX);
    if (!getenv("PYTHONUNBUFFERED")) /* a script's output appears in its log at once */
        json_set_string(variables, "PYTHONUNBUFFERED", "1");
    return 0;
}

int spec_input_complete(const struct invocation *invocation, struct json_object *spec,
                        struct error *error)
{
    struct json_object *environment;
    const char *assignment;
    int result = options_apply(invocation, spec, error);

    if (result < 0)
        return result;
    if (!json_get(spec, "directory")) {
        AUTO_FREE char *directory = getcwd(NULL, 0);

        if (!directory)
            return error_set_errno(error, -errno, "the current directory is not there any more");
        json_set_string(spec, "directory", directory);
    }
    environment = json_get(spec, "environment");
    if (!environment) {
        environment = json_object_new_object();
        json_set(spec, "environment", environment);
    }
    if (!json_object_is_type(environment, json_type_object))
        return 0; /* the daemon reports the error */
    result = torch_model_export(spec, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < sizeof inherited_variables / sizeof *inherited_variables; i++) {
        const char *name = inherited_variables[i], *value = getenv(name);

        if (!value || json_object_object_get_ex(environment, name, NULL))
            continue;
        if (!text_is_utf8(value, strlen(value)))
            return error_set(error, -EILSEQ,
                             "the variable %s is no UTF-8, which all texts are; set it so, or give "
                             "the job another one: --env=%s=…",
                             name, name);
        json_set_string(environment, name, value);
    }
    for (size_t at = 0; (assignment = invocation_option_next(invocation, "env", &at));) {
        result = environment_set(environment, assignment, error);
        if (result < 0)
            return result;
    }
    return 0;
}

enum exit_status spec_input_read_one(struct invocation *invocation, bool by_options,
                                     struct json_object **spec, struct json_object **normalised)
{
    JSON_AUTO struct json_object *specs = json_object_new_array();
    const char *path = invocation->arguments[0];
    struct error error = {0};

    if (spec_input_read(invocation, path, specs, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (json_object_array_length(specs) != 1) {
        complain("%s holds %zu specifications; this takes one", path,
                 json_object_array_length(specs));
        return EXIT_STATUS_USAGE;
    }
    *spec = json_object_get(json_object_array_get_idx(specs, 0));
    if (by_options && spec_options_apply(invocation, *spec))
        return EXIT_STATUS_USAGE;
    if (spec_input_complete(invocation, *spec, &error) < 0 ||
        job_spec_normalise(*spec, normalised, NULL, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}
