/* table.c: the table of the kernels of one instruction set level (kernels.h). */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

#define LEVEL_TEXT_(level) #level
#define LEVEL_TEXT(level) LEVEL_TEXT_(level)

extern const struct kernels KERNEL_NAME(kernels);

const struct kernels KERNEL_NAME(kernels) = {
    .level = LEVEL_TEXT(KERNEL_LEVEL),
    .vector = VECTOR,
#define KERNEL_ENTRY(type, name, arguments) .name = KERNEL_NAME(name),
    KERNEL_LIST(KERNEL_ENTRY) WINOGRAD_KERNEL_LIST(KERNEL_ENTRY) TILE_KERNEL_LIST(KERNEL_ENTRY)
        PLANES_KERNEL_LIST(KERNEL_ENTRY) UNFOLD_KERNEL_LIST(KERNEL_ENTRY)
            ATTENTION_KERNEL_LIST(KERNEL_ENTRY) RECURRENT_KERNEL_LIST(KERNEL_ENTRY)
                INT8_KERNEL_LIST(KERNEL_ENTRY) DIGITS_KERNEL_LIST(KERNEL_ENTRY)
#undef KERNEL_ENTRY
};
