/* varlink_interface.h: the parse tree of a .varlink file. Only its parser and the checker include
 * it; other code uses varlink.h. */
#pragma once

#include "proto/varlink.h"

enum varlink_kind {
    VARLINK_BOOL,
    VARLINK_INT,
    VARLINK_FLOAT,
    VARLINK_STRING,
    VARLINK_OBJECT, /* any JSON object */
    VARLINK_ENUM,
    VARLINK_STRUCT,
    VARLINK_ARRAY,
    VARLINK_MAP, /* [string]T */
    VARLINK_NAMED
};

struct varlink_type {
    enum varlink_kind kind;
    bool nullable;
    size_t line;
    struct varlink_type *element; /* of an array or map */
    /* names of a struct's fields or an enum's values; types[i] is the type of the field names[i] */
    char **names;
    struct varlink_type **types;
    size_t count;
    char *name;                          /* of a named type */
    const struct varlink_type *resolved; /* the type that the name refers to */
    struct varlink_type *allocated_before;
};

enum varlink_member_kind { VARLINK_MEMBER_TYPE, VARLINK_MEMBER_METHOD, VARLINK_MEMBER_ERROR };

struct varlink_member {
    enum varlink_member_kind kind;
    char *name;
    struct varlink_type *input;  /* of a method; the type itself; an error's parameters */
    struct varlink_type *output; /* of a method */
};

struct varlink_interface {
    char *name, *text;
    struct varlink_member *members;
    size_t member_count;
    struct varlink_type *allocated; /* every type node, newest first */
};

/* The member of that kind and name, or NULL. */
const struct varlink_member *varlink_member_find(const struct varlink_interface *interface,
                                                 enum varlink_member_kind kind, const char *name);
