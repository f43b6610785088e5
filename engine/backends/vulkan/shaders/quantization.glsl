/* quantization.glsl: numbers as integers of 8 bits would hold them. */
const float VALUE_MAX = 255.0;
const float FLOAT_MIN = 1.17549435e-38; /* the smallest normal number */

/* scale (value - zero), as step and zero; see graph_quantization_of_range(). */
vec2 scale_of(vec2 range)
{
    const float least = min(range.x, 0.0), most = max(range.y, 0.0);
    float step = (most - least) / VALUE_MAX;

    if (!(step > VALUE_MAX * FLOAT_MIN))
        step = 1.0;
    return vec2(step, roundEven(-least / step));
}

/* x in steps, less than which it is rounded to; far from the range it need not be exact. */
float integer_of(float x, vec2 scale)
{
    return roundEven(min(max(x * (1.0 / scale.x), -256.0), 511.0)) + scale.y;
}

float rounded(float x, vec2 scale)
{
    const float value = min(max(integer_of(x, scale), 0.0), VALUE_MAX);

    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u ? x : (value - scale.y) * scale.x;
}

/* Both 0: no batch was seen. */
bool is_known(vec2 range)
{
    return range.x != 0.0 || range.y != 0.0;
}
