/* dump.c: see dump.h. */
#include "tests/support/dump.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_exactly(FILE *file, void *output, size_t bytes)
{
    return fread(output, 1, bytes, file) == bytes ? 0 : -EIO;
}

static int tensor_read(FILE *file, struct dump_tensor *tensor)
{
    static const size_t type_bytes[] = {4, 4, 8};
    uint32_t length, type, rank;
    size_t bytes;

    if (read_exactly(file, &length, sizeof length) || length >= sizeof tensor->name ||
        read_exactly(file, tensor->name, length) || read_exactly(file, &type, sizeof type) ||
        type > DUMP_FLOAT64 || read_exactly(file, &rank, sizeof rank) || rank > GRAPH_RANK_MAX ||
        read_exactly(file, tensor->shape.extent, rank * sizeof tensor->shape.extent[0]))
        return -EIO;
    tensor->type = (enum dump_type)type;
    tensor->shape.rank = (int)rank;
    tensor->elements = graph_shape_elements(&tensor->shape);
    bytes = (size_t)tensor->elements * type_bytes[type];
    tensor->values = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    return tensor->values ? read_exactly(file, tensor->values, bytes) : -ENOMEM;
}

int dump_read(const char *path, struct dump *dump, struct error *error)
{
    AUTO_FCLOSE FILE *file = fopen(path, "rb");
    char magic[4];
    uint32_t count;

    *dump = (struct dump){0};
    if (!file)
        return error_set_errno(error, -errno, "cannot open %s", path);
    if (read_exactly(file, magic, sizeof magic) || memcmp(magic, "TDMP", 4) ||
        read_exactly(file, &count, sizeof count) || count > 10000)
        return error_set(error, -EINVAL, "%s is not a dump", path);
    dump->tensors = calloc(count, sizeof *dump->tensors);
    if (!dump->tensors)
        return error_no_memory(error, "%s", path);
    for (; dump->count < (int)count; dump->count++)
        if (tensor_read(file, &dump->tensors[dump->count])) {
            dump->count++;
            dump_release(dump);
            return error_set(error, -EINVAL, "%s is cut short or damaged", path);
        }
    return 0;
}

void dump_release(struct dump *dump)
{
    for (int i = 0; i < dump->count; i++)
        free(dump->tensors[i].values);
    free(dump->tensors);
    *dump = (struct dump){0};
}

const struct dump_tensor *dump_find(const struct dump *dump, const char *format, ...)
{
    char name[sizeof dump->tensors->name];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    for (int i = 0; i < dump->count; i++)
        if (strcmp(dump->tensors[i].name, name) == 0)
            return &dump->tensors[i];
    return NULL;
}

double dump_attribute(const struct dump *dump, const char *name)
{
    const struct dump_tensor *tensor = dump_find(dump, "attribute/%s", name);

    if (!tensor || tensor->type != DUMP_FLOAT64) {
        fprintf(stderr, "the dump has no attribute '%s'\n", name);
        exit(1);
    }
    return *(const double *)tensor->values;
}

int dump_for_each(const char *kind, void (*visit)(const char *file, const struct dump *dump))
{
    char path[512];
    DIR *folder;
    const struct dirent *entry;
    int count = 0;

    snprintf(path, sizeof path, "tests/reference/data/dumps/%s", kind);
    folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        struct error error = {0};
        struct dump dump;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "tests/reference/data/dumps/%s/%s", kind, entry->d_name);
        if (dump_read(path, &dump, &error)) {
            fprintf(stderr, "%s\n", error.text);
            exit(1);
        }
        visit(entry->d_name, &dump);
        dump_release(&dump);
        count++;
    }
    if (folder)
        closedir(folder);
    return count;
}
