/* data_files.c: small files in the test's temporary folder. */
#include "tests/support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *data_file_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    const char *folder = getenv("TMPDIR");

    snprintf(path, sizeof paths[0], "%s/%s", folder ? folder : "/tmp", name);
    return path;
}

const char *data_file_write(const char *name, const void *content, size_t size)
{
    const char *path = data_file_path(name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *data_file_write_text(const char *name, const char *text)
{
    return data_file_write(name, text, strlen(text));
}

struct dataset *data_open(const struct dataset_config *config, const struct dataset *reference)
{
    struct dataset *dataset = NULL;
    struct error error = {0};

    if (dataset_open(config, reference, &dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

void data_expect_refusal(const struct dataset_config *config, const struct dataset *reference,
                         int code, ...)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    const char *piece;
    va_list pieces;

    if (dataset_open(config, reference, &dataset, &error) == 0) {
        dataset_close(dataset);
        fail_msg("the data set was accepted");
    }
    assert_null(dataset);
    assert_int_equal(error.code, code);
    va_start(pieces, code);
    while ((piece = va_arg(pieces, const char *)))
        if (!strstr(error.text, piece))
            fail_msg("\"%s\" is not in \"%s\"", piece, error.text);
    va_end(pieces);
}
