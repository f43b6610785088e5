/* worker_estimate.h: what a job will need and take, before it runs. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/worker_calibration.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_setup.h"

/* What a person should know although it is no error. */
void worker_warnings_find(const struct worker_setup *setup, struct worker_warnings *warnings);

/* {"oneDNN": "2.6.3", …} of the libraries that the device's backend found. */
struct json_object *worker_versions_json(const struct backend_device_info *info);

/* What the run will hold of the memory of a device that has its own: its arena, CUDA's context and
 * the libraries that this process has loaded by now, and the code that steps load. Of another
 * device: its arena. */
size_t worker_estimate_device_bytes(const struct worker_setup *setup, struct training *training);
/* What the process will hold once the training runs, told from one that is rehearsed. */
size_t worker_estimate_process_bytes(const struct worker_setup *setup, struct training *training);

/* The plan as an object: what was chosen, bytes by class, work, steps, warnings and, with the
 * `calibration` of this device, if it is known, the time. */
int worker_estimate_json(const struct worker_setup *setup, const struct worker_choice *choice,
                         struct training *training, const struct worker_calibration *calibration,
                         struct json_object **json, struct error *error);
