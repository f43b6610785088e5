/* half.h: numbers of IEEE 754's binary16: 1 sign bit, 5 of the exponent, 10 of the fraction. */
#pragma once

#include <stdint.h>
#include <string.h>

/* Every binary16 is a float, too: the conversion is exact. */
static inline float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31,
             fraction = half & 1023;
    uint32_t bits;
    float value;

    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}
