/* print.c: prints the table of configuration keys: as help, as docs/configuration.md, as
 * etc/traind.conf. */
#include "daemon/config/internal.h"

#include <string.h>

enum { LINE_MAX_BYTES = 100 };

/* "Jobs", "Device NAME" */
static const char *heading_of(const char *section)
{
    return strcmp(section, DEVICE_SECTION) == 0 ? DEVICE_SECTION " NAME" : section;
}

static void print_markdown(const char *section, FILE *output)
{
    fprintf(output, "\n## [%s]\n", heading_of(section));
    if (strcmp(section, DEVICE_SECTION) == 0)
        fprintf(output,
                "\nOne section for each device: `[Device cpu]`, `[Device cuda:0]`, or that of a "
                "simulated one, as\n`[Device sim0]`, whose name has letters, digits and "
                "`-_.:`\n(`auto`, `cuda`, "
                "`gpu`, `any` and `simulated` stand for several devices and are no names).\n");
    fprintf(output, "\n| key | default | meaning |\n|---|---|---|\n");
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            fprintf(output, "| `%s` | `%s` | %s Takes %s. |\n", config_keys[i].name,
                    *config_keys[i].fallback ? config_keys[i].fallback : "(empty)",
                    config_keys[i].help, config_key_unit(config_keys[i].type));
}

/* In lines of at most LINE_MAX_BYTES, each of which begins with `prefix`: what reads the file has a
 * limit for lines, comments included. */
static void print_wrapped(const char *prefix, const char *text, FILE *output)
{
    size_t room = LINE_MAX_BYTES - strlen(prefix);

    while (strlen(text) > room) {
        size_t length = room;

        while (length > 0 && text[length] != ' ')
            length--;
        if (length == 0) /* one long word */
            length = strcspn(text, " ");
        fprintf(output, "%s%.*s\n", prefix, (int)length, text);
        text += length + strspn(text + length, " ");
    }
    if (*text)
        fprintf(output, "%s%s\n", prefix, text);
}

static void print_file(const char *section, bool commented, FILE *output)
{
    bool device = strcmp(section, DEVICE_SECTION) == 0; /* NAME is to be replaced */

    fprintf(output, "\n%s[%s]\n", commented && device ? "#" : "", heading_of(section));
    for (int i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) != 0)
            continue;
        print_wrapped(commented ? "# " : "    ", config_keys[i].help, output);
        fprintf(output, "%s%s =%s%s\n", commented ? "#" : "  ", config_keys[i].name,
                *config_keys[i].fallback ? " " : "", config_keys[i].fallback);
    }
}

void config_print(enum config_form form, FILE *output)
{
    if (form == CONFIG_MARKDOWN)
        fprintf(
            output,
            "# Configuration\n\n"
            "`/etc/traind/traind.conf`, then `/etc/traind/traind.conf.d/*.conf` in the order of "
            "their names; later\nvalues win. A daemon that serves its user alone reads\n"
            "`~/.config/traind/traind.conf` and its `.d` folder instead. An unknown key is an "
            "error.\nThis page is `traind --help-config=markdown`.\n");
    else if (form == CONFIG_FILE)
        fprintf(output, "# traind.conf: every key with its default. See docs/configuration.md.\n");
    for (int i = 0; i < config_key_count; i++) {
        if (i > 0 && strcmp(config_keys[i].section, config_keys[i - 1].section) == 0)
            continue;
        if (form == CONFIG_MARKDOWN)
            print_markdown(config_keys[i].section, output);
        else
            print_file(config_keys[i].section, form == CONFIG_FILE, output);
    }
}
