/* worker_estimate.h: estimates a job's memory and time before it runs. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/worker_calibration.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_setup.h"

/* Finds warnings: facts that a person should know although they are no errors. */
void worker_warnings_find(const struct worker_setup *setup, struct worker_warnings *warnings);

/* Makes {"oneDNN": "2.6.3", …}: the libraries that the device's backend found. */
struct json_object *worker_versions_json(const struct backend_device_info *info);

/* Device memory that the run will hold. On a device with its own memory: the arena, CUDA's context,
 * the libraries that this process has loaded so far, and the code that steps load. On another
 * device: the arena. */
size_t worker_estimate_device_bytes(const struct worker_setup *setup, struct training *training);
/* Memory that the process will hold once the training runs, estimated from a rehearsal. */
size_t worker_estimate_process_bytes(const struct worker_setup *setup, struct training *training);

/* Makes the plan as an object: choices, bytes by class, work, steps and warnings; also the time, if
 * the `calibration` of this device is known. */
int worker_estimate_json(const struct worker_setup *setup, const struct worker_choice *choice,
                         struct training *training, const struct worker_calibration *calibration,
                         struct json_object **json, struct error *error);
