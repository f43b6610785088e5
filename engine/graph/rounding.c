/* rounding.c: tensor_type_round(): numbers as tensors of 16 bits can hold them. This is a file of
 * its own because clang-tidy cannot read _Float16. */
#include "engine/graph/graph.h"

#include <math.h>
#include <string.h>

static float round_to_bfloat16(float value)
{
    uint32_t bits;

    if (isnan(value))
        return value;
    memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

void tensor_type_round(enum tensor_type type, float *values, int64_t count)
{
    for (int64_t i = 0; type == TENSOR_BFLOAT16 && i < count; i++)
        values[i] = round_to_bfloat16(values[i]);
    for (int64_t i = 0; type == TENSOR_FLOAT16 && i < count; i++)
        values[i] = (float)(_Float16)values[i];
}
