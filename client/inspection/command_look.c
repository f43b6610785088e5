/* command_look.c: see command_look.h. The state of a look, and how a program is found and told
 * apart: a launcher by its name, a script by its first line, a binary by its content. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/inspection/look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A look is to go unnoticed when a job is submitted. */
static const double look_seconds = 0.5;

/* ---- the result ------------------------------------------------------------------------------ */

bool look_is_over(struct look *look)
{
    if (look->result->use == COMMAND_LOOK_GPU)
        return true;
    if (look->files < LOOK_FILES_MAX && clock_monotonic() < look->deadline)
        return false;
    look->unknown = true;
    return true;
}

static void set_reason(struct look *look, const char *format, va_list arguments)
{
    char text[2 * COMMAND_LOOK_REASON_MAX];

    vsnprintf(text, sizeof text, format, arguments);
    text_make_utf8(text);
    text_escape_controls(text, look->result->reason, sizeof look->result->reason);
}

void look_found(struct look *look, const char *format, ...)
{
    va_list arguments;

    if (look->result->use == COMMAND_LOOK_GPU)
        return;
    va_start(arguments, format);
    set_reason(look, format, arguments);
    va_end(arguments);
    look->result->use = COMMAND_LOOK_GPU;
}

void look_found_none(struct look *look, const char *format, ...)
{
    va_list arguments;

    if (look->result->use == COMMAND_LOOK_GPU)
        return;
    va_start(arguments, format);
    set_reason(look, format, arguments);
    va_end(arguments);
    look->result->use = COMMAND_LOOK_NO_GPU;
}

/* ---- the environment ------------------------------------------------------------------------- */

const char *look_variable(struct look *look, const char *name)
{
    struct json_object *const sources[] = {look->assigned, json_get(look->spec, "environment"),
                                           json_get(look->spec, "shell_environment")};

    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct json_object *value;

        if (json_object_is_type(sources[i], json_type_object) &&
            json_object_object_get_ex(sources[i], name, &value))
            return json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                : NULL;
    }
    /* a job does not inherit it: in a job, the value here is the daemon's */
    return strcmp(name, "CUDA_VISIBLE_DEVICES") == 0 ? NULL : getenv(name);
}

/* The values of CUDA C++ Programming Guide, "CUDA Environment Variables": devices after an invalid
 * one are invisible, and an empty list has none. */
bool look_hides_gpus(struct look *look)
{
    const char *value = look_variable(look, "CUDA_VISIBLE_DEVICES");

    return value && (!*value || strncmp(value, "-1", 2) == 0 || strcmp(value, "NoDevFiles") == 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

char *look_path(const char *directory, const char *path)
{
    return path[0] == '/' ? memory_copy_text(path) : memory_format("%s/%s", directory, path);
}

static bool is_program(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

char *look_program_path(struct look *look, const char *directory, const char *name)
{
    const char *folders = look_variable(look, "PATH");

    if (!*name)
        return NULL;
    if (strchr(name, '/')) {
        char *path = look_path(directory, name);

        if (is_program(path))
            return path;
        free(path);
        return NULL;
    }
    for (const char *at = folders ? folders : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        AUTO_FREE char *folder = memory_format("%.*s", (int)length, length ? at : ".");
        AUTO_FREE char *absolute = look_path(directory, folder);
        char *path = memory_format("%s/%s", absolute, name);

        if (is_program(path))
            return path;
        free(path);
        at += length;
        at += *at == ':';
    }
    return NULL;
}

/* Takes in that the file is read. False: it was read before. */
static bool remember(struct look *look, const struct stat *status)
{
    for (int i = 0; i < look->files; i++)
        if (look->seen[i].device == status->st_dev && look->seen[i].inode == status->st_ino)
            return false;
    look->seen[look->files].device = status->st_dev;
    look->seen[look->files++].inode = status->st_ino;
    return true;
}

char *look_read(struct look *look, const char *path, size_t limit, size_t *size)
{
    /* a FIFO or a terminal must not block the look, nor become the process's terminal */
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    AUTO_FREE char *text = NULL;
    size_t used = 0;
    ssize_t got = 0;

    look->read_before = false;
    if (file < 0 || fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || look_is_over(look))
        return NULL;
    look->read_before = !remember(look, &status);
    if (look->read_before)
        return NULL;
    if ((uintmax_t)status.st_size < limit)
        limit = (size_t)status.st_size;
    text = malloc(limit + 1);
    while (text && used < limit && (got = read(file, text + used, limit - used)) != 0) {
        if (got < 0 && errno != EINTR)
            return NULL;
        used += got > 0 ? (size_t)got : 0;
    }
    if (!text)
        return NULL;
    text[used] = '\0';
    *size = used;
    return TAKE_POINTER(text);
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Looks at a script by its first line: "#!/usr/bin/env python3" becomes the command "/usr/bin/env
 * python3 SCRIPT ARGUMENT…". */
static void look_at_script(struct look *look, const struct look_words *command, const char *path,
                           char *text)
{
    char *words[LOOK_WORDS_MAX + 1], *rest = NULL;
    size_t count = 0;

    text[strcspn(text, "\r\n")] = '\0';
    for (char *word = strtok_r(text + 2, " \t", &rest); word && count < 8;
         word = strtok_r(NULL, " \t", &rest))
        words[count++] = word;
    if (count == 0) {
        look->unknown = true;
        return;
    }
    words[count++] = (char *)path;
    for (size_t i = 1; i < command->count && count < LOOK_WORDS_MAX; i++)
        words[count++] = command->words[i];
    words[count] = NULL;
    look->files--; /* the interpreter's turn to read it */
    look_at_words(look, &(struct look_words){words, count, command->directory});
}

static void look_at_program(struct look *look, const struct look_words *command)
{
    static const char elf_magic[] = {0x7f, 'E', 'L', 'F'};
    AUTO_FREE char *path = look_program_path(look, command->directory, command->words[0]);
    size_t size = 0;
    AUTO_FREE char *text = path ? look_read(look, path, LOOK_PROGRAM_BYTES, &size) : NULL;

    if (text && size > 2 && text[0] == '#' && text[1] == '!')
        look_at_script(look, command, path, text);
    else if (text && size > sizeof elf_magic && memcmp(text, elf_magic, sizeof elf_magic) == 0)
        look_at_binary(look, command->words[0], text, size);
    else if (!look->read_before)
        look->unknown = true;
}

void look_at_words(struct look *look, const struct look_words *command)
{
    if (look_is_over(look) || command->count == 0)
        return;
    if (look->depth == LOOK_DEPTH_MAX) {
        look->unknown = true;
        return;
    }
    look->depth++;
    if (look_hides_gpus(look))
        look_found_none(look, "CUDA_VISIBLE_DEVICES hides all GPUs");
    else if (!look_at_launcher(look, command))
        look_at_program(look, command);
    look->depth--;
}

void command_look(struct json_object *spec, struct command_look *result)
{
    struct json_object *command = json_get(spec, "command");
    struct look look = {.spec = spec,
                        .assigned = json_object_new_object(),
                        .deadline = clock_monotonic() + look_seconds,
                        .result = result};
    char *words[LOOK_WORDS_MAX + 1];
    size_t count = 0;

    *result = (struct command_look){.use = COMMAND_LOOK_UNKNOWN};
    if (json_object_is_type(command, json_type_array))
        for (size_t i = 0; i < json_object_array_length(command) && count < LOOK_WORDS_MAX; i++) {
            struct json_object *word = json_object_array_get_idx(command, i);

            if (!json_object_is_type(word, json_type_string))
                break;
            words[count++] = (char *)json_object_get_string(word);
        }
    words[count] = NULL;
    look_at_words(&look,
                  &(struct look_words){words, count, json_get_string(spec, "directory", "/")});
    if (result->use != COMMAND_LOOK_GPU && look.unknown)
        *result = (struct command_look){.use = COMMAND_LOOK_UNKNOWN};
    json_object_put(look.assigned);
}
