/* worker_profile.h: makes a run's profile as an object (docs/profile.md), for the spool and for a
 * person. */
#pragma once

#include "engine/train/calibration.h"
#include "proto/json.h"
#include "worker/trainee/worker_setup.h"

/* `calibration` NULL: the profile has no ceilings. Includes the events of as many recorded batches
 * as fit if the text may have at most `most_bytes`. NULL with a sentence: not enough memory. */
struct json_object *worker_profile_json(const struct worker_setup *setup,
                                        const struct profile *profile,
                                        const struct calibration *calibration, size_t most_bytes,
                                        struct error *error);
