/* job_spec_help.c: prints the table of keys; see job_spec.h. */
#include "base/cleanup.h"
#include "proto/job_spec.h"
#include "proto/job_spec_schema.h"

#include <stdlib.h>
#include <string.h>

enum { DESCRIPTION_MAX = 400, PATH_MAX_LENGTH = 128 };

struct help {
    enum job_spec_help form;
    FILE *output;
    const char *wanted; /* of a text: the keys that are printed; NULL: all */
    bool by_part;       /* `wanted` is a part of their paths */
    int printed;
};

static void print_escaped(const struct help *help, const char *text)
{
    for (; *text; text++) {
        if (help->form == JOB_SPEC_HELP_MARKDOWN && *text == '|')
            fputc('\\', help->output);
        fputc(*text, help->output);
    }
}

/* "0.1 (sgd), 0.001 (adam)" */
static void print_fallback(const struct help *help, const struct job_spec_key *key)
{
    const char *mark = help->form == JOB_SPEC_HELP_MARKDOWN ? "`" : "";

    if (key->fallbacks) {
        for (const struct job_spec_fallback *f = key->fallbacks; f->variant; f++) {
            fprintf(help->output, "%s%s", f == key->fallbacks ? "" : ", ", mark);
            print_escaped(help, f->json);
            fprintf(help->output, "%s (%s)", mark, f->variant);
        }
    } else if (key->fallback) {
        fputs(mark, help->output);
        print_escaped(help, key->fallback);
        fputs(mark, help->output);
    } else {
        fputs(key->required ? "required" : "none", help->output);
    }
}

static void print_variants(const struct help *help, const struct job_spec_key *key)
{
    for (const char *at = key->variants; *at; at++) {
        if (*at == ' ')
            fputs(", ", help->output);
        else
            fputc(*at, help->output);
    }
}

static void print_key(const struct help *help, const struct job_spec_key *key, const char *path)
{
    char description[DESCRIPTION_MAX];

    job_spec_key_describe(key, description, sizeof description);
    if (help->form == JOB_SPEC_HELP_MARKDOWN) {
        fprintf(help->output, "| `%s` | ", path);
        print_escaped(help, description);
        if (key->unit && !strstr(description, key->unit))
            fprintf(help->output, " (%s)", key->unit);
        fputs(" | ", help->output);
        print_fallback(help, key);
        fputs(" | ", help->output);
        if (key->variants) {
            fputs("*", help->output);
            print_variants(help, key);
            fputs(":* ", help->output);
        }
        print_escaped(help, key->help);
        fputs(" |\n", help->output);
        return;
    }
    fprintf(help->output, "%s\n    %s\n    %s", path, key->help, description);
    if (key->unit && !strstr(description, key->unit))
        fprintf(help->output, " (%s)", key->unit);
    fputs("; default: ", help->output);
    print_fallback(help, key);
    fputc('\n', help->output);
    if (key->variants) {
        fputs("    only for: ", help->output);
        print_variants(help, key);
        fputc('\n', help->output);
    }
}

/* Whether `path` is the key that is wanted, or lies in the section that is. */
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
        fprintf(help->output, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                *prefix ? prefix : "The job");
    for (size_t i = 0; i < section->count; i++) {
        char path[PATH_MAX_LENGTH];

        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", section->keys[i].name);
        if (!is_wanted(help, path))
            continue;
        print_key(help, &section->keys[i], path);
        help->printed++;
    }
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];
        char path[PATH_MAX_LENGTH];
        bool printed = false;

        for (size_t j = 0; j < i; j++)
            printed = printed || (key->section && section->keys[j].section == key->section);
        if (!key->section || printed)
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
              "One JSON object. Made from the table in `proto/job_spec_schema*.c` by "
              "`build/tests/helpers/job_spec_markdown`; change it there.\n\n"
              "A key that is unknown, or does not apply to the model, optimizer, format or layer "
              "at hand, is an error. `null` asks for the default. Relative paths of files start "
              "at `directory`. `data.test` has the keys of `data.train`.\n",
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
