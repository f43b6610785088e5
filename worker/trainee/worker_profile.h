/* worker_profile.h: a run's profile as an object (docs/profile.md says what it holds), for the
 * spool and for a person. */
#pragma once

#include "engine/train/calibration.h"
#include "proto/json.h"
#include "worker/trainee/worker_setup.h"

/* `calibration` may be NULL: no ceilings are told. The
 * events of as many of the recorded batches are included as let its text have at most `most_bytes`.
 * NULL with a sentence when memory is short. */
struct json_object *worker_profile_json(const struct worker_setup *setup,
                                        const struct profile *profile,
                                        const struct calibration *calibration, size_t most_bytes,
                                        struct error *error);
