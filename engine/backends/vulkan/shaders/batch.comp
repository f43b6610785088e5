#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference_uvec2 : require
/* batch.comp: a batch of raw samples that lie on the device: picks them by the epoch's order,
 * augments and normalises them, with the draws and the arithmetic of engine/data/augmentation.c and
 * gather.c, bit for bit. A workgroup makes a row, or a part of one. */
#include "common.glsl"
#include "philox.glsl"

layout(constant_id = 1) const uint ELEMENT = BATCH_UINT8;
layout(constant_id = 2) const uint FLAGS = 0; /* BATCH_... */

const bool SYMBOLS = (FLAGS & BATCH_SYMBOLS) != 0, MOVES = (FLAGS & BATCH_MOVES) != 0;
const bool FLIPS = (FLAGS & BATCH_FLIPS) != 0, MIXES = (FLAGS & BATCH_MIXES) != 0;
const bool SOFT = (FLAGS & BATCH_SOFT) != 0, HAS_TARGET = (FLAGS & BATCH_HAS_TARGET) != 0;
const bool BY_CHANNEL = (FLAGS & BATCH_BY_CHANNEL) != 0, BY_PIXEL = (FLAGS & BATCH_BY_PIXEL) != 0;

layout(push_constant, scalar) uniform Push
{
    Floats samples; /* of the batch, like its target */
    Integers target;
    Integers order;
    Floats mean, factor;
    uvec2 raw, targets; /* of the whole set: more than 32 bits count */
    Scalars scalars;
    uint rows, stride; /* bytes from one sample to the next */
    uint channels, height, width, target_width, classes;
    uint seed[2];
    int padding, side; /* of crops, and of the hole */
};
TYPED(samples, 0)

const uint OWN = 0, OTHER = 1; /* MixUp: the samples that are mixed into a row */
const int IN_FRAME = -1, IN_HOLE = -2;

shared uint index_of[2];
shared ivec3 moved[2]; /* down, right, and whether it is flipped */
shared ivec4 hole[2];  /* top, bottom, left, right; none where it is empty */

/* Uniform in [0, bound). */
int draw_below(uint word, uint bound)
{
    uint high, low;

    umulExtended(word, bound, high, low);
    return int(high);
}

void draw_row(uint which, uint row)
{
    const uint index = uint(order.at[scalars.first + row]);
    const uvec2 key = uvec2(seed[0], seed[1]), stream = uvec2(scalars.epoch, BATCH_STREAM);
    uvec4 words;

    index_of[which] = index;
    if (!MOVES)
        return;
    words = philox_draw(key, stream, uvec2(index, 0));
    moved[which] = ivec3(draw_below(words.x, uint(2 * padding + 1)) - padding,
                         draw_below(words.y, uint(2 * padding + 1)) - padding,
                         FLIPS ? int(words.z >> 31) : 0);
    hole[which] = ivec4(0);
    if (side > 0) {
        const ivec2 size = ivec2(height, width);
        ivec2 first, end;

        words = philox_draw(key, stream, uvec2(index, 1));
        first = ivec2(draw_below(words.x, height), draw_below(words.y, width)) - side / 2;
        end = clamp(first + side, ivec2(0), size);
        first = clamp(first, ivec2(0), size);
        hole[which] = ivec4(first.x, end.x, first.y, end.y);
    }
}

/* The pixel of the raw image for one of the result, or where that lies instead. */
int source_of(uint which, uint pixel)
{
    int y = int(pixel / width), x = int(pixel % width);

    if (!MOVES)
        return int(pixel);
    if (y >= hole[which].x && y < hole[which].y && x >= hole[which].z && x < hole[which].w)
        return IN_HOLE;
    x = moved[which].z != 0 ? int(width) - 1 - x : x;
    y += moved[which].x;
    x += moved[which].y;
    return y < 0 || y >= int(height) || x < 0 || x >= int(width) ? IN_FRAME : y * int(width) + x;
}

/* The address of the `number`-th of things that have `bytes` each. */
uvec2 address_of(uvec2 first, uint number, uint bytes)
{
    uint high, low, carry;

    umulExtended(number, bytes, high, low);
    low = uaddCarry(first.x, low, carry);
    return uvec2(low, first.y + high + carry);
}

/* As it is stored: a byte, or the bits of a number. */
uint raw_bits(uvec2 place, uint element)
{
    const uint at = (place.x & 3) + element;

    if (ELEMENT != BATCH_UINT8)
        return uint(Integers(place).at[element]);
    return uint(Integers(uvec2(place.x & ~3u, place.y)).at[at / 4]) >> at % 4 * 8 & 0xffu;
}

float value_of(uint which, uvec2 place, uint element)
{
    const uint pixels = height * width, channel = element / pixels, pixel = element % pixels;
    const uint group = BY_CHANNEL ? channel : BY_PIXEL ? pixel : 0;
    const int source = source_of(which, pixel);
    float value = 0.0;
    precise float result;

    if (source == IN_HOLE)
        return 0.0;
    if (source != IN_FRAME) {
        const uint bits = raw_bits(place, channel * pixels + uint(source));

        value = ELEMENT == BATCH_UINT8 ? float(bits) : uintBitsToFloat(bits);
    }
    result = (value - mean.at[group]) * factor.at[group];
    return result;
}

float probability(uint c, int own, int other)
{
    precise float value = scalars.soft_low;

    if (int(c) == own)
        value += scalars.soft_own;
    if (int(c) == other)
        value += scalars.soft_other;
    return value;
}

void make_target(uint row)
{
    const uint own = gl_LocalInvocationID.x;
    Floats values = Floats(address_of(targets, index_of[OWN], target_width * 4));
    Integers labels = Integers(targets);

    if (target_width > 0)
        for (uint i = own; i < target_width; i += WORKGROUP)
            Floats(target).at[row * target_width + i] = values.at[i];
    else if (SOFT)
        for (uint c = own; c < classes; c += WORKGROUP)
            Floats(target).at[row * classes + c] =
                probability(c, labels.at[index_of[OWN]], labels.at[index_of[OTHER]]);
    else if (own == 0)
        target.at[row] = labels.at[index_of[OWN]];
}

void make_samples(uint row)
{
    const uint count = channels * height * width;
    const uvec2 own = address_of(raw, index_of[OWN], stride);
    const uvec2 other = MIXES ? address_of(raw, index_of[OTHER], stride) : own;

    FOR_EACH_ELEMENT(i, count)
    {
        if (SYMBOLS) {
            Integers(samples).at[row * count + i] = int(raw_bits(own, i));
        } else {
            precise float value = value_of(OWN, own, i);

            if (MIXES)
                value = scalars.share * value +
                        (1.0 - scalars.share) * value_of(OTHER, other, i);
            PUT(samples, row * count + i, value);
        }
    }
}

void main()
{
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        if (gl_LocalInvocationID.x == OWN)
            draw_row(OWN, row);
        if (gl_LocalInvocationID.x == OTHER && (MIXES || SOFT))
            draw_row(OTHER, row > 0 ? row - 1 : rows - 1);
        barrier();
        if (HAS_TARGET && gl_WorkGroupID.x == 0)
            make_target(row);
        make_samples(row);
        barrier();
    }
}
