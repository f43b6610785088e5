/* crc32c.h: the checksum CRC-32C (Castagnoli). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The checksum of `size` bytes: polynomial 0x1EDC6F41, reflected, as in RFC 3720, section 12.1. */
uint32_t crc32c(const void *bytes, size_t size);
