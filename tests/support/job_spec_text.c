/* job_spec_text.c: see job_spec_text.h. */
#include "tests/support/job_spec_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct json_object *job_spec_text_parse(const char *text)
{
    struct json_object *object;
    struct error error = {0};

    if (json_parse(text, strlen(text), &object, &error) < 0)
        fail_msg("%s: %s", text, error.text);
    return object;
}
