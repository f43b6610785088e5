#version 460
#extension GL_GOOGLE_include_directive : require
/* fake_quantize_rows.comp: each row rounded as integers of its own range would hold it: rows of
 * samples as 0 to 255, SYMMETRIC ones, of weights, as -127 to 127. */
#include "common.glsl"
#include "quantization.glsl"

layout(constant_id = 1) const uint SYMMETRIC = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    uint rows, width;
};
TYPED(x, 0) TYPED(y, 1)

const float SYMMETRIC_MAX = 127.0;

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        float least = 0.0, most = 0.0, largest, step, of_weight;
        vec2 scale;

        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
            least = min(least, GET(x, row * width + i));
            most = max(most, GET(x, row * width + i));
        }
        least = -workgroup_maximum(-least);
        most = workgroup_maximum(most);
        largest = max(-least, most);
        of_weight = largest > SYMMETRIC_MAX * FLOAT_MIN ? largest / SYMMETRIC_MAX : 1.0;
        step = (most - least) * (1.0 / VALUE_MAX);
        step = step > 0.0 ? step : 1.0;
        scale = vec2(step, roundEven(-least / step));
        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
            const float value = GET(x, row * width + i);

            PUT(y, row * width + i, SYMMETRIC != 0 ? roundEven(value / of_weight) * of_weight
                                                   : rounded(value, scale));
        }
    }
}
