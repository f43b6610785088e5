/* lease_use.h: whether a lease is used: its processes compute, or its GPUs do. */
#pragma once

#include "client/command_line/invocation.h"

/* Processor seconds that all processes below `root` have used, but for this one. */
double lease_processor_seconds(int root);

/* Whether a device of the job (TRAIND_DEVICE) other than the CPU is in use, or nobody can tell. */
bool lease_device_is_used(struct invocation *invocation);
