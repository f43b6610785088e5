/* worker_export_c.c: see worker_export_c.h. */
#include "worker/trainee/worker_export_c.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "worker/trainee/c_source.h"

#include <stdio.h>
#include <stdlib.h>

int worker_export_c(const struct worker_options *options, uint64_t *bytes, struct error *error)
{
    AUTO_FREE char *content = NULL;
    struct export_graph model;
    size_t size = 0;
    FILE *text = open_memstream(&content, &size);
    int r = text ? export_graph_open(options, &model, error) : error_no_memory(error, "the C file");

    if (!text)
        return r;
    if (r == 0)
        r = c_source_write(&model, text, error);
    export_graph_release(&model);
    if (fclose(text) != 0 && r == 0)
        r = error_no_memory(error, "the C file");
    *bytes = size;
    return r < 0 ? r : file_write_result(options->c_file, content, size, error);
}
