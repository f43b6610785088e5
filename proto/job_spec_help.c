/* job_spec_help.c: prints the table of keys; see job_spec.h. */
#include "base/cleanup.h"
#include "base/text.h"
#include "proto/job_spec.h"
#include "proto/job_spec_schema.h"

#include <stdlib.h>
#include <string.h>

enum { DESCRIPTION_MAX = 1024, PATH_MAX_LENGTH = 128, MARKDOWN_LINE_MAX = 120 };

struct help {
    enum job_spec_help form;
    FILE *output;
    const char *wanted; /* for JOB_SPEC_HELP_TEXT: the keys to print; NULL: all */
    bool by_part;       /* `wanted` is a substring of their paths */
    int printed;
};

/* Whether the variants that name the key have different defaults. *json is the first variant's
 * default, or the key's own. */
static bool fallbacks_differ(const struct job_spec_section *section, const struct job_spec_key *key,
                             const char **json)
{
    char names[JOB_SPEC_VARIANTS_MAX], *rest;
    bool differ = false;

    job_spec_key_variants(section, key, names, sizeof names);
    *json = *names ? NULL : key->fallback;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        const char *own = job_spec_key_fallback(section, key, name);

        *json = name == names ? own : *json;
        differ |= strcmp(own ? own : "", *json ? *json : "") != 0;
    }
    return differ;
}

/* Prints "0.1 (sgd), 0.001 (adam)", or one value if all variants that have the key agree. */
static void print_fallback(const struct job_spec_section *section, const struct job_spec_key *key,
                           const char *mark, FILE *output)
{
    char names[JOB_SPEC_VARIANTS_MAX], *rest;
    const char *json, *comma = "";

    if (!fallbacks_differ(section, key, &json)) {
        if (json)
            fprintf(output, "%s%s%s", mark, json, mark);
        else
            fputs(key->required ? "required" : "none", output);
        return;
    }
    job_spec_key_variants(section, key, names, sizeof names);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        json = job_spec_key_fallback(section, key, name);
        if (!json)
            continue;
        fprintf(output, "%s%s%s%s (%s)", comma, mark, json, mark, name);
        comma = ", ";
    }
}

static void print_variants(const char *variants, FILE *output)
{
    for (const char *at = variants; *at; at++) {
        if (*at == ' ')
            fputs(", ", output);
        else
            fputc(*at, output);
    }
}

/* Prints, for example, "an integer from 1 to 4096 (cores)". */
static void print_value(const struct job_spec_key *key, FILE *output)
{
    char description[DESCRIPTION_MAX];

    job_spec_key_describe(key, description, sizeof description);
    fputs(description, output);
    if (key->unit && !strstr(description, key->unit))
        fprintf(output, " (%s)", key->unit);
}

static void print_markdown_key(const struct job_spec_section *section,
                               const struct job_spec_key *key, const char *path, FILE *output)
{
    char names[JOB_SPEC_VARIANTS_MAX];
    const char *variants = job_spec_key_variants(section, key, names, sizeof names);
    AUTO_FREE char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return;
    fprintf(stream, "**%s**: %s. *Takes* ", path, key->help);
    print_value(key, stream);
    if (key->required) {
        fputs("; *required*", stream);
    } else {
        fputs("; *default* ", stream);
        print_fallback(section, key, "`", stream);
    }
    if (variants) {
        fputs("; *only for* ", stream);
        print_variants(variants, stream);
    }
    fputc('.', stream);
    if (fclose(stream) == 0)
        text_print_wrapped("- ", "  ", text, MARKDOWN_LINE_MAX, output);
}

static void print_text_key(const struct job_spec_section *section, const struct job_spec_key *key,
                           const char *path, FILE *output)
{
    char names[JOB_SPEC_VARIANTS_MAX];
    const char *variants = job_spec_key_variants(section, key, names, sizeof names);

    fprintf(output, "%s\n    %s\n    ", path, key->help);
    print_value(key, output);
    fputs("; default: ", output);
    print_fallback(section, key, "", output);
    fputc('\n', output);
    if (variants) {
        fputs("    only for: ", output);
        print_variants(variants, output);
        fputc('\n', output);
    }
}

/* Whether `path` is the wanted key, or lies in the wanted section. */
static bool is_wanted(const struct help *help, const char *path)
{
    size_t length = help->wanted ? strlen(help->wanted) : 0;

    if (!help->wanted)
        return true;
    if (help->by_part)
        return strstr(path, help->wanted) != NULL;
    return strncmp(path, help->wanted, length) == 0 &&
           (path[length] == '\0' || path[length] == '.' || path[length] == '[');
}

static void print_section(struct help *help, const struct job_spec_section *section,
                          const char *prefix)
{
    if (help->form == JOB_SPEC_HELP_MARKDOWN)
        fprintf(help->output, "\n## %s\n\n", *prefix ? prefix : "The job");
    for (size_t i = 0; i < section->count; i++) {
        char path[PATH_MAX_LENGTH];

        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", section->keys[i].name);
        if (!is_wanted(help, path))
            continue;
        if (help->form == JOB_SPEC_HELP_MARKDOWN)
            print_markdown_key(section, &section->keys[i], path, help->output);
        else
            print_text_key(section, &section->keys[i], path, help->output);
        help->printed++;
    }
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];
        char path[PATH_MAX_LENGTH];
        bool printed = false;

        for (size_t j = 0; j < i; j++)
            printed = printed || (key->section && section->keys[j].section == key->section);
        if (!key->section || printed || key->section == section)
            continue;
        snprintf(path, sizeof path, "%s%s%s%s", prefix, *prefix ? "." : "", key->name,
                 key->type == JOB_SPEC_OBJECTS ? "[]" : "");
        print_section(help, key->section, path);
    }
}

void job_spec_print_help(enum job_spec_help form, FILE *output)
{
    struct help help = {.form = form, .output = output};

    if (form == JOB_SPEC_HELP_MARKDOWN)
        fputs("# The job specification\n\n"
              "A specification is one JSON object. `build/tests/helpers/job_spec_markdown` prints "
              "this page from the table in\n"
              "`proto/job_spec_schema*.c`; change it there.\n\n"
              "A key that is unknown, or that does not apply to the model, optimizer, format or "
              "layer at hand, is an error. `null`\n"
              "asks for the default. Relative paths of files start at `directory`. `data.test` has "
              "the keys of `data.train`.\n",
              output);
    print_section(&help, &job_spec_schema, "");
}

int job_spec_print_key_help(const char *key, FILE *output)
{
    struct help help = {.form = JOB_SPEC_HELP_TEXT, .output = output, .wanted = key};

    print_section(&help, &job_spec_schema, "");
    if (help.printed > 0)
        return help.printed;
    help.by_part = true;
    print_section(&help, &job_spec_schema, "");
    return help.printed;
}

static void print_paths(const struct job_spec_section *section, const char *prefix, FILE *output)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];
        AUTO_FREE char *path = NULL;

        if (asprintf(&path, "%s%s%s", prefix, *prefix ? "." : "", key->name) < 0)
            path = NULL;
        else if (key->section && key->type == JOB_SPEC_OBJECT)
            print_paths(key->section, path, output);
        else
            fprintf(output, "%s\n", path);
    }
}

void job_spec_print_keys(FILE *output)
{
    print_paths(&job_spec_schema, "", output);
}
