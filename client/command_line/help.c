/* help.c: see help.h. */
#include "client/command_line/help.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/view/display.h"

#include <string.h>

enum {
    TEXT_COLUMNS = 100,  /* of paragraphs; fewer on a narrow terminal */
    OPTION_COLUMNS = 34, /* where the text of an option begins */
    TEXT_COLUMNS_MIN = 24
};

static size_t terminal_columns(FILE *output)
{
    struct display display;

    display_look(fileno(output), &display);
    return display.columns;
}

/* Breaks the lines of paragraphs, which an empty line separates, anew for the screen. */
static void paragraphs_print(const char *text, FILE *output)
{
    size_t columns = terminal_columns(output);
    AUTO_FREE char *copy = memory_copy_text(text);

    if (columns == 0 || columns > TEXT_COLUMNS)
        columns = TEXT_COLUMNS;
    for (char *paragraph = copy, *end; paragraph; paragraph = end) {
        end = strstr(paragraph, "\n\n");
        if (end) {
            *end = '\0';
            end += 2;
        }
        for (char *at = paragraph; (at = strchr(at, '\n'));)
            *at = ' ';
        text_print_wrapped("", "", paragraph, columns, output);
        if (end)
            fputc('\n', output);
    }
}

/* Prints what is a line in a pipe, and several on a terminal that is too narrow. */
static void words_print(const char *text, const char *below, FILE *output)
{
    size_t columns = terminal_columns(output);

    text_print_wrapped("", below, text, columns ? columns : SIZE_MAX, output);
}

/* Prints an option behind its label. On a terminal the text goes on below its beginning, or, on a
 * narrow one, begins below the label; in a pipe an option is a line. */
static void option_print(const char *label, const char *help, FILE *output)
{
    size_t columns = terminal_columns(output), width = display_width(label);
    char first[128], below[OPTION_COLUMNS + 1];

    snprintf(first, sizeof first, "  %s%*s  ", label, width < 30 ? (int)(30 - width) : 0, "");
    snprintf(below, sizeof below, "%*s", OPTION_COLUMNS, "");
    if (columns == 0) {
        fprintf(output, "%s%s\n", first, help);
    } else if (columns < OPTION_COLUMNS + TEXT_COLUMNS_MIN) {
        fprintf(output, "  %s\n", label);
        text_print_wrapped("          ", "          ", help, columns, output);
    } else {
        text_print_wrapped(first, below, help, columns, output);
    }
}

static void options_print(const struct command_option *options, FILE *output)
{
    for (; options && options->name; options++) {
        char label[64];

        snprintf(label, sizeof label, "%s%c%c --%s%s%s", options->letter ? "-" : " ",
                 options->letter ? options->letter : ' ', options->letter ? ',' : ' ',
                 options->name,
                 options->argument && !command_option_is_optional(options) ? "=" : "",
                 options->argument ? options->argument : "");
        option_print(label, options->help, output);
    }
}

static void overview_print(const struct command *const *commands, FILE *output)
{
    size_t columns = terminal_columns(output);
    char first[64];

    words_print("trainctl: hand training jobs to traind and see what becomes of them", "", output);
    fputc('\n', output);
    words_print("Usage: trainctl [OPTION…] COMMAND [OPTION…] [ARGUMENT…]", "    ", output);
    fputs("\nCommands:\n", output);
    for (; *commands; commands++) {
        if ((*commands)->hidden)
            continue;
        snprintf(first, sizeof first, "  %-12s ", (*commands)->name);
        text_print_wrapped(first, "               ", (*commands)->summary,
                           columns ? columns : SIZE_MAX, output);
    }
    fprintf(output, "\nOptions of every command:\n");
    options_print(command_common_options, output);
    fputc('\n', output);
    paragraphs_print(
        "JOB is the number of a job, or the name of the newest of yours that has it. "
        "`trainctl help COMMAND` has more, `trainctl help spec` the keys of a job specification. "
        "With --host, files and folders are those of that machine; \"-\" is standard input or "
        "output here.\n\n"
        "Exit status: 0 done; 1 the job failed or was cancelled, or the daemon refused; 2 wrong "
        "usage; 3 no daemon answers; 130 detached with Ctrl-C, the job goes on.",
        output);
}

void help_print(const struct command *const *commands, const struct command *command, FILE *output)
{
    AUTO_FREE char *usage = NULL, *summary = NULL;

    if (!command) {
        overview_print(commands, output);
        return;
    }
    usage = memory_format("Usage: trainctl %s%s%s%s", command->name,
                          command->options ? " [OPTION…]" : "", command->arguments ? " " : "",
                          command->arguments ? command->arguments : "");
    summary = memory_format("%s.", command->summary);
    words_print(usage, "    ", output);
    fputc('\n', output);
    words_print(summary, "", output);
    if (command->details)
        paragraphs_print(command->details, output);
    if (command->options) {
        fprintf(output, "\nOptions:\n");
        options_print(command->options, output);
    }
    fprintf(output, "\nOptions of every command:\n");
    options_print(command_common_options, output);
}
