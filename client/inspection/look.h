/* look.h: what the files of this room share: the state of one look, and how each kind of program is
 * looked at. A look ends as soon as something is found that uses a GPU. */
#pragma once

#include "client/inspection/command_look.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    LOOK_FILES_MAX = 1024,
    LOOK_FILE_BYTES = 1024 * 1024,         /* of one source; its imports stand near the beginning */
    LOOK_PROGRAM_BYTES = 32 * 1024 * 1024, /* of one program */
    LOOK_DEPTH_MAX = 12, /* programs that start programs, such as env, bash, conda, python */
    LOOK_WORDS_MAX = 256
};

struct look {
    struct json_object *spec;     /* borrowed */
    struct json_object *assigned; /* variables that the command itself sets; owned */
    double deadline;              /* clock_monotonic() */
    int files, depth;
    struct {
        dev_t device;
        ino_t inode;
    } seen[LOOK_FILES_MAX]; /* the files that were read */
    bool unknown;           /* something could not be seen */
    bool read_before;       /* look_read() gave nothing because it had read that file before */
    struct command_look *result;
};

/* The words of a command and the folder in which it runs. */
struct look_words {
    char *const *words; /* ends with NULL */
    size_t count;
    const char *directory;
};

/* ---- command_look.c -------------------------------------------------------------------------- */

/* Whether the look is over: a GPU was found, or its time or its number of files are used up. */
bool look_is_over(struct look *look);
/* The command uses a GPU; the sentence says why. */
void look_found(struct look *look, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Nothing that uses a GPU was seen; the sentence says where. The last one counts. */
void look_found_none(struct look *look, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A variable of the command's environment; NULL: it is not set. */
const char *look_variable(struct look *look, const char *name);
/* Whether CUDA_VISIBLE_DEVICES, as the command will see it, hides all GPUs. */
bool look_hides_gpus(struct look *look);

/* The path below the folder, or `path` itself if it is absolute; the caller frees it. */
char *look_path(const char *directory, const char *path);
/* The path of a program, looked for as execvp(3) does. The caller frees it; NULL: none. */
char *look_program_path(struct look *look, const char *directory, const char *name);

/* Reads the first bytes, at most `limit`, of a regular file that was not read before. A NUL follows
 * them. The caller frees the text; NULL: it cannot be read, was read before, or is no regular
 * file. */
char *look_read(struct look *look, const char *path, size_t limit, size_t *size);

/* Looks at a command: at what it starts, if it is a launcher. */
void look_at_words(struct look *look, const struct look_words *command);

/* ---- the kinds of programs ------------------------------------------------------------------- */

/* launchers.c: true: the program's name says what it is, and the command was looked at. */
bool look_at_launcher(struct look *look, const struct look_words *command);
/* Whether the word is one of those in a list that is separated by spaces. */
bool look_is_listed(const char *list, const char *word);

/* python.c: `command` begins with the interpreter. */
void look_at_python(struct look *look, const struct look_words *command);
void look_at_python_script(struct look *look, const char *directory, const char *path);
void look_at_python_module(struct look *look, const struct look_words *command, const char *module);
/* A Python program from a text instead of a file; `name` is what it is called in sentences. */
void look_at_python_text(struct look *look, const char *directory, const char *name,
                         const char *text, size_t size);
void look_at_notebook(struct look *look, const char *directory, const char *path);

/* shell.c: `command` begins with the shell. */
void look_at_shell(struct look *look, const struct look_words *command);

/* binary.c: the text of a program in the ELF format. */
void look_at_binary(struct look *look, const char *path, const char *text, size_t size);
