/* python.c: whether a Python program uses a GPU: its imports are followed through the modules that
 * lie beside it, and end at a package that does. Modules are found as Python finds them
 * (docs.python.org/3/reference/import.html), but those of installed packages are not followed: many
 * of these import a framework where it is there, and use none. */
#include "base/memory.h"
#include "client/inspection/gpu_packages.h"
#include "client/inspection/look.h"
#include "client/inspection/python_source.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ROOTS_MAX = 32,
    OWN_MAX = 8,
    OWN_NAME_MAX = 64,
    SITES_MAX = 4,
    NOTEBOOK_BYTES = 16 * 1024 * 1024
};

/* A program and what is to be read of it. */
struct python_program {
    struct look *look;
    const char *directory;  /* in which it runs; borrowed */
    char *roots[ROOTS_MAX]; /* folders of modules, in the order in which Python looks; owned */
    size_t root_count;
    char *sites[SITES_MAX]; /* folders of installed packages; owned */
    size_t site_count;
    char own[OWN_MAX][OWN_NAME_MAX]; /* packages of `sites` that are the program itself */
    size_t own_count;
    char *queue[LOOK_FILES_MAX]; /* files to read; owned */
    size_t queued, done;
    const char *file; /* that is being read */
    bool is_entry;    /* it is the first one */
};

static void root_add(struct python_program *program, char *folder)
{
    if (program->root_count < ROOTS_MAX)
        program->roots[program->root_count++] = folder;
    else
        free(folder);
}

static bool is_site(const char *folder)
{
    return strstr(folder, "/site-packages") || strstr(folder, "/dist-packages");
}

/* Adds the folders of PYTHONPATH, but for those of installed packages. */
static void roots_add_path(struct python_program *program)
{
    const char *at = look_variable(program->look, "PYTHONPATH");

    while (at && *at) {
        size_t length = strcspn(at, ":");
        AUTO_FREE char *folder = memory_format("%.*s", (int)length, length ? at : ".");

        if (!is_site(folder))
            root_add(program, look_path(program->directory, folder));
        at += length;
        at += *at == ':';
    }
}

static void program_release(struct python_program *program)
{
    for (size_t i = 0; i < program->root_count; i++)
        free(program->roots[i]);
    for (size_t i = 0; i < program->queued; i++)
        free(program->queue[i]);
    for (size_t i = 0; i < program->site_count; i++)
        free(program->sites[i]);
}

/* The folder of a path, in place. */
static char *cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash && slash != path)
        *slash = '\0';
    return path;
}

/* The library of the Python whose programs lie in `folder`: ../lib/python3.N. The caller frees it;
 * NULL: there is none. */
static char *find_library(const char *folder)
{
    AUTO_FREE char *parent = memory_format("%s/../lib", folder);
    DIR *entries = opendir(parent);
    struct dirent *entry;
    char *library = NULL;

    while (!library && entries && (entry = readdir(entries)))
        if (strncmp(entry->d_name, "python3.", 8) == 0)
            library = memory_format("%s/%.64s", parent, entry->d_name);
    if (entries)
        closedir(entries);
    return library;
}

/* Finds the folders of installed packages of the Python whose programs lie in `folder`: its own,
 * and those of Debian, of the machine and of the user (site of Python's library). */
static void sites_find(struct python_program *program, const char *folder)
{
    AUTO_FREE char *library = find_library(folder);
    const char *home = look_variable(program->look, "HOME");
    const char *name = library ? strrchr(library, '/') + 1 : NULL;

    if (!library)
        return;
    program->sites[program->site_count++] = memory_format("%s/site-packages", library);
    program->sites[program->site_count++] = memory_format("%s/../python3/dist-packages", library);
    program->sites[program->site_count++] = memory_format("/usr/local/lib/%s/dist-packages", name);
    if (home)
        program->sites[program->site_count++] =
            memory_format("%s/.local/lib/%s/site-packages", home, name);
}

/* ---- finding modules ------------------------------------------------------------------------- */

static bool is_file(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static void queue_add(struct python_program *program, const char *path)
{
    for (size_t i = 0; i < program->queued; i++)
        if (strcmp(program->queue[i], path) == 0)
            return;
    if (program->queued < LOOK_FILES_MAX)
        program->queue[program->queued++] = memory_copy_text(path);
    else
        program->look->unknown = true;
}

/* Queues FOLDER/a/__init__.py, FOLDER/a/b/__init__.py and FOLDER/a/b/c.py for the module "a.b.c".
 * False: its first part is not there. */
static bool module_queue(struct python_program *program, const char *folder, const char *module)
{
    AUTO_FREE char *path = memory_copy_text(folder);
    bool found = false;

    for (const char *at = module; *at;) {
        size_t length = strcspn(at, ".");
        AUTO_FREE char *part = memory_format("%s/%.*s", path, (int)length, at);
        AUTO_FREE char *package = memory_format("%s/__init__.py", part);
        AUTO_FREE char *source = memory_format("%s.py", part);
        struct stat status;

        if (is_file(package))
            queue_add(program, package);
        else if (is_file(source))
            queue_add(program, source);
        else if (stat(part, &status) < 0 || !S_ISDIR(status.st_mode))
            return found;
        found = true;
        free(path);
        path = TAKE_POINTER(part);
        at += length;
        at += *at == '.';
    }
    return found;
}

/* A name that sentences can use: relative to the folder of modules in which it lies. */
static const char *shown(const struct python_program *program, const char *path)
{
    for (size_t i = 0; i < program->site_count + program->root_count; i++) {
        const char *folder =
            i < program->site_count ? program->sites[i] : program->roots[i - program->site_count];
        size_t length = strlen(folder);

        if (strncmp(path, folder, length) == 0 && path[length] == '/')
            return path + length + 1;
    }
    return path;
}

/* Queues a module of an installed package that is the program's own: one that its first file
 * imports. */
static bool own_queue(struct python_program *program, const char *module)
{
    size_t length = strcspn(module, ".");
    bool own = program->is_entry, found = false;

    for (size_t i = 0; i < program->own_count; i++)
        own = own || (strncmp(program->own[i], module, length) == 0 && !program->own[i][length]);
    for (size_t i = 0; own && length < OWN_NAME_MAX && i < program->site_count && !found; i++)
        found = module_queue(program, program->sites[i], module);
    if (found && program->is_entry && program->own_count < OWN_MAX)
        snprintf(program->own[program->own_count++], OWN_NAME_MAX, "%.*s", (int)length, module);
    return found;
}

/* Queues a module that is imported without dots. False: it is not found. */
static bool absolute_queue(struct python_program *program, const char *module)
{
    for (size_t i = 0; i < program->root_count; i++)
        if (module_queue(program, program->roots[i], module))
            return true;
    return own_queue(program, module);
}

static void relative_queue(struct python_program *program, int dots, const char *module)
{
    AUTO_FREE char *folder = cut_name(memory_copy_text(program->file));

    while (--dots > 0)
        cut_name(folder);
    module_queue(program, folder, module);
}

/* Takes an import in: the end of the look, or further files. */
static bool on_import(void *data, int dots, const char *module, const char *name)
{
    struct python_program *program = data;
    char whole[600]; /* "a.b" and "c" of `from a.b import c` */
    int rank;

    snprintf(whole, sizeof whole, "%s%s%s", module, *module && name ? "." : "", name ? name : "");
    if (dots) {
        relative_queue(program, dots, whole);
        return true;
    }
    rank = gpu_package_rank(whole);
    if (rank == 2 || (!absolute_queue(program, whole) && rank == 1)) {
        look_found(program->look, "%s imports %.*s", shown(program, program->file),
                   (int)(gpu_package_rank(module) ? strcspn(module, ".") : strlen(whole)), whole);
        return false;
    }
    return true;
}

/* Reads the queue to its end. */
static void program_follow(struct python_program *program)
{
    for (; program->done < program->queued && !look_is_over(program->look); program->done++) {
        size_t size;
        AUTO_FREE char *text = NULL;

        program->file = program->queue[program->done];
        text = look_read(program->look, program->file, LOOK_FILE_BYTES, &size);
        if (text)
            python_source_imports(text, size, on_import, program);
        program->is_entry = false;
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

void look_at_python_text(struct look *look, const char *directory, const char *name,
                         const char *text, size_t size)
{
    struct python_program program = {.look = look, .directory = directory, .file = name};

    root_add(&program, memory_copy_text(directory));
    roots_add_path(&program);
    python_source_imports(text, size, on_import, &program);
    program_follow(&program);
    if (!look_is_over(look))
        look_found_none(look, "%s imports nothing that uses a GPU", name);
    program_release(&program);
}

/* Reads the file first, then what it imports. `path` is absolute. */
static void look_at_file(struct python_program *program, const char *path)
{
    size_t size;
    AUTO_FREE char *text = look_read(program->look, path, LOOK_FILE_BYTES, &size);

    if (!text) {
        program->look->unknown = program->look->unknown || !program->look->read_before;
        return;
    }
    if (memchr(text, '\0', size)) { /* compiled, or an archive */
        program->look->unknown = true;
        return;
    }
    program->file = path;
    program->is_entry = true;
    python_source_imports(text, size, on_import, program);
    program->is_entry = false;
    program_follow(program);
    if (!look_is_over(program->look))
        look_found_none(program->look, "%s imports nothing that uses a GPU", shown(program, path));
}

void look_at_python_script(struct look *look, const char *directory, const char *path)
{
    AUTO_FREE char *given = look_path(directory, path);
    AUTO_FREE char *real = realpath(given, NULL); /* as Python does, for what lies beside it */
    struct python_program program = {.look = look, .directory = directory};
    struct stat status;

    if (!real || stat(real, &status) < 0) {
        look->unknown = true;
        return;
    }
    if (S_ISDIR(status.st_mode)) {
        char *main = memory_format("%s/__main__.py", real);

        free(real);
        real = main;
    }
    root_add(&program, cut_name(memory_copy_text(real)));
    roots_add_path(&program);
    sites_find(&program, program.roots[0]);
    look_at_file(&program, real);
    program_release(&program);
}

/* Finds the installed packages of the interpreter that the command begins with, if it does; else
 * those of the virtual environment. */
static void interpreter_sites_find(struct python_program *program, const struct look_words *command)
{
    const char *environment = look_variable(program->look, "VIRTUAL_ENV");
    AUTO_FREE char *interpreter =
        look_program_path(program->look, command->directory, command->words[0]);
    AUTO_FREE char *folder = NULL;

    if (interpreter)
        folder = cut_name(memory_copy_text(interpreter));
    else if (environment && *environment)
        folder = memory_format("%s/bin", environment);
    if (folder)
        sites_find(program, folder);
}

/* A module that is not the program's own: a tool, or one that runs a script. */
static void look_at_foreign_module(struct look *look, const struct look_words *command,
                                   const char *module)
{
    static const char tools[] = "pip venv ensurepip json.tool http.server zipfile tarfile gzip "
                                "compileall py_compile site sysconfig platform calendar build";

    for (size_t i = 1; i < command->count; i++) {
        const char *word = command->words[i];
        size_t length = strlen(word);

        if (word[0] != '-' && length > 3 && strcmp(word + length - 3, ".py") == 0) {
            look_at_python_script(look, command->directory, word);
            return;
        }
    }
    if (look_is_listed(tools, module))
        look_found_none(look, "%s uses no GPU", module);
    else
        look->unknown = true;
}

void look_at_python_module(struct look *look, const struct look_words *command, const char *module)
{
    struct python_program program = {
        .look = look, .directory = command->directory, .file = module, .is_entry = true};
    AUTO_FREE char *main = memory_format("%s.__main__", module);
    int rank = gpu_package_rank(module);

    root_add(&program, memory_copy_text(command->directory));
    roots_add_path(&program);
    interpreter_sites_find(&program, command);
    if (strcmp(module, "traind.task") == 0) { /* a function of another program */
        look->unknown = true;
    } else if (rank == 2) {
        look_found(look, "%s is a program of %.*s", module, (int)strcspn(module, "."), module);
    } else if (strcmp(module, "pip") != 0 && absolute_queue(&program, module)) {
        absolute_queue(&program, main);
        program.is_entry = false;
        program_follow(&program);
        if (!look_is_over(look))
            look_found_none(look, "%s imports nothing that uses a GPU", module);
    } else if (rank) {
        look_found(look, "%s uses a GPU", module);
    } else {
        look_at_foreign_module(look, command, module);
    }
    program_release(&program);
}

/* Finds what the interpreter is to run: `-c TEXT`, `-m MODULE`, `-` or a script. */
void look_at_python(struct look *look, const struct look_words *command)
{
    for (size_t i = 1; i < command->count; i++) {
        const char *word = command->words[i], *next = command->words[i + 1];

        if (word[0] != '-') {
            look_at_python_script(look, command->directory, word);
            return;
        }
        if (strcmp(word, "--check-hash-based-pycs") == 0)
            i++;
        if (word[1] == '-')
            continue;
        for (const char *letter = word + 1; *letter; letter++) {
            const char *value = letter[1] ? letter + 1 : next;

            if (!strchr("cmWX", *letter))
                continue;
            if (*letter == 'c' && value)
                look_at_python_text(look, command->directory, "the text after -c", value,
                                    strlen(value));
            else if (*letter == 'm' && value)
                look_at_python_module(look, command, value);
            if (*letter == 'c' || *letter == 'm')
                return;
            i += letter[1] == '\0';
            break;
        }
        if (!word[1]) /* "-": the program comes from standard input, which a job has none of */
            break;
    }
    look_found_none(look, "%s has no program to run", command->words[0]);
}

/* ---- notebooks ------------------------------------------------------------------------------- */

/* Writes the source of a cell: a text, or an array of lines. */
static void write_source(FILE *output, struct json_object *source)
{
    if (json_object_is_type(source, json_type_string))
        fputs(json_object_get_string(source), output);
    for (size_t i = 0;
         json_object_is_type(source, json_type_array) && i < json_object_array_length(source); i++)
        if (json_object_is_type(json_object_array_get_idx(source, i), json_type_string))
            fputs(json_object_get_string(json_object_array_get_idx(source, i)), output);
}

void look_at_notebook(struct look *look, const char *directory, const char *path)
{
    AUTO_FREE char *absolute = look_path(directory, path);
    AUTO_FREE char *folder = cut_name(memory_copy_text(absolute)); /* where its kernel runs */
    JSON_AUTO struct json_object *notebook = NULL;
    struct json_object *cells;
    size_t size = 0;
    AUTO_FREE char *json = look_read(look, absolute, NOTEBOOK_BYTES, &size);
    AUTO_FREE char *text = NULL;
    FILE *output;

    if (!json || json_parse(json, size, &notebook, NULL) < 0 ||
        !json_object_is_type(cells = json_get(notebook, "cells"), json_type_array) ||
        !(output = open_memstream(&text, &size))) {
        look->unknown = true;
        return;
    }
    for (size_t i = 0; i < json_object_array_length(cells); i++) {
        struct json_object *cell = json_object_array_get_idx(cells, i);

        if (strcmp(json_get_string(cell, "cell_type", ""), "code") == 0)
            write_source(output, json_get(cell, "source"));
        fputc('\n', output);
    }
    if (fclose(output) != 0)
        look->unknown = true;
    else
        look_at_python_text(look, folder, path, text, size);
}
