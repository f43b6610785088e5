/* trial.h: trials, in which a job runs on a type of device to measure how fast it is there. */
#pragma once

#include <stdbool.h>

struct attempt;

/* Takes in that `steps` steps of the attempt's training took `seconds` each on average. */
void trial_observe_steps(struct attempt *attempt, double seconds, double steps);
/* Whether the attempt is a trial that has been measured, so that it may be moved. */
bool trial_is_over(const struct attempt *attempt);
