/* attempt_identity.h: the users that the shim and the trainee act as. */
#pragma once

#include "worker/attempt/attempt_config.h"

/* Gives the attempt's folder (the current directory) to the job's user and takes that user's
 * groups. From then on this process opens and creates files as that user. Without privileges it
 * only checks that the job's user is its own. */
int attempt_identity_assume(const struct attempt_config *config, struct error *error);
/* After attempt_identity_assume(): open and create files as the daemon's user, and as the job's
 * user again. */
int attempt_identity_files_own(struct error *error);
int attempt_identity_files_user(const struct attempt_config *config, struct error *error);
/* In the trainee, after attempt_identity_assume(): becomes the job's user and verifies that it
 * cannot change back. */
int attempt_identity_drop(const struct attempt_config *config, struct error *error);

/* In the trainee, before attempt_identity_drop(): makes the kernel kill it before the shim and the
 * daemon when memory runs out. Without the privilege it does nothing. */
void attempt_identity_adjust_oom_score(const struct attempt_config *config);

/* In the trainee: gives it back the limit of open files that the daemon has raised for itself. A
 * program may raise it again, up to the hard limit. */
void attempt_identity_limit_descriptors(const struct attempt_config *config);
