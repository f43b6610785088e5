/* worker_export_onnx.h: `traind-worker export --onnx`. */
#pragma once

#include "worker/trainee/worker_options.h"

/* Writes the model of options->input into options->onnx. */
int worker_export_onnx(const struct worker_options *options, uint64_t *bytes, struct error *error);
