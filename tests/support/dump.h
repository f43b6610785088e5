/* dump.h: reads a reference dump (tests/reference/README.md). */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"

#include <stdint.h>

enum dump_type { DUMP_FLOAT32, DUMP_INT32, DUMP_FLOAT64 };

struct dump_tensor {
    char name[96];
    enum dump_type type;
    struct graph_shape shape;
    int64_t elements;
    void *values; /* 64-byte aligned; owned by the dump */
};

struct dump {
    struct dump_tensor *tensors;
    int count;
};

/* -EIO or -EINVAL with a sentence. Release with dump_release(). */
int dump_read(const char *path, struct dump *dump, struct error *error);
void dump_release(struct dump *dump);

/* The tensor of that name (printed from a format), or NULL. */
const struct dump_tensor *dump_find(const struct dump *dump, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The number "attribute/<name>"; ends the test program with a message when there is none. */
double dump_attribute(const struct dump *dump, const char *name);

/* Reads every file of tests/reference/data/dumps/<kind>/ and hands it on with its name; returns
 * their number. Ends the test program with a message when one cannot be read. */
int dump_for_each(const char *kind, void (*visit)(const char *file, const struct dump *dump));
