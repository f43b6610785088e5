/* torch_model.h: models that a specification names as modules of PyTorch. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* Replaces {"torch": "model.py:Net", "input": "1,3,224,224"} of the specification's model by the
 * ONNX file that `python3 -m traind.export` writes of it into the job's directory, as the calling
 * user; `input` may be a list, with the shape of each input. TRAIND_PYTHON names another Python.
 * What that says goes to standard error. Nothing happens to other models. -EINVAL with a
 * sentence. */
int torch_model_export(struct json_object *spec, struct error *error);
