#version 460
#extension GL_GOOGLE_include_directive : require
/* prepend_token.comp: puts a token before the steps of each sample, or, BACKWARD, takes the
 * gradient of these steps from that of all. */
#include "common.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, token, y;
    uint count, steps, features; /* steps: without the token */
};
TYPED(x, 0) TYPED(y, 2)

void main()
{
    const uint numbers = (steps + (BACKWARD != 0 ? 0 : 1)) * features; /* of the result */

    FOR_EACH_ELEMENT(i, count)
    {
        const uint before = (i / numbers + 1) * features; /* numbers of tokens up to here */

        if (BACKWARD != 0)
            PUT(y, i, GET(x, i + before));
        else
            PUT(y, i, i % numbers < features ? token.at[i % numbers] : GET(x, i - before));
    }
}
