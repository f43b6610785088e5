/* print.c: prints the table of configuration keys: as help, as docs/configuration.md, as
 * etc/traind.conf. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "base/text.h"
#include "daemon/config/internal.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a line. The parser of traind.conf limits lines, including comments. */
enum { FILE_LINE_MAX = 100, MARKDOWN_LINE_MAX = 120 };

/* "Jobs", "Device NAME" */
static const char *heading_of(const char *section)
{
    return strcmp(section, DEVICE_SECTION) == 0 ? DEVICE_SECTION " NAME" : section;
}

/* The help of a key, which the caller frees. On the screen, that of Kind names the kinds of the
 * registry. The documents do not, so that a new kind leaves them as they are. */
static char *help_of(const struct config_key *key, device_kind_at *kind_at, enum config_form form)
{
    char real[128], others[128];

    if (key->type != VALUE_KIND)
        return memory_copy_text(key->help);
    if (form != CONFIG_TEXT)
        return memory_format("The kind of a simulated device; `traind --help-config` lists the "
                             "kinds. %s",
                             key->help);
    return memory_format("The kind of a device other than %s: %s. %s",
                         config_list_kinds(kind_at, true, "", real, sizeof real),
                         config_list_kinds(kind_at, false, "", others, sizeof others), key->help);
}

static void print_markdown_key(const struct config_key *key, device_kind_at *kind_at, FILE *output)
{
    AUTO_FREE char *help = help_of(key, kind_at, CONFIG_MARKDOWN);
    AUTO_FREE char *text = memory_format(
        "**%s**: %s *Takes* %s; *default* %s%s%s.", key->name, help, config_key_unit(key->type),
        *key->fallback ? "`" : "", key->fallback, *key->fallback ? "`" : "empty");

    text_print_wrapped("- ", "  ", text, MARKDOWN_LINE_MAX, output);
}

/* Says how devices are named. */
static void print_device_names(FILE *output)
{
    fputc('\n', output);
    text_print_wrapped("", "",
                       "One section for each device: `[Device cpu]`, `[Device cuda:0]`, or that of "
                       "a simulated one, such as `[Device sim0]`. A name has letters, digits and "
                       "`-_.:`. `auto`, `gpu`, `any` and the names of kinds, such as `cuda`, are "
                       "no names, because they stand for several devices.",
                       MARKDOWN_LINE_MAX, output);
}

static void print_markdown(const char *section, device_kind_at *kind_at, FILE *output)
{
    fprintf(output, "\n## [%s]\n", heading_of(section));
    if (strcmp(section, DEVICE_SECTION) == 0)
        print_device_names(output);
    fputc('\n', output);
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            print_markdown_key(&config_keys[i], kind_at, output);
}

/* As on the screen, or as the sample file, where all is commented out. */
static void print_file(const char *section, device_kind_at *kind_at, enum config_form form,
                       FILE *output)
{
    bool commented = form == CONFIG_FILE;
    bool device = strcmp(section, DEVICE_SECTION) == 0; /* whose NAME is a placeholder */
    const char *prefix = commented ? "# " : "    ";

    fprintf(output, "\n%s[%s]\n", commented && device ? "#" : "", heading_of(section));
    for (int i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) != 0)
            continue;
        AUTO_FREE char *help = help_of(&config_keys[i], kind_at, form);
        text_print_wrapped(prefix, prefix, help, FILE_LINE_MAX, output);
        fprintf(output, "%s%s =%s%s\n", commented ? "#" : "  ", config_keys[i].name,
                *config_keys[i].fallback ? " " : "", config_keys[i].fallback);
    }
}

static const char *const config_form_names[] = {
    [CONFIG_TEXT] = "text", [CONFIG_MARKDOWN] = "markdown", [CONFIG_FILE] = "file"};
DEFINE_STRING_TABLE(config_form, enum config_form, config_form_names)

void config_print(enum config_form form, device_kind_at *kind_at, FILE *output)
{
    if (form == CONFIG_MARKDOWN)
        fprintf(
            output,
            "# Configuration\n\n"
            "traind reads `/etc/traind/traind.conf`, then `/etc/traind/traind.conf.d/*.conf` in "
            "the order of their names.\nLater values win. "
            "A daemon that serves its user alone reads `~/.config/traind/traind.conf` and its `.d` "
            "folder\ninstead. An unknown key is an error, and so is a file that cannot be read.\n"
            "`traind --help-config=markdown` prints this page.\n");
    else if (form == CONFIG_FILE)
        fprintf(output, "# traind.conf: every key with its default. See docs/configuration.md.\n");
    for (int i = 0; i < config_key_count; i++) {
        if (i > 0 && strcmp(config_keys[i].section, config_keys[i - 1].section) == 0)
            continue;
        if (form == CONFIG_MARKDOWN)
            print_markdown(config_keys[i].section, kind_at, output);
        else
            print_file(config_keys[i].section, kind_at, form, output);
    }
}
