/* instructions.h: which of the processor's instructions this process may use. */
#pragma once

#include "engine/backends/cpu/kernels/kernels.h"

/* Asks the system to let this process use the tile registers (AMX); false: it may not, or there are
 * none. */
bool cpu_request_amx(void);
/* The fastest way in which these kernels can multiply integers of 8 bits. */
enum int8_instructions cpu_int8_instructions(const struct kernels *kernels);
