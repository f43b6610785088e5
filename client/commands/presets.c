/* presets.c: `trainctl presets` lists the parts of specifications that there are by name, and
 * prints what several of them are together. */
#include "client/submission/presets.h"

#include "client/command_line/invocation.h"
#include "client/view/table.h"

#include <string.h>

static void missing_print(struct json_object *list, const char *folder)
{
    bool first = true;

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *preset = json_object_array_get_idx(list, i);

        if (!json_get(preset, "here") || json_get_bool(preset, "here", false))
            continue;
        if (first)
            printf(
                "\nData come from the folder %s (TRAIND_DATA names another). To get what is missing there:\n",
                folder ? folder : "that TRAIND_DATA names");
        first = false;
        printf("  %s: %s\n", json_get_string(preset, "name", ""),
               json_get_string(preset, "get", ""));
    }
}

static void list_print(struct json_object *list, const char *folder, const struct display *display)
{
    static const struct table_column columns[] = {
        {"PRESET", false, 0}, {"KIND", false, 0}, {"DATA", false, 0}, {"WHAT", false, 20}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *preset = json_object_array_get_idx(list, i);
        bool here = json_get_bool(preset, "here", true);
        const char *problem = json_get_string(preset, "problem", NULL);

        table_add(table, json_get_string(preset, "name", ""), STYLE_BOLD);
        table_add(table, json_get_string(preset, "kind", ""), STYLE_PLAIN);
        table_add(table,
                  !json_get(preset, "here") ? ""
                  : here                    ? "here"
                                            : "missing",
                  here ? STYLE_GREEN : STYLE_YELLOW);
        table_add(table, problem ? problem : json_get_string(preset, "about", ""),
                  problem ? STYLE_RED : STYLE_PLAIN);
    }
    table_print(table, display, stdout);
    table_free(table);
    missing_print(list, folder);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *result = NULL;
    AUTO_FREE char *folder = presets_data_folder(invocation);
    struct error error = {0};

    if (invocation->argument_count) {
        const char *expression = invocation->arguments[0];

        if (!presets_is_expression(expression)) {
            complain("\"%s\" are no names of presets with + between them", expression);
            return EXIT_STATUS_USAGE;
        }
        if (presets_compose(expression, folder, &result, &error) < 0) {
            complain("%s", error.text);
            return EXIT_STATUS_USAGE;
        }
        if (invocation->json)
            json_print(result, stdout);
        else
            json_print_indented(result, stdout);
        return EXIT_STATUS_DONE;
    }
    result = presets_list(folder);
    if (invocation->json)
        json_print(result, stdout);
    else
        list_print(result, folder, &invocation->output);
    return EXIT_STATUS_DONE;
}

const struct command command_presets = {
    .name = "presets",
    .place = 7,
    .arguments = "[NAME[+NAME…]]",
    .summary = "List named parts of specifications, or print what several are together",
    .details =
        "Where a command takes SPEC, it takes such names, too: `trainctl submit "
        "resnet18+cifar10+fast`. A later\npreset wins over an earlier one, and --set over all. Data "
        "come from the folder that TRAIND_DATA names, else\nFolder of [Data] in the daemon's "
        "configuration, else ~/.local/share/traind/data; files that are known are\nchecked. Your own "
        "presets are files NAME.json in ~/.config/traind/presets.",
    .maximum = 1,
    .completion = COMPLETE_PRESETS,
    .execute = command_execute,
};
