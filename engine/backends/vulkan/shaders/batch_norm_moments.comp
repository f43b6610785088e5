#version 460
#extension GL_GOOGLE_include_directive : require
/* batch_norm_moments.comp: of each channel and part the mean, and the sum of the squared
 * differences from it. These lie behind the means of all parts. */
#include "common.glsl"
#include "channels.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, moments;
    Channels shape;
    uint parts;
};
TYPED(x, 0)

void main()
{
    FOR_EACH_CHANNEL(c, shape.channels)
    {
        const uint first = gl_WorkGroupID.y * shape.part;
        const uint at = gl_WorkGroupID.y * shape.channels + c;
        const float numbers = float(min(first + shape.part, shape.samples * shape.pixels) - first);
        float mean = 0.0, distance = 0.0, square = 0.0;

        FOR_EACH_NUMBER(cursor, shape, c)
        mean += GET(x, cursor.place);
        mean = channel_sum(mean) / numbers;
        FOR_EACH_NUMBER(cursor, shape, c)
        {
            const float difference = GET(x, cursor.place) - mean;

            distance += difference;
            square += difference * difference;
        }
        /* what rounding left of the mean: Chan, Golub and LeVeque 1983 */
        distance = channel_sum(distance);
        square = channel_sum(square) - distance * distance / numbers;
        if (gl_LocalInvocationID.x < ACROSS && c < shape.channels) {
            moments.at[at] = mean + distance / numbers;
            moments.at[parts * shape.channels + at] = max(square, 0.0);
        }
    }
}
