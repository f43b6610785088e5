/* print.c: prints the table of configuration keys: as help, as docs/configuration.md, as
 * etc/traind.conf. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "base/text.h"
#include "daemon/config/internal.h"

#include <string.h>

/* Bytes of a line. The parser of traind.conf limits lines, including comments. */
enum { FILE_LINE_MAX = 100, MARKDOWN_LINE_MAX = 120 };

/* "Jobs", "Device NAME" */
static const char *heading_of(const char *section)
{
    return strcmp(section, DEVICE_SECTION) == 0 ? DEVICE_SECTION " NAME" : section;
}

static void print_markdown_key(const struct config_key *key, FILE *output)
{
    AUTO_FREE char *text =
        memory_format("**%s**: %s *Takes* %s; *default* %s%s%s.", key->name, key->help,
                      config_key_unit(key->type), *key->fallback ? "`" : "", key->fallback,
                      *key->fallback ? "`" : "empty");

    text_print_wrapped("- ", "  ", text, MARKDOWN_LINE_MAX, output);
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
    fputc('\n', output);
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            print_markdown_key(&config_keys[i], output);
}

static void print_file(const char *section, bool commented, FILE *output)
{
    bool device = strcmp(section, DEVICE_SECTION) == 0; /* NAME is a placeholder, so the section is
                                                         * commented out */
    const char *prefix = commented ? "# " : "    ";

    fprintf(output, "\n%s[%s]\n", commented && device ? "#" : "", heading_of(section));
    for (int i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) != 0)
            continue;
        text_print_wrapped(prefix, prefix, config_keys[i].help, FILE_LINE_MAX, output);
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
            "traind reads `/etc/traind/traind.conf`, then `/etc/traind/traind.conf.d/*.conf` in "
            "the order of their names.\nLater values win. "
            "A daemon that serves its user alone reads `~/.config/traind/traind.conf` and its `.d` "
            "folder\ninstead. An unknown key is an error. "
            "`traind --help-config=markdown` prints this page.\n");
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
