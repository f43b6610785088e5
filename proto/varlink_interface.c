/* varlink_interface.c: parses .varlink files (https://varlink.org/Interface-Definition) by
 * recursive descent over the text. */
#include "proto/varlink_interface.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_DEPTH_MAX = 32 };

struct parser {
    struct varlink_interface *interface;
    const char *at;
    size_t line;
    int depth;
    struct error *error;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int out_of_memory(struct error *error)
{
    return error_no_memory(error, "an interface");
}

static int parse_fail(struct parser *parser, const char *expected)
{
    char found[24], shown[64];
    size_t length = strcspn(parser->at, " \t\r\n");

    if (length >= sizeof found)
        length = sizeof found - 1;
    memcpy(found, parser->at, length);
    found[length] = '\0';
    text_escape_controls(found, shown, sizeof shown);
    if (!*parser->at)
        return error_set(parser->error, -EINVAL, "line %zu: the text ends where %s is expected",
                         parser->line, expected);
    return error_set(parser->error, -EINVAL, "line %zu: \"%s\" where %s is expected", parser->line,
                     shown, expected);
}

static void skip_space(struct parser *parser)
{
    for (;; parser->at++) {
        if (*parser->at == '#')
            parser->at += strcspn(parser->at, "\n");
        if (*parser->at == '\n')
            parser->line++;
        else if (!*parser->at || !strchr(" \t\r", *parser->at))
            return;
    }
}

/* Consumes `mark` if it comes next. */
static bool accept(struct parser *parser, const char *mark)
{
    size_t length = strlen(mark);

    skip_space(parser);
    if (strncmp(parser->at, mark, length) != 0)
        return false;
    parser->at += length;
    return true;
}

static int expect(struct parser *parser, const char *mark, const char *description)
{
    return accept(parser, mark) ? 0 : parse_fail(parser, description);
}

/* Consumes `word` if it comes next as a whole word. */
static bool accept_word(struct parser *parser, const char *word)
{
    size_t length = strlen(word);

    skip_space(parser);
    if (strncmp(parser->at, word, length) != 0 || is_letter(parser->at[length]) ||
        is_digit(parser->at[length]) || parser->at[length] == '_')
        return false;
    parser->at += length;
    return true;
}

static int take(struct parser *parser, size_t length, char **name)
{
    *name = strndup(parser->at, length);
    if (!*name)
        return out_of_memory(parser->error);
    parser->at += length;
    return 0;
}

/* [A-Za-z](_?[A-Za-z0-9])* */
static int parse_field_name(struct parser *parser, char **name)
{
    size_t length = 0;

    skip_space(parser);
    if (!is_letter(*parser->at))
        return parse_fail(parser, "a name");
    for (const char *c = parser->at;
         is_letter(c[length]) || is_digit(c[length]) ||
         (c[length] == '_' && (is_letter(c[length + 1]) || is_digit(c[length + 1])));)
        length++;
    return take(parser, length, name);
}

/* [A-Z][A-Za-z0-9]* */
static int parse_member_name(struct parser *parser, char **name)
{
    size_t length = 0;

    skip_space(parser);
    if (*parser->at < 'A' || *parser->at > 'Z')
        return parse_fail(parser, "a name that begins with a capital");
    while (is_letter(parser->at[length]) || is_digit(parser->at[length]))
        length++;
    return take(parser, length, name);
}

/* [A-Za-z](-*[A-Za-z0-9])*(\.[A-Za-z0-9](-*[A-Za-z0-9])*)+ */
static int parse_interface_name(struct parser *parser, char **name)
{
    size_t length = 0, dots = 0;

    skip_space(parser);
    if (!is_letter(*parser->at))
        return parse_fail(parser, "an interface name such as org.example.name");
    for (const char *c = parser->at;; length++) {
        if (c[length] == '.' && c[length - 1] != '-' && c[length - 1] != '.')
            dots++;
        else if (!is_letter(c[length]) && !is_digit(c[length]) &&
                 !(c[length] == '-' && c[length - 1] != '.'))
            break;
    }
    if (dots == 0 || parser->at[length - 1] == '.' || parser->at[length - 1] == '-')
        return parse_fail(parser, "an interface name such as org.example.name");
    return take(parser, length, name);
}

static struct varlink_type *type_new(struct parser *parser, enum varlink_kind kind)
{
    struct varlink_type *type = calloc(1, sizeof *type);

    if (!type)
        return NULL;
    type->kind = kind;
    type->line = parser->line;
    type->allocated_before = parser->interface->allocated;
    parser->interface->allocated = type;
    return type;
}

static int parse_type(struct parser *parser, struct varlink_type **type);

/* Makes space for one more name and type. The type owns the name, also if parsing fails. */
static int type_add_entry(struct parser *parser, struct varlink_type *type)
{
    size_t room = type->count + 1;
    char **names = realloc(type->names, room * sizeof *names);
    struct varlink_type **types;

    if (!names)
        return out_of_memory(parser->error);
    type->names = names;
    types = realloc(type->types, room * sizeof(struct varlink_type *));
    if (!types)
        return out_of_memory(parser->error);
    type->types = types;
    names[type->count] = NULL;
    types[type->count] = NULL;
    type->count++;
    return 0;
}

/* Parses "name: type" of a struct or "name" of an enum. The first entry decides which of them it
 * is. */
static int parse_entry(struct parser *parser, struct varlink_type *type)
{
    size_t index = type->count;
    int r = type_add_entry(parser, type);

    if (r < 0)
        return r;
    r = parse_field_name(parser, &type->names[index]);
    if (r < 0)
        return r;
    for (size_t i = 0; i < index; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): parse_field_name() has set it */
        if (strcmp(type->names[i], type->names[index]) == 0)
            return error_set(parser->error, -EINVAL, "line %zu: %s is there twice", parser->line,
                             type->names[index]);
    skip_space(parser);
    if (index == 0)
        type->kind = *parser->at == ':' ? VARLINK_STRUCT : VARLINK_ENUM;
    if (type->kind == VARLINK_ENUM)
        return 0;
    r = expect(parser, ":", "\":\"");
    return r < 0 ? r : parse_type(parser, &type->types[index]);
}

/* "(" entries ")" */
static int parse_entries(struct parser *parser, struct varlink_type **type)
{
    int r = expect(parser, "(", "\"(\"");

    if (r < 0)
        return r;
    *type = type_new(parser, VARLINK_STRUCT);
    if (!*type)
        return out_of_memory(parser->error);
    if (accept(parser, ")"))
        return 0;
    do {
        r = parse_entry(parser, *type);
        if (r < 0)
            return r;
    } while (accept(parser, ","));
    return expect(parser, ")", "\",\" or \")\"");
}

static int parse_struct(struct parser *parser, struct varlink_type **type)
{
    size_t line;
    int r;

    skip_space(parser);
    line = parser->line;
    r = parse_entries(parser, type);
    if (r == 0 && (*type)->kind != VARLINK_STRUCT)
        return error_set(parser->error, -EINVAL,
                         "line %zu: parameters need a type each, such as (name: string)", line);
    return r;
}

static int parse_container(struct parser *parser, enum varlink_kind kind,
                           struct varlink_type **type)
{
    int r;

    *type = type_new(parser, kind);
    if (!*type)
        return out_of_memory(parser->error);
    if (++parser->depth > TYPE_DEPTH_MAX)
        return error_set(parser->error, -EINVAL, "line %zu: a type of more than %d levels",
                         parser->line, TYPE_DEPTH_MAX);
    skip_space(parser);
    if (*parser->at == '?') /* not every client's parser accepts a nullable element */
        return parse_fail(parser, "the type of an element, which cannot be nullable");
    r = parse_type(parser, &(*type)->element);
    parser->depth--;
    return r;
}

static int parse_named(struct parser *parser, struct varlink_type **type)
{
    static const struct {
        const char *word;
        enum varlink_kind kind;
    } words[] = {{"bool", VARLINK_BOOL},
                 {"int", VARLINK_INT},
                 {"float", VARLINK_FLOAT},
                 {"string", VARLINK_STRING},
                 {"object", VARLINK_OBJECT}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (accept_word(parser, words[i].word)) {
            *type = type_new(parser, words[i].kind);
            return *type ? 0 : out_of_memory(parser->error);
        }
    }
    if (*parser->at < 'A' || *parser->at > 'Z')
        return parse_fail(parser, "a type");
    *type = type_new(parser, VARLINK_NAMED);
    if (!*type)
        return out_of_memory(parser->error);
    return parse_member_name(parser, &(*type)->name);
}

static int parse_type(struct parser *parser, struct varlink_type **type)
{
    bool nullable = accept(parser, "?");
    int r;

    skip_space(parser);
    if (*parser->at == '(') {
        if (++parser->depth > TYPE_DEPTH_MAX)
            return error_set(parser->error, -EINVAL, "line %zu: a type of more than %d levels",
                             parser->line, TYPE_DEPTH_MAX);
        r = parse_entries(parser, type);
        parser->depth--;
    } else if (accept(parser, "[]")) {
        r = parse_container(parser, VARLINK_ARRAY, type);
    } else if (accept(parser, "[string]")) {
        r = parse_container(parser, VARLINK_MAP, type);
    } else {
        r = parse_named(parser, type);
    }
    if (r == 0)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): parse_container() has set it */
        (*type)->nullable = nullable;
    return r;
}

static int parse_member(struct parser *parser, struct varlink_member *member)
{
    int r;

    if (accept_word(parser, "type"))
        member->kind = VARLINK_MEMBER_TYPE;
    else if (accept_word(parser, "method"))
        member->kind = VARLINK_MEMBER_METHOD;
    else if (accept_word(parser, "error"))
        member->kind = VARLINK_MEMBER_ERROR;
    else
        return parse_fail(parser, "type, method or error");
    r = parse_member_name(parser, &member->name);
    if (r < 0)
        return r;
    if (member->kind == VARLINK_MEMBER_TYPE)
        return parse_entries(parser, &member->input);
    r = parse_struct(parser, &member->input);
    if (r < 0 || member->kind == VARLINK_MEMBER_ERROR)
        return r;
    r = expect(parser, "->", "\"->\"");
    return r < 0 ? r : parse_struct(parser, &member->output);
}

static int parse_members(struct parser *parser)
{
    struct varlink_interface *interface = parser->interface;

    for (skip_space(parser); *parser->at; skip_space(parser)) {
        size_t index = interface->member_count;
        struct varlink_member *members =
            realloc(interface->members, (index + 1) * sizeof *interface->members);
        int r;

        if (!members)
            return out_of_memory(parser->error);
        interface->members = members;
        members[index] = (struct varlink_member){0};
        interface->member_count++;
        r = parse_member(parser, &members[index]);
        if (r < 0)
            return r;
        for (size_t i = 0; i < index; i++)
            if (strcmp(members[i].name, members[index].name) == 0)
                return error_set(parser->error, -EINVAL, "line %zu: %s is defined twice",
                                 parser->line, members[index].name);
    }
    return 0;
}

static int resolve_names(struct varlink_interface *interface, struct error *error)
{
    for (struct varlink_type *type = interface->allocated; type; type = type->allocated_before) {
        const struct varlink_member *member;

        if (type->kind != VARLINK_NAMED)
            continue;
        member = varlink_member_find(interface, VARLINK_MEMBER_TYPE, type->name);
        if (!member)
            return error_set(error, -EINVAL, "line %zu: there is no type %s", type->line,
                             type->name);
        type->resolved = member->input;
    }
    return 0;
}

int varlink_interface_parse(const char *text, struct varlink_interface **interface,
                            struct error *error)
{
    struct parser parser = {.at = text, .line = 1, .error = error};
    int r = 0;

    *interface = NULL;
    parser.interface = calloc(1, sizeof *parser.interface);
    if (!parser.interface)
        return out_of_memory(error);
    parser.interface->text = strdup(text);
    if (!parser.interface->text)
        r = out_of_memory(error);
    else if (!text_is_utf8(text, strlen(text)))
        r = error_set(error, -EINVAL, "an interface file has to be UTF-8");
    else if (!accept_word(&parser, "interface"))
        r = parse_fail(&parser, "the word interface");
    if (r == 0)
        r = parse_interface_name(&parser, &parser.interface->name);
    if (r == 0)
        r = parse_members(&parser);
    if (r == 0)
        r = resolve_names(parser.interface, error);
    if (r < 0) {
        varlink_interface_free(parser.interface);
        return r;
    }
    *interface = parser.interface;
    return 0;
}

void varlink_interface_free(struct varlink_interface *interface)
{
    if (!interface)
        return;
    for (size_t i = 0; i < interface->member_count; i++)
        free(interface->members[i].name);
    while (interface->allocated) {
        struct varlink_type *type = interface->allocated;

        interface->allocated = type->allocated_before;
        for (size_t i = 0; i < type->count; i++)
            free(type->names[i]);
        free(type->names);
        free(type->types);
        free(type->name);
        free(type);
    }
    free(interface->members);
    free(interface->name);
    free(interface->text);
    free(interface);
}

const char *varlink_interface_name(const struct varlink_interface *interface)
{
    return interface->name;
}

const char *varlink_interface_text(const struct varlink_interface *interface)
{
    return interface->text;
}

const struct varlink_member *varlink_member_find(const struct varlink_interface *interface,
                                                 enum varlink_member_kind kind, const char *name)
{
    for (size_t i = 0; i < interface->member_count; i++)
        if (interface->members[i].kind == kind && strcmp(interface->members[i].name, name) == 0)
            return &interface->members[i];
    return NULL;
}

bool varlink_interface_has_method(const struct varlink_interface *interface, const char *method)
{
    return varlink_member_find(interface, VARLINK_MEMBER_METHOD, method) != NULL;
}
