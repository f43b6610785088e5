/* table.c: the table of one instruction set level (kernels.h). */
#include "engine/backends/cpu/kernels/kernels.h"

#define LEVEL_TEXT_(level) #level
#define LEVEL_TEXT(level) LEVEL_TEXT_(level)

extern const struct kernels KERNEL_NAME(kernels);

const struct kernels KERNEL_NAME(kernels) = {.level = LEVEL_TEXT(KERNEL_LEVEL),
#define KERNEL_ENTRY(type, name, arguments) .name = KERNEL_NAME(name),
                                             KERNEL_LIST(KERNEL_ENTRY)
#undef KERNEL_ENTRY
};
