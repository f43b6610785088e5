/* numbers.glsl: numbers of 16 bits. GET and PUT read and write element i of an operand that TYPED
 * names, behind the push constants, with its place among the addresses there. Each shader is
 * compiled twice: as it is, where all numbers are float32, and with HALVES, where bit `place` of
 * TYPES says that the operand's numbers have 16 bits, which needs a device that stores such. Some
 * are compiled with MATRICES, too: PIECE is a number of 16 bits there, as a product takes it. */

/* As 16 bits, to the nearest, of two equally near to the even one; drivers round as they like. */
uint bfloat16_bits(float x)
{
    const uint bits = floatBitsToUint(x);

    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u
                                              : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

uint float16_bits(float x)
{
    const uint bits = floatBitsToUint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;

    if (size >= 0x477ff000u) /* half a step above the largest number */
        return sign | (size > 0x7f800000u ? 0x7e00u : 0x7c00u);
    if (size < 0x38800000u) /* below the normal numbers: a step of 0.5 is one of these */
        return sign | (floatBitsToUint(uintBitsToFloat(size) + 0.5) - 0x3f000000u);
    return sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
}

float from_16_bits(uint bits, bool bfloat16)
{
    return bfloat16 ? uintBitsToFloat(bits << 16) : unpackHalf2x16(bits).x;
}

uint to_16_bits(float x, bool bfloat16)
{
    return bfloat16 ? bfloat16_bits(x) : float16_bits(x);
}

#ifdef HALVES
layout(constant_id = CONSTANT_TYPES) const uint TYPES = 0;

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves
{
    uint16_t at[];
};

float get_number(Floats from, uint place, uint i)
{
    if ((TYPES >> place & 1) == 0)
        return from.at[i];
    return from_16_bits(uint(Halves(from).at[i]), (TYPES & TYPES_BFLOAT16) != 0);
}

void put_number(Floats to, uint place, uint i, float x)
{
    if ((TYPES >> place & 1) == 0)
        to.at[i] = x;
    else
        Halves(to).at[i] = uint16_t(to_16_bits(x, (TYPES & TYPES_BFLOAT16) != 0));
}

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Pairs
{
    uint at[]; /* two numbers of 16 bits each */
};

/* Elements 2 i and 2 i + 1 of an operand that begins at a multiple of 4 bytes. */
vec2 get_pair(Floats from, uint place, uint i)
{
    const bool bfloat16 = (TYPES & TYPES_BFLOAT16) != 0;
    uint pair;

    if ((TYPES >> place & 1) == 0)
        return vec2(from.at[2 * i], from.at[2 * i + 1]);
    pair = Pairs(from).at[i];
    return vec2(from_16_bits(pair & 0xffffu, bfloat16), from_16_bits(pair >> 16, bfloat16));
}

void put_pair(Floats to, uint place, uint i, vec2 x)
{
    const bool bfloat16 = (TYPES & TYPES_BFLOAT16) != 0;

    if ((TYPES >> place & 1) == 0) {
        to.at[2 * i] = x.x;
        to.at[2 * i + 1] = x.y;
    } else {
        Pairs(to).at[i] = to_16_bits(x.x, bfloat16) | to_16_bits(x.y, bfloat16) << 16;
    }
}

#define TYPED(operand, place) const uint place_of_##operand = place;
#define GET(operand, i) get_number(operand, place_of_##operand, i)
#define PUT(operand, i, x) put_number(operand, place_of_##operand, i, x)
#define GET_PAIR(operand, i) get_pair(operand, place_of_##operand, i)
#define PUT_PAIR(operand, i, x) put_pair(operand, place_of_##operand, i, x)
#else
#define TYPED(operand, place)
#define GET(operand, i) (operand).at[i]
#define PUT(operand, i, x) (operand).at[i] = (x)
#endif

#ifdef MATRICES
/* What has 32 bits is rounded; parameters of such a graph are rounded already. */
uint16_t get_piece(Floats from, uint place, uint i)
{
    return (TYPES >> place & 1) != 0
               ? Halves(from).at[i]
               : uint16_t(to_16_bits(from.at[i], (TYPES & TYPES_BFLOAT16) != 0));
}

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Eights
{
    uvec4 at[]; /* eight numbers of 16 bits each */
};
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Fours
{
    vec4 at[];
};

uvec2 round_four(vec4 x)
{
    const bool bfloat16 = (TYPES & TYPES_BFLOAT16) != 0;

    return uvec2(to_16_bits(x.x, bfloat16) | to_16_bits(x.y, bfloat16) << 16,
                 to_16_bits(x.z, bfloat16) | to_16_bits(x.w, bfloat16) << 16);
}

/* Eight numbers side by side from element i on, which is a multiple of eight. */
uvec4 get_eight(Floats from, uint place, uint i)
{
    return (TYPES >> place & 1) != 0
               ? Eights(from).at[i / 8]
               : uvec4(round_four(Fours(from).at[i / 4]), round_four(Fours(from).at[i / 4 + 1]));
}

#define PIECE_NUMBER uint16_t
#define PIECE(operand, i) get_piece(operand, place_of_##operand, i)
#define EIGHT(operand, i) get_eight(operand, place_of_##operand, i)
#else
#define PIECE_NUMBER float
#define PIECE(operand, i) GET(operand, i)
#endif
