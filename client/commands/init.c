/* init.c: `trainctl init` writes a specification that learns from given data. What may be asked has
 * an answer that is probably right; without a terminal it is taken and printed. */
#include "base/file.h"
#include "base/text.h"
#include "client/command_line/invocation.h"
#include "client/command_line/question.h"
#include "client/submission/data_spec.h"
#include "client/submission/plan_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MOST = 16, COLUMNS_SHOWN = 40, ASSUMED_BYTES = 1024 };

struct init {
    const struct invocation *invocation;
    const char *path, *file; /* the data; the file to write, "-": standard output */
    bool asks;
    FILE *output;                             /* for people */
    struct json_object *inspection, *choices; /* the latter is the former's */
    struct json_object *assumed;              /* texts */
    struct json_object *choice;               /* what was chosen */
    struct json_object *spec, *plan;
};

/* Prints and keeps what nobody has said. */
static void __attribute__((format(printf, 2, 3))) assume(struct init *init, const char *format, ...)
{
    char text[ASSUMED_BYTES], shown[ASSUMED_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_object_array_add(init->assumed, json_object_new_string(text_make_utf8(text)));
    if (!init->invocation->json)
        fprintf(init->output, "  assumed: %s\n", text_escape_controls(text, shown, sizeof shown));
}

static enum exit_status input_ended(void)
{
    complain("nothing was written: the answer is missing");
    return EXIT_STATUS_FAILED;
}

/* ---- the data ---- */

static enum exit_status inspect(struct init *init, const char *target)
{
    struct json_object *inspection = NULL;
    struct error error = {0};

    if (data_spec_inspect(init->path, target, &inspection, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    json_object_put(init->inspection);
    init->inspection = inspection;
    init->choices = json_get(inspection, "choices");
    return EXIT_STATUS_DONE;
}

/* ", 12 rows", ", 1 row" */
static void count_print(const struct init *init, int64_t count, const char *noun, const char *nouns)
{
    fprintf(init->output, ", %" PRId64 " %s", count, count == 1 ? noun : nouns);
}

static void found_print(const struct init *init)
{
    struct json_object *inspection = init->inspection, *columns = json_get(inspection, "columns");
    bool is_text = strcmp(json_get_string(inspection, "format", ""), "text") == 0;
    char shown[1024];

    fprintf(init->output, "%s: %s", text_escape_controls(init->path, shown, sizeof shown),
            json_get_string(inspection, "format", "?"));
    if (columns) {
        count_print(init, json_get_int(inspection, "rows", 0), "row", "rows");
        count_print(init, (int64_t)json_object_array_length(columns), "column", "columns");
    } else if (json_get(inspection, "samples")) {
        count_print(init, json_get_int(inspection, "samples", 0), is_text ? "byte" : "sample",
                    is_text ? "bytes" : "samples");
    }
    if (json_get_int(inspection, "classes", 0) && !columns)
        count_print(init, json_get_int(inspection, "classes", 0), "class", "classes");
    fputc('\n', init->output);
}

/* Lists the columns with the numbers that --target takes, too. */
static void columns_print(const struct init *init, struct json_object *columns)
{
    size_t count = json_object_array_length(columns);

    for (size_t i = 0; i < count && i < COLUMNS_SHOWN; i++) {
        struct json_object *column = json_object_array_get_idx(columns, i);
        const char *reason = json_get_string(column, "reason", "");
        char name[128], shown[256];

        fprintf(init->output, "  %3zu  %-24s %s%s%s\n", i,
                text_escape_controls(json_get_string(column, "name", ""), name, sizeof name),
                json_get_string(column, "type", ""), *reason ? ": " : "",
                text_escape_controls(reason, shown, sizeof shown));
    }
    if (count > COLUMNS_SHOWN)
        fprintf(init->output, "  and %zu more\n", count - COLUMNS_SHOWN);
}

/* Asks for the column to predict until it can be. */
static enum exit_status target_ask(struct init *init)
{
    enum exit_status status = EXIT_STATUS_USAGE;

    columns_print(init, json_get(init->inspection, "columns"));
    while (status) {
        const char *target = json_get_string(init->inspection, "target", "");
        AUTO_FREE char *answer =
            question_ask(init->output, "Which column is to be predicted?", target);

        if (!answer)
            return input_ended();
        status = strcmp(answer, target) == 0 && json_object_array_length(init->choices)
                     ? EXIT_STATUS_DONE
                     : inspect(init, answer);
    }
    return EXIT_STATUS_DONE;
}

static enum exit_status data_read(struct init *init)
{
    const char *target = invocation_option(init->invocation, "target");
    enum exit_status status = inspect(init, target);

    if (status)
        return status;
    if (!init->invocation->json)
        found_print(init);
    if (json_get(init->inspection, "columns") && !target && init->asks)
        status = target_ask(init);
    else if (json_get(init->inspection, "columns") && !target)
        assume(init, "\"%s\" is predicted (--target)",
               json_get_string(init->inspection, "target", ""));
    if (!status && !json_object_array_length(init->choices)) {
        complain("%s: no column can be predicted; of \"%s\" %s", init->path,
                 json_get_string(init->inspection, "target", ""),
                 json_get_string(init->inspection, "problem", "nothing is known"));
        return EXIT_STATUS_USAGE;
    }
    return status;
}

/* ---- task, model and length ---- */

static const char *task_about(const char *task)
{
    static const struct question_word tasks[] = {
        {"classes", "which class a sample is of"},
        {"numbers", "a number"},
        {"forecast", "the next value, from the rows before"},
        {"text", "the next character, from those before"},
    };

    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (strcmp(tasks[i].word, task) == 0)
            return tasks[i].about;
    return "";
}

static void words_complain(const char *option, const char *given, const struct question_word *words,
                           int count)
{
    char list[256] = "";

    for (int i = 0, used = 0; i < count && used < (int)sizeof list; i++)
        used +=
            snprintf(list + used, sizeof list - (size_t)used, "%s%s", i ? ", " : "", words[i].word);
    complain("--%s=%s: of these data it may be %s", option, given, list);
}

/* Chooses among words by the option, by asking, or by assuming the first. NULL: status tells. */
static const char *word_choose(struct init *init, const char *option, const char *question,
                               const struct question_word *words, int count, int fallback,
                               enum exit_status *status)
{
    const char *given = invocation_option(init->invocation, option);
    int index = fallback;

    if (given) {
        for (index = 0; index < count && strcmp(words[index].word, given) != 0;)
            index++;
        if (index < count)
            return words[index].word;
        words_complain(option, given, words, count);
        *status = EXIT_STATUS_USAGE;
        return NULL;
    }
    if (init->asks && count > 1) {
        index = question_choose(init->output, question, words, count, fallback);
        if (index < 0)
            *status = input_ended();
    } else if (count > 1) {
        assume(init, "%s %s%s%s (--%s)", option, words[index].word,
               words[index].about && *words[index].about ? ": " : "",
               words[index].about ? words[index].about : "", option);
    }
    return index < 0 || index >= count ? NULL : words[index].word;
}

static enum exit_status task_and_model_choose(struct init *init)
{
    const char *names[WORDS_MOST], *task, *model;
    struct question_word words[WORDS_MOST] = {0};
    enum exit_status status = EXIT_STATUS_DONE;
    int count = data_spec_words(init->choices, NULL, "task", names, WORDS_MOST);

    for (int i = 0; i < count; i++)
        words[i] = (struct question_word){names[i], task_about(names[i])};
    task = word_choose(init, "task", "What is to be predicted?", words, count, 0, &status);
    if (!task)
        return status;
    count = data_spec_words(init->choices, task, "model", names, WORDS_MOST);
    for (int i = 0; i < count; i++)
        words[i] = (struct question_word){
            names[i], json_get_string(data_spec_find(init->choices, task, names[i]), "about", "")};
    model = word_choose(init, "model", "Which model?", words, count, 0, &status);
    if (!model)
        return status;
    init->choice = data_spec_find(init->choices, task, model);
    return EXIT_STATUS_DONE;
}

/* Has ways to train compared on the rows of a table, for the task and model that were chosen. */
static enum exit_status ways_measure(struct init *init)
{
    AUTO_FREE char *target = strdup(json_get_string(init->inspection, "target", ""));
    AUTO_FREE char *task = strdup(json_get_string(init->choice, "task", ""));
    AUTO_FREE char *model = strdup(json_get_string(init->choice, "model", ""));
    struct json_object *inspection = NULL;
    struct error error = {0};

    if (!invocation_flag(init->invocation, "measure"))
        return EXIT_STATUS_DONE;
    if (!target || !task || !model || !json_get(init->inspection, "columns")) {
        complain("--measure: only ways to learn from a table are compared, and %s is none",
                 init->path);
        return EXIT_STATUS_USAGE;
    }
    if (!init->invocation->json) {
        fprintf(init->output, "  ways to train are compared on parts of the rows ...\n");
        fflush(init->output);
    }
    if (data_spec_measure(init->path, target, task, invocation_option(init->invocation, "seconds"),
                          &inspection, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    json_object_put(init->inspection);
    init->inspection = inspection;
    init->choices = json_get(inspection, "choices");
    init->choice = data_spec_find(init->choices, task, model);
    if (init->choice)
        return EXIT_STATUS_DONE;
    complain("%s changed while it was read", init->path);
    return EXIT_STATUS_FAILED;
}

/* Prints what was found by comparing, if that was chosen. */
static void measured_print(const struct init *init)
{
    struct json_object *sentences = json_get(json_get(init->inspection, "measured"), "sentences");
    char shown[ASSUMED_BYTES];

    if (init->invocation->json || !sentences ||
        init->choice != json_object_array_get_idx(init->choices, 0))
        return;
    for (size_t i = 0; i < json_object_array_length(sentences); i++)
        fprintf(
            init->output, "  measured: %s\n",
            text_escape_controls(json_object_get_string(json_object_array_get_idx(sentences, i)),
                                 shown, sizeof shown));
}

/* Whether the --length is one: said before anything is asked or measured. */
static enum exit_status length_check(const struct init *init)
{
    const char *given = invocation_option(init->invocation, "length");

    for (int i = 0; i < DATA_SPEC_LENGTHS; i++)
        if (!given || strcmp(given, data_spec_lengths[i]) == 0)
            return EXIT_STATUS_DONE;
    complain("--length=%s: quick, usual or long is expected", given);
    return EXIT_STATUS_USAGE;
}

static enum exit_status length_choose(struct init *init, enum data_spec_length *length)
{
    struct question_word words[DATA_SPEC_LENGTHS] = {0};
    char abouts[DATA_SPEC_LENGTHS][48];
    enum exit_status status = EXIT_STATUS_DONE;
    const char *word;

    for (int i = 0; i < DATA_SPEC_LENGTHS; i++) {
        data_spec_length_format(init->choice, i, abouts[i], sizeof abouts[i]);
        words[i] = (struct question_word){data_spec_lengths[i], abouts[i]};
    }
    word = word_choose(init, "length", "How long?", words, DATA_SPEC_LENGTHS, DATA_SPEC_USUAL,
                       &status);
    for (int i = 0; i < DATA_SPEC_LENGTHS; i++)
        if (word == data_spec_lengths[i])
            *length = i;
    return status;
}

/* ---- the file ---- */

/* Whether the file may be written; nothing is overwritten without a word of the user. */
static enum exit_status file_check(struct init *init)
{
    char question[512], shown[400];
    struct error error = {0};

    if (strcmp(init->file, "-") == 0)
        return EXIT_STATUS_DONE;
    if (file_check_result(init->file, init->path, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (access(init->file, F_OK) < 0 || invocation_flag(init->invocation, "replace"))
        return EXIT_STATUS_DONE;
    snprintf(question, sizeof question, "%s is there already. Is it to be replaced?",
             text_escape_controls(init->file, shown, sizeof shown));
    if (init->asks && question_confirm(init->output, question))
        return EXIT_STATUS_DONE;
    complain("%s is there already: --replace writes over it, -o names another file", init->file);
    return EXIT_STATUS_USAGE;
}

static enum exit_status spec_write(struct init *init)
{
    AUTO_FREE char *text = NULL;
    struct error error = {0};
    size_t size;
    FILE *file;

    if (strcmp(init->file, "-") == 0) {
        if (!init->invocation->json) /* whose report has it */
            json_print_indented(init->spec, stdout);
        return EXIT_STATUS_DONE;
    }
    file = open_memstream(&text, &size);
    if (!file) {
        complain("not enough memory for %s", init->file);
        return EXIT_STATUS_FAILED;
    }
    json_print_indented(init->spec, file);
    if (fclose(file) != 0 || file_write_result(init->file, text, size, &error) < 0) {
        complain("%s", error.code ? error.text : "not enough memory");
        return EXIT_STATUS_FAILED;
    }
    return EXIT_STATUS_DONE;
}

/* Opens the data as the job will, so that a specification that is written can be submitted. */
static enum exit_status spec_check(struct init *init)
{
    struct error error = {0};

    if (plan_run(init->spec, NULL, &init->plan, &error) == 0)
        return EXIT_STATUS_DONE;
    complain("nothing was written, because the job could not run: %s", error.text);
    return EXIT_STATUS_FAILED;
}

static void result_print(const struct init *init)
{
    struct json_object *warnings = json_get(init->plan, "warnings");
    char shown[1024], time[48] = "";

    for (size_t i = 0; warnings && i < json_object_array_length(warnings); i++)
        fprintf(init->output, "  warning: %s\n",
                text_escape_controls(json_object_get_string(json_object_array_get_idx(warnings, i)),
                                     shown, sizeof shown));
    if (json_get(init->plan, "predicted_seconds"))
        fprintf(init->output, "  it trains for about %s on this machine's CPU\n",
                text_format_duration(json_get_double(init->plan, "predicted_seconds", 0), time,
                                     sizeof time));
    if (strcmp(init->file, "-") == 0)
        return;
    fprintf(init->output, "%s is written; submit it: trainctl submit ",
            text_escape_controls(init->file, shown, sizeof shown));
    display_print_word(init->file, init->output);
    fputs(" --follow\n", init->output);
}

static void result_print_json(const struct init *init)
{
    JSON_AUTO struct json_object *json = json_object_new_object();

    json_set_string(json, "file", init->file);
    json_set(json, "assumed", json_object_get(init->assumed));
    if (json_get(init->inspection, "measured"))
        json_set(json, "measured", json_object_get(json_get(init->inspection, "measured")));
    json_set(json, "specification", json_object_get(init->spec));
    json_set(json, "plan", json_object_get(init->plan));
    json_print(json, stdout);
}

/* ---- the command ---- */

static enum exit_status init_run(struct init *init)
{
    enum data_spec_length length = DATA_SPEC_USUAL;
    struct error error = {0};
    enum exit_status status = data_read(init);
    struct json_object *notes;

    if (!status)
        status = task_and_model_choose(init);
    if (!status)
        status = ways_measure(init);
    if (!status)
        status = length_choose(init, &length);
    if (status)
        return status;
    measured_print(init);
    notes = json_get(init->inspection, "assumed");
    for (size_t i = 0; notes && i < json_object_array_length(notes); i++)
        assume(init, "%s", json_object_get_string(json_object_array_get_idx(notes, i)));
    if (data_spec_make(init->choice, init->path, length, &init->spec, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    status = spec_check(init);
    if (!status)
        status = spec_write(init);
    return status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    const char *file = invocation_option(invocation, "output");
    AUTO_FREE char *full = realpath(invocation->arguments[0], NULL);
    char name[80], own[96];
    struct init init = {.invocation = invocation, .path = invocation->arguments[0], .file = file};
    enum exit_status status;

    data_spec_name(full ? full : init.path, name, sizeof name);
    snprintf(own, sizeof own, "%s.json", name);
    if (!file)
        init.file = own;
    init.output = strcmp(init.file, "-") == 0 ? stderr : stdout;
    init.asks = !invocation_flag(invocation, "yes") && !invocation->json && isatty(STDIN_FILENO) &&
                isatty(fileno(init.output));
    init.assumed = json_object_new_array();
    status = file_check(&init);
    if (!status)
        status = length_check(&init);
    if (!status)
        status = init_run(&init);
    if (!status && invocation->json)
        result_print_json(&init);
    else if (!status)
        result_print(&init);
    json_object_put(init.inspection);
    json_object_put(init.assumed);
    json_object_put(init.spec);
    json_object_put(init.plan);
    return status;
}

static const struct command_option init_options[] = {
    {"output", 'o', "FILE",
     "The specification to write, \"-\": standard output (default: the data's name with .json)",
     COMPLETE_FILES},
    {"target", 0, "COLUMN", "Of a table, the column to predict: its name or number from 0",
     COMPLETE_NOTHING},
    {"task", 0, "TASK", "classes, numbers, forecast or text, of those that the data allow",
     COMPLETE_NOTHING},
    {"model", 0, "MODEL", "The model, of those that suit the data", COMPLETE_NOTHING},
    {"length", 0, "LENGTH", "quick, usual (default) or long: a quarter, all or three times as much",
     COMPLETE_NOTHING},
    {"measure", 0, NULL,
     "Of a table, compare ways to train on parts of its rows, and take the best", COMPLETE_NOTHING},
    {"seconds", 0, "N", "With --measure: end after N seconds (default 300)", COMPLETE_NOTHING},
    {"yes", 'y', NULL, "Ask nothing, and print what is assumed", COMPLETE_NOTHING},
    {"replace", 0, NULL, "Write over a file that is there", COMPLETE_NOTHING},
    {0},
};

const struct command command_init = {
    .reads_input = true,
    .name = "init",
    .place = 5,
    .arguments = "FILE|FOLDER",
    .summary = "Write a specification that learns from a file or a folder of data",
    .details =
        "Names and content tell the format: tables (CSV), texts, sequences (CSV, FASTA), images in "
        "folders, IDX,\nNumPy arrays, CIFAR's binary files. A test set beside the training set is "
        "taken. On a terminal a few\nquestions follow, each with an answer for Enter. With --yes, "
        "--json or without a terminal these are taken,\nand printed. The data are read as the job "
        "will read them before the file is written, without the daemon.",
    .minimum = 1,
    .maximum = 1,
    .options = init_options,
    .completion = COMPLETE_FILES,
    .execute = command_execute,
};
