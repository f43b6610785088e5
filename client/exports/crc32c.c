/* crc32c.c: see crc32c.h. Four bytes at a time by four tables: Kounavis and Berry, "A systematic
 * approach to building high performance software-based CRC generators", 2005. */
#include "client/exports/crc32c.h"

#include <stdbool.h>

enum { SLICES = 4 };

static const uint32_t polynomial_reflected = 0x82F63B78;

/* tables[n][b]: what a byte b contributes that n bytes follow. */
static uint32_t tables[SLICES][256];

static void tables_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;

        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ polynomial_reflected : sum >> 1;
        tables[0][byte] = sum;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int byte = 0; byte < 256; byte++)
            tables[slice][byte] =
                tables[slice - 1][byte] >> 8 ^ tables[0][tables[slice - 1][byte] & 0xFF];
}

uint32_t crc32c(const void *bytes, size_t size)
{
    static bool filled;
    const unsigned char *at = bytes;
    uint32_t sum = UINT32_MAX;

    if (!filled) {
        tables_fill();
        filled = true;
    }
    for (; size >= SLICES; size -= SLICES, at += SLICES) {
        sum ^=
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        sum = tables[3][sum & 0xFF] ^ tables[2][sum >> 8 & 0xFF] ^ tables[1][sum >> 16 & 0xFF] ^
              tables[0][sum >> 24];
    }
    for (; size > 0; size--)
        sum = sum >> 8 ^ tables[0][(sum ^ *at++) & 0xFF];
    return ~sum;
}
