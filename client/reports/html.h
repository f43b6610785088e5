/* html.h: writes a document as one page of HTML: its figures are in it, it loads nothing and runs
 * nothing. */
#pragma once

#include "proto/json.h"

#include <stdio.h>

void html_write(struct json_object *document, FILE *output);
