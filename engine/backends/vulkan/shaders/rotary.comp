#version 460
#extension GL_GOOGLE_include_directive : require
/* rotary.comp: turns pairs of numbers of queries and keys by an angle that grows with their step.
 * An invocation has a pair of a step, in all heads of some samples. Angles are whole numbers of
 * 2^-64 turns: their products wrap around as angles do, so that late steps are exact, too. */
#include "common.glsl"

layout(constant_id = 1) const uint INVERSE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, y; /* [batch, steps, 3, heads, width] */
    uint batch, steps, heads, width;
    uvec2 ratio; /* of the angles of a pair and of the one before; times 2^64, the low word first */
};
TYPED(x, 0) TYPED(y, 1)

/* The upper 64 bits of a b. */
uvec2 multiply(uvec2 a, uvec2 b)
{
    uint low, high, first_low, first_high, second_low, second_high, unused, carry, sum;
    uvec2 result;

    umulExtended(a.x, b.x, high, unused);
    umulExtended(a.y, b.x, first_high, first_low);
    umulExtended(a.x, b.y, second_high, second_low);
    umulExtended(a.y, b.y, result.y, result.x);
    sum = uaddCarry(high, first_low, carry);
    low = carry;
    sum = uaddCarry(sum, second_low, carry);
    low += carry;
    result.x = uaddCarry(result.x, first_high, carry);
    result.y += carry;
    result.x = uaddCarry(result.x, second_high, carry);
    result.y += carry;
    result.x = uaddCarry(result.x, low, carry);
    result.y += carry;
    return result;
}

/* ratio^exponent; 1 is just below 2^64. */
uvec2 power(uint exponent)
{
    uvec2 result = uvec2(0xffffffffu), square = ratio;

    for (; exponent != 0; exponent >>= 1) {
        if ((exponent & 1) != 0)
            result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

/* The angle of the step's pair, in 2^-32 turns. */
uint angle_of(uint step, uint pair)
{
    const uvec2 radian = uvec2(0x9391054au, 0x28be60dbu); /* 2^64 / (2 pi) */
    const uvec2 angle = multiply(power(pair), radian);
    uint high, low;

    umulExtended(angle.x, step, high, low);
    return angle.y * step + high;
}

/* Cosine and sine. Within an eighth of a turn from a quarter the series are exact to 1e-8. */
vec2 direction(uint angle)
{
    const uint quarter = (angle + 0x20000000u) >> 30;
    const float a = float(int(angle - (quarter << 30))) * 1.4629180792671596e-9; /* 2 pi / 2^32 */
    const float s = a * a;
    const float cosine =
        1.0 -
        s * (0.5 - s * (1.0 / 24.0 - s * (1.0 / 720.0 - s * (1.0 / 40320.0 - s / 3628800.0))));
    const float sine =
        a * (1.0 - s * (1.0 / 6.0 - s * (1.0 / 120.0 - s * (1.0 / 5040.0 - s / 362880.0))));

    switch (quarter & 3) {
    case 0:
        return vec2(cosine, sine);
    case 1:
        return vec2(-sine, cosine);
    case 2:
        return vec2(-cosine, -sine);
    default:
        return vec2(sine, -cosine);
    }
}

void main()
{
    const uint pairs = width / 2;

    FOR_EACH_ELEMENT(i, steps * pairs)
    {
        const uint step = i / pairs, pair = i % pairs;
        vec2 turn = direction(angle_of(step, pair));

        if (INVERSE != 0)
            turn.y = -turn.y;
        for (uint sequence = gl_WorkGroupID.y; sequence < batch; sequence += gl_NumWorkGroups.y)
            for (uint head = 0; head < 3 * heads; head++) {
                const uint at = ((sequence * steps + step) * 3 * heads + head) * width + pair;
                const float a = GET(x, at), b = GET(x, at + pairs);
                const bool turned = head < 2 * heads; /* a query or a key, no value */

                PUT(y, at, turned ? a * turn.x - b * turn.y : a);
                PUT(y, at + pairs, turned ? b * turn.x + a * turn.y : b);
            }
    }
}
