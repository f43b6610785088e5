/* job_spec_text.h: what the tests of job specifications share: pieces of them as JSON text. */
#pragma once

#include "proto/json.h"

#define IDX "\"data\":{\"train\":{\"format\":\"idx\",\"images\":\"i\",\"labels\":\"l\"}}"
#define CSV "\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"a.csv\"}}"
#define MLP "\"model\":{\"name\":\"mlp\"}"

/* Ends the test where it is not JSON. The caller owns the object. */
struct json_object *job_spec_text_parse(const char *text);
