#version 460
#extension GL_GOOGLE_include_directive : require
/* attention_products.comp: dy . y of each step and head, by which the gradients of all weights of a
 * query are less. LANES invocations share a product. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats qkv;
    Integers lengths;
    Floats y, log_sum_exp, dy, products, dqkv;
    uint batch, steps, heads, width;
    float scale;
};
TYPED(y, 2) TYPED(dy, 4)

const uint LANES = 32, ROWS = WORKGROUP / LANES;

void main()
{
    const uint own = gl_LocalInvocationID.x, lane = own % LANES, rows = batch * steps * heads;

    FOR_EACH_ROW(block, (rows + ROWS - 1) / ROWS)
    {
        const uint row = block * ROWS + own / LANES; /* [sample][step][head] */
        float sum = 0.0;

        if (row < rows)
            for (uint i = lane; i < width; i += LANES)
                sum += GET(dy, row * width + i) * GET(y, row * width + i);
        workgroup_values[own] = sum;
        barrier();
        for (uint distance = LANES / 2; distance > 0; distance /= 2) {
            if (lane < distance)
                workgroup_values[own] += workgroup_values[own + distance];
            barrier();
        }
        if (lane == 0 && row < rows) {
            const uint head = row % heads, t = row / heads % steps, sequence = row / heads / steps;

            products.at[(sequence * heads + head) * steps + t] = workgroup_values[own];
        }
        barrier();
    }
}
