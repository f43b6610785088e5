#version 460
#extension GL_GOOGLE_include_directive : require
/* scan_carry.comp: in place of what each chunk of the selective scan makes of zero, writes what
 * comes to it from the chunks before; BACK: goes from the last chunk to the first. */
#include "common.glsl"

layout(constant_id = 1) const uint BACK = 0;

layout(push_constant, scalar) uniform Push
{
    Floats u, delta, a_log, b, c, d, z, dy;
    Floats kept, sums, result; /* result: [chunk][state][channel] */
    uint sequences, length, channels, states;
};

void main()
{
    const uint chunks = (length + 31) / 32, row = states * channels; /* SCAN_CHUNK */

    FOR_EACH_ELEMENT(i, sequences * row)
    {
        const uint sequence = i / row, channel = i % channels, n = i % row / channels;
        const float a = -exp(a_log.at[channel * states + n]);
        float carried = 0.0;

        for (uint k = 0; k < chunks; k++) {
            const uint chunk = sequence * chunks + (BACK != 0 ? chunks - 1 - k : k);
            const uint at = chunk * row + i % row;
            const float own = result.at[at];

            result.at[at] = carried;
            carried = exp(a * sums.at[chunk * channels + channel]) * carried + own;
        }
    }
}
