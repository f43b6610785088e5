/* methods.h: the calls that pages may make. */
#pragma once

#include <stdbool.h>

enum web_method_kind {
    WEB_METHOD_READS,
    WEB_METHOD_CHANGES, /* not with --read-only */
    WEB_METHOD_FOLLOWS  /* with `more` it runs on: /api/stream; without, it reads */
};

struct web_method {
    const char *name; /* of io.traind */
    enum web_method_kind kind;
};

/* NULL: pages may not make this call. */
const struct web_method *web_method_find(const char *name);
