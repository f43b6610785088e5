/* tensorboard.c: see tensorboard.h. The messages of the plugin "hparams" are its plugin_data.proto;
 * it compares runs by their hyperparameters. */
#include "client/exports/tensorboard.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_BYTES = 160 /* of a job in the name of its folder; a name in it has 255 at most */ };

static const char plugin_name[] = "hparams";
enum {
    HPARAMS_START = 3,
    HPARAMS_END = 4,
    START_HPARAMS = 1,
    START_TIME = 5,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    VALUE_NUMBER = 2,
    VALUE_STRING = 3,
    VALUE_BOOL = 4,
    END_STATUS = 1,
    END_TIME = 2
};
enum { STATUS_SUCCESS = 1, STATUS_FAILURE = 2 };

char *tensorboard_tag(const char *name, char *tag, size_t size)
{
    static const char *const groups[] = {"train_", "validation_", "val_",
                                         "test_",  "last_test_",  "eval_"};

    snprintf(tag, size, "%s", name);
    for (size_t i = 0; i < sizeof groups / sizeof *groups && !strchr(name, '/'); i++) {
        size_t length = strlen(groups[i]);

        if (strncmp(name, groups[i], length) == 0 && name[length] && length < size)
            tag[length - 1] = '/';
    }
    return tag;
}

/* ---- folders --------------------------------------------------------------------------------- */

static int folder_make(const char *path, struct error *error)
{
    struct stat status;

    if (mkdir(path, 0777) == 0 ||
        (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)))
        return 0;
    return error_set_errno(error, -errno, "cannot make the folder %s", path);
}

/* The folder, and those above it that are missing. */
static int folders_make(const char *path, struct error *error)
{
    char copy[PATH_MAX];

    if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
        return error_set(error, -ENAMETOOLONG, "the path %.60s… is too long", path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (access(copy, F_OK) < 0 && folder_make(copy, error) < 0)
            return error->code;
        *slash = '/';
    }
    return folder_make(copy, error);
}

/* Whether a folder's name begins with the number: "12" or "12-anything". */
static bool named_by_number(const char *name, int64_t job)
{
    char number[24];
    int length = snprintf(number, sizeof number, "%" PRId64, job);

    return strncmp(name, number, (size_t)length) == 0 &&
           (name[length] == '\0' || name[length] == '-');
}

/* The folder below `directory` that holds the job's event file: a job that was renamed keeps its
 * run. The caller frees it; NULL: there is none. */
static char *run_find(const char *directory, int64_t job, const char *file)
{
    DIR *entries = opendir(directory);
    const struct dirent *entry;
    char *found = NULL;

    while (entries && !found && (entry = readdir(entries))) {
        char path[PATH_MAX];

        if (!named_by_number(entry->d_name, job) ||
            snprintf(path, sizeof path, "%s/%s/%s", directory, entry->d_name, file) >=
                (int)sizeof path ||
            access(path, F_OK) < 0)
            continue;
        if (asprintf(&found, "%s/%s", directory, entry->d_name) < 0)
            found = NULL;
    }
    if (entries)
        closedir(entries);
    return found;
}

/* Refuses a folder with events of a job of this number that another daemon ran: the two would be
 * shown as one run. */
static int folder_check(const char *folder, int64_t job, struct error *error)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    char end[40];
    size_t length = (size_t)snprintf(end, sizeof end, ".traind.%" PRId64, job);
    int result = 0;

    while (entries && result == 0 && (entry = readdir(entries))) {
        size_t size = strlen(entry->d_name);

        if (strstr(entry->d_name, "tfevents") && size > length &&
            strcmp(entry->d_name + size - length, end) == 0)
            result = error_set(error, -EEXIST,
                               "%s is the run of another daemon's job %" PRId64
                               ": export to another folder",
                               folder, job);
    }
    if (entries)
        closedir(entries);
    return result;
}

/* Finds or makes run->folder. */
static int run_folder_open(struct tensorboard_run *run, const char *directory, const char *name,
                           const char *file, struct error *error)
{
    char plain[NAME_BYTES];

    if (folders_make(directory, error) < 0)
        return error->code;
    run->folder = run_find(directory, run->job, file);
    if (run->folder)
        return 0;
    text_escape_controls(name, plain, sizeof plain);
    for (char *slash = plain; (slash = strchr(slash, '/'));)
        *slash = '_';
    if (asprintf(&run->folder, "%s/%" PRId64 "%s%s", directory, run->job, *plain ? "-" : "",
                 plain) < 0) {
        run->folder = NULL;
        return error_no_memory(error, "a path");
    }
    return folder_make(run->folder, error) < 0 ? error->code
                                               : folder_check(run->folder, run->job, error);
}

/* ---- the head -------------------------------------------------------------------------------- */

/* Appends an entry of the map from names to values. */
static void hyperparameter_add(struct protobuf *start, const char *name, struct json_object *value)
{
    CLEANUP(protobuf_release) struct protobuf entry = {0}, inner = {0};

    switch (json_object_get_type(value)) {
    case json_type_double:
    case json_type_int:
        protobuf_double(&inner, VALUE_NUMBER, json_object_get_double(value));
        break;
    case json_type_boolean:
        protobuf_integer(&inner, VALUE_BOOL, json_object_get_boolean(value));
        break;
    case json_type_string:
        protobuf_text(&inner, VALUE_STRING, json_object_get_string(value));
        break;
    default:
        protobuf_text(&inner, VALUE_STRING, json_text(value, NULL));
        break;
    }
    protobuf_text(&entry, MAP_KEY, name);
    protobuf_message(&entry, MAP_VALUE, &inner);
    protobuf_message(start, START_HPARAMS, &entry);
}

static void hyperparameters_write(struct tensorboard_run *run, struct json_object *values)
{
    CLEANUP(protobuf_release) struct protobuf start = {0}, data = {0};

    json_object_object_foreach (values, name, value)
        hyperparameter_add(&start, name, value);
    protobuf_double(&start, START_TIME, run->time);
    protobuf_message(&data, HPARAMS_START, &start);
    event_file_add_plugin_data(&run->file, "_hparams_/session_start_info", plugin_name, run->time,
                               &data);
}

/* The specification in Markdown, where four blanks begin a line of code. The environment is left
 * out: it may hold passwords, and event files are shared. */
static int specification_write(struct tensorboard_run *run, struct json_object *specification,
                               struct error *error)
{
    JSON_AUTO struct json_object *copy = json_object_new_object();
    AUTO_FREE char *text = NULL;
    size_t size = 0, written = 0;
    const char *plain;

    if (!specification)
        return 0;
    json_object_object_foreach (specification, key, value)
        if (strcmp(key, "environment") != 0 && strcmp(key, "shell_environment") != 0)
            json_set(copy, key, json_object_get(value));
    plain = json_object_to_json_string_ext(copy, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                     JSON_C_TO_STRING_NOSLASHESCAPE);
    for (const char *c = plain; *c; c++)
        size += *c == '\n' ? 5 : 1;
    text = malloc(size + 5);
    if (!text)
        return error_no_memory(error, "the specification of job %" PRId64, run->job);
    written = (size_t)sprintf(text, "    ");
    for (const char *c = plain; *c; c++) {
        text[written++] = *c;
        if (*c == '\n')
            written += (size_t)sprintf(text + written, "    ");
    }
    text[written] = '\0';
    event_file_add_text(&run->file, "specification", run->time, text);
    return 0;
}

int tensorboard_open(struct tensorboard_run *run, const char *directory, struct json_object *shown,
                     struct json_object *hyperparameters, struct error *error)
{
    struct json_object *job = json_get(shown, "job");
    char file[80], *path = NULL;
    int result;

    *run = (struct tensorboard_run){.file.descriptor = -1,
                                    .job = json_get_int(job, "id", 0),
                                    .time = json_get_double(job, "submitted", 0)};
    snprintf(file, sizeof file, "events.out.tfevents.%010" PRId64 ".traind.%" PRId64,
             (int64_t)run->time, run->job);
    result = run_folder_open(run, directory, json_get_string(job, "name", ""), file, error);
    if (result == 0 && asprintf(&path, "%s/%s", run->folder, file) < 0)
        result = error_no_memory(error, "a path");
    if (result == 0)
        result = event_file_open(&run->file, path, run->job, run->time, error);
    if (result == 0 && run->file.size == 0) {
        hyperparameters_write(run, hyperparameters);
        result = specification_write(run, json_get(shown, "spec"), error);
        if (result == 0)
            result = event_file_commit(&run->file, &run->file.mark, run->time, error);
    }
    if (result < 0)
        tensorboard_close(run);
    else
        run->next = run->file.mark;
    return result;
}

void tensorboard_close(struct tensorboard_run *run)
{
    event_file_close(&run->file);
    free(run->folder);
    run->folder = NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The attempt of that time: the last one that had begun. `*number`: its number; the list may lack
 * the oldest. NULL: it is not in the list. */
static struct json_object *attempt_at(struct json_object *attempts, double time, int64_t *number)
{
    struct json_object *found = NULL;

    *number = 0;
    for (size_t i = 0; i < json_object_array_length(attempts); i++) {
        struct json_object *attempt = json_object_array_get_idx(attempts, i);

        if (json_get_double(attempt, "started", 0) <= time &&
            json_get_int(attempt, "number", 0) > *number) {
            found = attempt;
            *number = json_get_int(attempt, "number", 0);
        }
    }
    return found;
}

/* If the row is the first of a later attempt than the last row: that attempt repeats the steps
 * behind the checkpoint that it began from, and so replaces them. A command need not tell from
 * where it went on; then it is the first step that it reports. */
static int restart_write(struct tensorboard_run *run, struct json_object *row,
                         struct json_object *shown, struct error *error)
{
    double time = json_get_double(row, "time", 0);
    int64_t number, step = json_get_int(row, "step", 0), from;
    struct json_object *attempt = attempt_at(json_get(shown, "attempts"), time, &number);

    if (number <= run->next.attempt)
        return 0;
    run->next.attempt = number;
    if (run->next.values == 0)
        return 0;
    from = json_get_int(attempt, "resumed_from_step", -1);
    step = from >= 0 && from < step ? from + 1 : step;
    event_file_add_restart(&run->file, step, time);
    /* the specification lies at step 0 */
    return step > 0 ? 0 : specification_write(run, json_get(shown, "spec"), error);
}

int tensorboard_write(struct tensorboard_run *run, struct json_object *rows, int64_t cursor,
                      struct json_object *shown, struct error *error)
{
    int result = 0;

    for (size_t i = 0; i < json_object_array_length(rows) && result == 0; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        char tag[1024];

        run->time = json_get_double(row, "time", run->time);
        result = restart_write(run, row, shown, error);
        event_file_add_scalar(
            &run->file, tensorboard_tag(json_get_string(row, "name", ""), tag, sizeof tag),
            json_get_int(row, "step", 0), run->time, json_get_double(row, "value", NAN));
        run->next.values++;
    }
    run->next.cursor = cursor;
    if (result == 0)
        result = event_file_commit(&run->file, &run->next, run->time, error);
    if (result < 0)
        run->next = run->file.mark;
    return result;
}

int tensorboard_end(struct tensorboard_run *run, struct json_object *shown, struct error *error)
{
    CLEANUP(protobuf_release) struct protobuf end = {0}, data = {0};
    struct json_object *job = json_get(shown, "job");
    double ended = json_get_double(job, "ended", NAN);
    bool done = strcmp(json_get_string(job, "state", ""), "done") == 0;

    if (isnan(ended) || run->next.ended)
        return 0;
    protobuf_integer(&end, END_STATUS, done ? STATUS_SUCCESS : STATUS_FAILURE);
    protobuf_double(&end, END_TIME, ended);
    protobuf_message(&data, HPARAMS_END, &end);
    event_file_add_plugin_data(&run->file, "_hparams_/session_end_info", plugin_name, ended, &data);
    run->next.ended = true;
    return event_file_commit(&run->file, &run->next, ended, error);
}
