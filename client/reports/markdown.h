/* markdown.h: writes a document as Markdown, with the figures as files beside it. */
#pragma once

#include "proto/json.h"

#include <stdio.h>

/* Writes the document. Figure N is linked as STEM.N.svg; `stem` is a file name without folders. */
void markdown_write(struct json_object *document, const char *stem, FILE *output);
