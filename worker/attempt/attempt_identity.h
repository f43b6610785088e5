/* attempt_identity.h: as whom the shim and the trainee act. */
#pragma once

#include "worker/attempt/attempt_config.h"

/* Gives the attempt's folder (the current directory) to the job's user, takes that user's groups,
 * and from now on opens and makes files as that user. Without privileges it only checks that the
 * job's user is the own one. */
int attempt_identity_assume(const struct attempt_config *config, struct error *error);
/* After it: opens and makes files as the daemon's user, and as the job's user again. */
int attempt_identity_files_own(struct error *error);
int attempt_identity_files_user(const struct attempt_config *config, struct error *error);
/* In the trainee, after it: becomes the job's user and verifies that there is no way back. */
int attempt_identity_drop(const struct attempt_config *config, struct error *error);

/* In the trainee, before attempt_identity_drop(): for want of memory the kernel kills it before the
 * shim and the daemon. Without the right to it, it stays as it is. */
void attempt_identity_adjust_oom_score(const struct attempt_config *config);
