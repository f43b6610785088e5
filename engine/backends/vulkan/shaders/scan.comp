#version 460
#extension GL_GOOGLE_include_directive : require
/* scan.comp: the selective scan of a chunk. KIND: begins with zero, and leaves the states behind
 * the chunk and the sum of its steps; or begins with the states before it, and leaves the results;
 * or goes back with a gradient of zero behind the chunk, and leaves that before it and the sum. */
#include "common.glsl"

layout(constant_id = 1) const uint REVERSE = 0;
layout(constant_id = 2) const uint HAS_GATE = 0;
layout(constant_id = 3) const uint KIND = SCAN_STATES;

layout(push_constant, scalar) uniform Push
{
    Floats u, delta, a_log, b, c, d, z, dy;
    Floats kept, sums, result;
    uint sequences, length, channels, states;
};
TYPED(u, 0) TYPED(delta, 1) TYPED(b, 3) TYPED(c, 4) TYPED(z, 6) TYPED(dy, 7) TYPED(result, 10)
#include "scan_place.glsl"

const uint STATES = 16; /* that an invocation has at a time */

/* Number n of a row of B or C. */
#define STATE_NUMBER(from, row, n) ((n) < states ? GET(from, (row) * states + (n)) : 0.0)

/* Forward over the chunk's steps; the results add up over all states. */
void go_forward(Place p, uint n, float a[STATES], inout float h[STATES])
{
    for (uint i = 0; i < p.count; i++) {
        const uint row = row_of(p, i), at = element(p, i);
        const float by = softplus(GET(delta, at)), value = GET(u, at);
        float sum = KIND == SCAN_RESULTS && n > 0 ? GET(result, at) : 0.0;

        [[unroll]] for (uint k = 0; k < STATES; k++) {
            h[k] = exp(by * a[k]) * h[k] + by * value * STATE_NUMBER(b, row, n + k);
            if (KIND == SCAN_RESULTS)
                sum += h[k] * STATE_NUMBER(c, row, n + k);
        }
        if (KIND == SCAN_RESULTS)
            PUT(result, at, n + STATES < states ? sum
                                                : (sum + d.at[p.channel] * value) * gate_of(at));
    }
}

void go_back(Place p, uint n, float a[STATES], inout float h[STATES])
{
    for (uint i = p.count; i-- > 0;) {
        const uint row = row_of(p, i), at = element(p, i);
        const float by = softplus(GET(delta, at)), gradient = GET(dy, at) * gate_of(at);

        [[unroll]] for (uint k = 0; k < STATES; k++)
            h[k] = (h[k] + gradient * STATE_NUMBER(c, row, n + k)) * exp(by * a[k]);
    }
}

void main()
{
    FOR_EACH_ROW(group, sequences * chunks_of_sequence() * slab_count())
    {
        const Place p = place_of(group);

        if (!p.inside)
            continue;
        for (uint n = 0; n < states; n += STATES) {
            float a[STATES], h[STATES];

            [[unroll]] for (uint k = 0; k < STATES; k++) {
                a[k] = n + k < states ? decay_of(p.channel, n + k) : 0.0;
                h[k] = KIND == SCAN_RESULTS && n + k < states ? kept.at[kept_at(p, n + k)] : 0.0;
            }
            if (KIND == SCAN_GRADIENTS)
                go_back(p, n, a, h);
            else
                go_forward(p, n, a, h);
            [[unroll]] for (uint k = 0; k < STATES; k++) {
                if (KIND == SCAN_STATES && n + k < states)
                    kept.at[kept_at(p, n + k)] = h[k];
                if (KIND == SCAN_GRADIENTS && n + k < states)
                    PUT(result, kept_at(p, n + k), h[k]);
            }
        }
        if (KIND != SCAN_RESULTS) {
            float total = 0.0;

            for (uint i = 0; i < p.count; i++)
                total += softplus(GET(delta, element(p, i)));
            sums.at[p.chunk * channels + p.channel] = total;
        }
    }
}
