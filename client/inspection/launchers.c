/* launchers.c: programs whose names say what they are: those that start other programs, and those
 * that run programs of a language. */
#include "base/memory.h"
#include "client/inspection/look.h"

#include <stdlib.h>
#include <string.h>

enum launcher_kind {
    WRAPPER,     /* NAME [OPTION…] COMMAND… */
    ENVIRONMENT, /* env [OPTION…] [NAME=VALUE…] COMMAND… */
    PYTHON,
    SHELL,
    NOTEBOOK, /* its arguments name notebooks */
    TOOL,     /* it uses no GPU */
    GPU,      /* it starts programs that use GPUs */
    OPAQUE    /* nobody knows what it runs */
};

struct launcher {
    const char *names; /* separated by spaces */
    enum launcher_kind kind;
    const char *verb;   /* its first argument; NULL: any */
    const char *values; /* options with a value in the next word */
    int skip;           /* arguments between the options and the command */
};

/* clang-format off */
static const struct launcher launchers[] = {
    {"env", ENVIRONMENT, NULL, "-u --unset -C --chdir", 0},
    {"nohup setsid unbuffer chronic exec command catchsegv", WRAPPER, NULL, "", 0},
    {"time", WRAPPER, NULL, "-f -o --format --output", 0},
    {"nice", WRAPPER, NULL, "-n --adjustment", 0},
    {"ionice", WRAPPER, NULL, "-c -n --class --classdata", 0},
    {"stdbuf", WRAPPER, NULL, "-i -o -e --input --output --error", 0},
    {"timeout", WRAPPER, NULL, "-k -s --kill-after --signal", 1},
    {"taskset chrt", WRAPPER, NULL, "", 1},
    {"flock", WRAPPER, NULL, "-w -E --timeout --wait", 1},
    {"xargs parallel", WRAPPER, NULL,
     "-a -d -j -n -s -C -E -I -L -N -P -S --arg-file --delay --delimiter --jobs --joblog --max-args --max-lines"
     " --max-procs --results --retries --timeout --tmpdir", 0},
    {"watch unshare nsenter setpriv prlimit choom setarch linux64 linux32 x86_64 firejail dumb-init tini rlwrap cpulimit",
     WRAPPER, NULL, "", 0}, /* values are numbers, and the letters stand for something else in each */
    {"gdb lldb", WRAPPER, NULL, "-ex -iex -x -o -s --command --one-line --source", 0},
    {"perf", WRAPPER, "record", "-e -o -F -c --event --output --freq --count --call-graph", 0},
    {"perf", WRAPPER, "stat", "-e -o -r -I -x --event --output --repeat", 0},
    {"numactl", WRAPPER, NULL, "-i -N -m -C -p --interleave --cpunodebind --membind --physcpubind --preferred", 0},
    {"sudo doas", WRAPPER, NULL, "-u -g -C -D -h -p -R -T -U", 0},
    {"strace ltrace", WRAPPER, NULL, "-o -e -p -s -E -u -P", 0},
    {"valgrind xvfb-run", WRAPPER, NULL, "-n -s -f -e -p", 0},
    {"mpirun mpiexec orterun srun", WRAPPER, NULL,
     "-n -np -N -c -p -t -H -x --host -hostfile --hostfile --map-by --bind-to --np -J -A -w -o -e", 0},
    {"conda mamba micromamba", WRAPPER, "run", "-n --name -p --prefix --cwd", 0},
    {"poetry pdm hatch pipenv rye pixi", WRAPPER, "run", "-p --project -P -e --environment -C --directory", 0},
    {"coverage memray streamlit", WRAPPER, "run", "-o --output --rcfile", 0},
    {"viztracer scalene pyinstrument kernprof", WRAPPER, NULL, "-o --output_file --outfile", 0},
    {"py-spy", WRAPPER, "record", "-o --output -r --rate -d --duration -f --format", 0},
    {"uv", WRAPPER, "run",
     "--with --with-editable --with-requirements -p --python --project --directory --env-file --extra --group"
     " --only-group --no-group --no-extra --package --index --index-url --extra-index-url --cache-dir --config-file"
     " -P -w --python-platform", 0},
    {"torchrun deepspeed horovodrun composer colossalai", GPU, NULL, "", 0},
    {"accelerate", GPU, "launch", "", 0},
    {"nsys ncu nvprof compute-sanitizer cuda-gdb cuda-memcheck", GPU, NULL, "", 0},
    {"sh bash dash zsh ksh ash script", SHELL, NULL, "", 0},
    {"pip pip3", TOOL, NULL, "", 0},
    {"jupyter jupyter-nbconvert jupyter-execute papermill", NOTEBOOK, NULL, "", 0},
    {"julia R Rscript java scala node deno bun octave octave-cli matlab luajit lua th docker podman nerdctl"
     " apptainer singularity enroot ssh kubectl sbatch su runuser sg systemd-run tmux screen tsp at batch uvx pipx"
     " jupyter-lab jupyter-notebook pytest", OPAQUE, NULL, "", 0},
};
/* clang-format on */

static const struct launcher python = {"python", PYTHON, NULL, "", 0};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool look_is_listed(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; length && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

/* Whether it is an interpreter of Python: "python", "python3.12", "pypy3", "ipython". */
static bool is_python(const char *name)
{
    static const char *const names[] = {"python", "pypy", "ipython"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);

        if (strncmp(name, names[i], length) == 0 &&
            !name[length + strspn(name + length, "0123456789.t")])
            return true;
    }
    return false;
}

static const struct launcher *launcher_find(const struct look_words *command)
{
    const char *name = base_name(command->words[0]);

    if (is_python(name))
        return &python;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (look_is_listed(launchers[i].names, name) &&
            (!launchers[i].verb ||
             (command->count > 1 && strcmp(command->words[1], launchers[i].verb) == 0)))
            return &launchers[i];
    return NULL;
}

/* ---- wrappers -------------------------------------------------------------------------------- */

static bool ends_with(const char *word, const char *ending)
{
    size_t length = strlen(word), end = strlen(ending);

    return length > end && strcmp(word + length - end, ending) == 0;
}

/* Whether a command may begin with the word. */
static bool begins_command(struct look *look, const struct look_words *command, size_t at)
{
    struct look_words rest = {command->words + at, command->count - at, command->directory};
    AUTO_FREE char *path = NULL;

    if (launcher_find(&rest))
        return true;
    path = look_program_path(look, command->directory, rest.words[0]);
    return path != NULL;
}

/* Looks at what stands behind the options. A word that is no program belongs to an option that is
 * not listed. */
static void look_behind(struct look *look, const struct look_words *command, size_t at)
{
    if (at >= command->count) { /* as `| xargs`, which prints what it reads */
        look_found_none(look, "%s starts nothing", base_name(command->words[0]));
        return;
    }
    for (; at < command->count; at++) {
        struct look_words rest = {command->words + at, command->count - at, command->directory};

        if (ends_with(rest.words[0], ".py")) {
            look_at_python_script(look, command->directory, rest.words[0]);
            return;
        }
        if (begins_command(look, command, at)) {
            look_at_words(look, &rest);
            return;
        }
    }
    look->unknown = true;
}

/* Skips the options from `at` on. uv runs a module with -m: then `*module` is its place. */
static size_t skip_options(const struct launcher *launcher, const struct look_words *command,
                           size_t at, size_t *module)
{
    for (; at < command->count && command->words[at][0] == '-'; at++) {
        const char *word = command->words[at];

        if (strcmp(word, "--") == 0)
            return at + 1;
        if (launcher->verb && (strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0))
            *module = at + 1;
        at += look_is_listed(launcher->values, word);
    }
    return at;
}

static void look_at_wrapped(struct look *look, const struct launcher *launcher,
                            const struct look_words *command)
{
    size_t module = 0, at = skip_options(launcher, command, launcher->verb ? 2 : 1, &module);

    if (module && module < command->count) {
        struct look_words rest = {command->words + module, command->count - module,
                                  command->directory};

        look_at_python_module(look, &rest, rest.words[0]);
        return;
    }
    look_behind(look, command, at + (size_t)launcher->skip);
}

/* ---- env ------------------------------------------------------------------------------------- */

/* The command that `env -S TEXT` makes of a text: its words, without regard to quotes. */
static void look_at_split(struct look *look, const struct look_words *command, const char *text,
                          size_t at)
{
    AUTO_FREE char *copy = memory_copy_text(text);
    char *words[LOOK_WORDS_MAX + 1], *rest = NULL;
    size_t count = 0;

    words[count++] = (char *)"env";
    for (char *word = strtok_r(copy, " \t", &rest); word && count < LOOK_WORDS_MAX;
         word = strtok_r(NULL, " \t", &rest))
        words[count++] = word;
    for (; at < command->count && count < LOOK_WORDS_MAX; at++)
        words[count++] = command->words[at];
    words[count] = NULL;
    look_at_words(look, &(struct look_words){words, count, command->directory});
}

/* The variables hold for this command alone. */
static void look_at_environment(struct look *look, const struct launcher *launcher,
                                const struct look_words *command)
{
    struct json_object *outer = look->assigned, *inner = NULL;
    size_t at = 1;

    if (json_object_deep_copy(outer, &inner, NULL) < 0)
        return;
    look->assigned = inner;
    for (; at < command->count; at++) {
        const char *word = command->words[at], *equals = strchr(word, '=');

        if (strncmp(word, "-S", 2) == 0 && (word[2] || at + 1 < command->count)) {
            look_at_split(look, command, word[2] ? word + 2 : command->words[at + 1],
                          at + 1 + !word[2]);
            at = command->count;
        } else if (word[0] == '-') {
            at += look_is_listed(launcher->values, word);
        } else if (equals && equals > word) {
            AUTO_FREE char *name = memory_format("%.*s", (int)(equals - word), word);

            json_set_string(look->assigned, name, equals + 1);
        } else {
            look_at_words(look, &(struct look_words){command->words + at, command->count - at,
                                                     command->directory});
            break;
        }
    }
    json_object_put(inner);
    look->assigned = outer;
}

/* ---- the others ------------------------------------------------------------------------------ */

static void look_at_notebooks(struct look *look, const struct look_words *command)
{
    bool found = false;

    for (size_t i = 1; i < command->count && !found; i++) { /* papermill's second is its output */
        found = ends_with(command->words[i], ".ipynb");
        if (found)
            look_at_notebook(look, command->directory, command->words[i]);
    }
    if (!found)
        look->unknown = true;
}

bool look_at_launcher(struct look *look, const struct look_words *command)
{
    const struct launcher *launcher = launcher_find(command);

    if (!launcher)
        return false;
    switch (launcher->kind) {
    case WRAPPER:
        look_at_wrapped(look, launcher, command);
        break;
    case ENVIRONMENT:
        look_at_environment(look, launcher, command);
        break;
    case PYTHON:
        look_at_python(look, command);
        break;
    case SHELL:
        look_at_shell(look, command);
        break;
    case NOTEBOOK:
        look_at_notebooks(look, command);
        break;
    case TOOL:
        look_found_none(look, "%s uses no GPU", base_name(command->words[0]));
        break;
    case GPU:
        look_found(look, "%s%s%s starts programs that use a GPU", base_name(command->words[0]),
                   launcher->verb ? " " : "", launcher->verb ? launcher->verb : "");
        break;
    default:
        look->unknown = true;
    }
    return true;
}
