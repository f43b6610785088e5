/* daemon.h: calls to traind on behalf of a page. The web's own user makes them, so a page may do
 * what that user may, and traind says what that is. */
#pragma once

#include "proto/varlink.h"
#include "web/options.h"

/* A call as a page sends it: {"method": "Show", "parameters": {"id": 1}}. `more`: to follow what it
 * tells, which only some methods have. -EPERM: pages may not call it. The sentence is for the page.
 * `method` (borrowed from `call`) and `parameters` (a new reference, or NULL) are set. */
int web_call_check(const struct web_options *options, struct json_object *call, bool more,
                   const char **method, struct json_object **parameters, struct error *error);

/* Connects to traind and sends the call; the caller receives from `*client` and frees it. Takes
 * over `parameters`. */
int web_call_send(const struct web_options *options, const char *method,
                  struct json_object *parameters, bool more, struct varlink_client **client,
                  struct error *error);

/* The text of a reply that traind did not make: an error with the sentence. The caller frees it. */
char *web_failure_text(const struct error *error);
