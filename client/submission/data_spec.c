/* data_spec.c: see data_spec.h. */
#include "client/submission/data_spec.h"

#include "base/text.h"
#include "client/submission/worker_run.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MOST = 60 };

const char *const data_spec_lengths[DATA_SPEC_LENGTHS] = {"quick", "usual", "long"};

int data_spec_inspect(const char *path, const char *target, struct json_object **inspection,
                      struct error *error)
{
    const char *const arguments[] = {"inspect", path, "--json", target ? "--target" : NULL,
                                     target,    NULL};

    return worker_run(arguments, NULL, inspection, error);
}

int data_spec_measure(const char *path, const char *target, const char *task, const char *seconds,
                      struct json_object **inspection, struct error *error)
{
    const char *const arguments[] = {"inspect",   path,       "--json",
                                     "--measure", "--target", target,
                                     "--task",    task,       seconds ? "--seconds" : NULL,
                                     seconds,     NULL};

    return worker_run(arguments, NULL, inspection, error);
}

int data_spec_words(struct json_object *choices, const char *task, const char *key,
                    const char *words[], int most)
{
    int count = 0;

    for (size_t i = 0; choices && i < json_object_array_length(choices) && count < most; i++) {
        struct json_object *choice = json_object_array_get_idx(choices, i);
        const char *word = json_get_string(choice, key, "");
        bool known = task && strcmp(json_get_string(choice, "task", ""), task) != 0;

        for (int k = 0; k < count; k++)
            known = known || strcmp(words[k], word) == 0;
        if (!known)
            words[count++] = word;
    }
    return count;
}

struct json_object *data_spec_find(struct json_object *choices, const char *task, const char *model)
{
    for (size_t i = 0; choices && i < json_object_array_length(choices); i++) {
        struct json_object *choice = json_object_array_get_idx(choices, i);

        if (strcmp(json_get_string(choice, "task", ""), task) == 0 &&
            strcmp(json_get_string(choice, "model", ""), model) == 0)
            return choice;
    }
    return NULL;
}

/* A quarter, all or three times as many; `*key` is what they are. */
static int64_t scaled(struct json_object *choice, enum data_spec_length length, const char **key)
{
    struct json_object *train = json_get(json_get(choice, "specification"), "train");
    int64_t count;

    *key = json_get(train, "max_steps") ? "max_steps" : "epochs";
    count = json_get_int(train, *key, 1);
    return length == DATA_SPEC_LONG    ? 3 * count
           : length == DATA_SPEC_QUICK ? (count + 3) / 4
                                       : count;
}

void data_spec_length_format(struct json_object *choice, enum data_spec_length length, char *text,
                             size_t size)
{
    const char *key;
    long long count = scaled(choice, length, &key);

    snprintf(text, size, "%lld %s%s", count, strcmp(key, "epochs") == 0 ? "epoch" : "step",
             count == 1 ? "" : "s");
}

/* Where the file name in the first `length` bytes of the path begins. */
static size_t name_begin(const char *path, size_t length)
{
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

/* Whether the name says nothing of the data, as "train" and "0" do. */
static bool is_common(const char *name, size_t length)
{
    static const char *const names[] = {"train",  "training", "test",
                                        "data",   "input",    "x",
                                        "images", "all",      "train-images-idx3-ubyte"};
    size_t digits = 0;

    while (digits < length && isdigit((unsigned char)name[digits]))
        digits++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    return digits == length;
}

void data_spec_name(const char *path, char *name, size_t size)
{
    size_t length = strlen(path), begin, end;
    char shown[4 * NAME_MOST + 1];

    while (length > 1 && path[length - 1] == '/')
        length--;
    begin = name_begin(path, length);
    if (length > begin + 3 && strncmp(path + length - 3, ".gz", 3) == 0)
        length -= 3;
    for (end = length; end > begin + 1 && path[end - 1] != '.';)
        end--;
    if (end > begin + 1)
        length = end - 1;
    if (begin > 1 && is_common(path + begin, length - begin)) {
        length = begin - 1;
        begin = name_begin(path, length);
    }
    if (length - begin > NAME_MOST)
        length = begin + NAME_MOST;
    length -= begin;
    snprintf(name, size, "%.*s", (int)length, path + begin);
    name[text_utf8_prefix(name, strlen(name))] = '\0'; /* a character that was cut, or none */
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("_.-", *at) && !((unsigned char)*at & 0x80))
            *at = '-';
    text_escape_controls(name, shown, sizeof shown);
    if ((!isalnum((unsigned char)*name) && !((unsigned char)*name & 0x80)) ||
        strcmp(name, shown) != 0)
        snprintf(name, size, "job");
}

int data_spec_make(struct json_object *choice, const char *path, enum data_spec_length length,
                   struct json_object **spec, struct error *error)
{
    struct json_object *source = json_get(choice, "specification"), *copy = NULL;
    AUTO_FREE char *directory = getcwd(NULL, 0);
    AUTO_FREE char *full = realpath(path, NULL);
    char name[NAME_MOST + 1];
    const char *key;
    int64_t count = scaled(choice, length, &key);

    if (!directory)
        return error_set_errno(error, -errno, "the current directory is not there any more");
    data_spec_name(full ? full : path, name, sizeof name);
    *spec = json_object_new_object();
    json_set_string(*spec, "name", name);
    json_set_string(*spec, "directory", directory);
    json_object_object_foreach (source, part, value) {
        copy = NULL;
        if (json_object_deep_copy(value, &copy, NULL) < 0)
            return error_no_memory(error, "the specification");
        json_set(*spec, part, copy);
    }
    json_set_int(json_get(*spec, "train"), key, count);
    return 0;
}
