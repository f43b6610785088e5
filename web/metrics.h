/* metrics.h: what Prometheus asks for: the figures of the daemon and its devices in the text format
 * 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/). */
#pragma once

#include "proto/json.h"
#include "web/options.h"

#define WEB_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Asks the daemon. The text is malloc'd; it says `traind_up 0` where no daemon answers. NULL: no
 * memory. */
char *web_metrics_text(const struct web_options *options);

/* The text of these replies of Ping, Statistics and Devices; NULL of all: no daemon answers. */
char *web_metrics_format(struct json_object *ping, struct json_object *statistics,
                         struct json_object *devices);
