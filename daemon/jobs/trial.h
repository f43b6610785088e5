/* trial.h: choosing by measurement: a job tries a type of device out. */
#pragma once

#include <stdbool.h>

struct attempt;

/* `steps` steps of the attempt's training took `seconds` each on average. */
void trial_observe_steps(struct attempt *attempt, double seconds, double steps);
/* The attempt, which tried a type of device out, has been measured there: it may be moved. */
bool trial_is_over(const struct attempt *attempt);
