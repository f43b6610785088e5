#version 460
#extension GL_GOOGLE_include_directive : require
/* scan_backward.comp: the gradients of a chunk of the selective scan, from the states before it and
 * the gradients by those behind it. The states between are made anew. Sums over the channels are
 * those of this workgroup's. */
#include "common.glsl"

layout(constant_id = 1) const uint REVERSE = 0;
layout(constant_id = 2) const uint HAS_GATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats u, delta, a_log, b, c, d, z, dy, kept;
    Floats parts; /* struct scan_parts (scan.c) */
    Floats du, ddelta, dz;
    uint sequences, length, channels, states;
};
TYPED(u, 0) TYPED(delta, 1) TYPED(b, 3) TYPED(c, 4) TYPED(z, 6) TYPED(dy, 7)
TYPED(du, 10) TYPED(ddelta, 11) TYPED(dz, 12)
#include "scan_place.glsl"

const uint LINE = CHUNK + 1;
shared float summands_b[CHUNK * LINE]; /* [step][channel] */
shared float summands_c[CHUNK * LINE];
shared float step_sizes[CHUNK * CHUNK];

/* Of this invocation's channel, by step of the chunk. */
float inputs[CHUNK], gradients[CHUNK]; /* gradients: by the result before its gate */
float dstep[CHUNK], dinput[CHUNK], results[CHUNK], h[CHUNK];

float step_size(uint i)
{
    return step_sizes[i * CHUNK + gl_LocalInvocationID.x];
}

void begin(Place p)
{
    for (uint i = 0; i < CHUNK; i++) {
        float size = 0.0;

        inputs[i] = gradients[i] = dstep[i] = dinput[i] = results[i] = 0.0;
        if (p.inside && i < p.count) {
            const uint at = element(p, i);

            size = softplus(GET(delta, at));
            inputs[i] = size * GET(u, at);
            gradients[i] = GET(dy, at) * gate_of(at);
        }
        step_sizes[i * CHUNK + gl_LocalInvocationID.x] = size;
    }
}

/* Goes over the chunk and back with state n of the channel. */
void go_back(Place p, uint n)
{
    const float a = decay_of(p.channel, n), before = kept.at[kept_at(p, n)];
    float carried = parts.at[kept_at(p, n)], state = before, da = 0.0;

    for (uint i = 0; i < p.count; i++) {
        const uint at = row_of(p, i) * states + n;

        state = exp(step_size(i) * a) * state + inputs[i] * GET(b, at);
        h[i] = state;
        results[i] += state * GET(c, at);
    }
    for (uint i = p.count; i-- > 0;) {
        const uint at = row_of(p, i) * states + n;
        const float last = i > 0 ? h[i - 1] : before;
        const float dh = carried + gradients[i] * GET(c, at);

        dinput[i] += dh * GET(b, at);
        carried = dh * exp(step_size(i) * a);
        dstep[i] += carried * last * a;
        da += carried * last * step_size(i);
        summands_b[i * LINE + gl_LocalInvocationID.x] = dh * inputs[i];
        summands_c[i * LINE + gl_LocalInvocationID.x] = gradients[i] * h[i];
    }
    parts.at[kept_at(p, n)] = da;
}

/* Invocation i adds up what the channels left of step i. */
void add_channels(Place p, uint n, uint first_b, uint first_c)
{
    const uint i = gl_LocalInvocationID.x;
    const uint at = (p.slab * sequences * length + row_of(p, i)) * states + n;
    float db = 0.0, dc = 0.0;

    if (i >= p.count)
        return;
    for (uint k = 0; k < min(channels - p.slab * WORKGROUP, WORKGROUP); k++) {
        db += summands_b[i * LINE + k];
        dc += summands_c[i * LINE + k];
    }
    parts.at[first_b + at] = db;
    parts.at[first_c + at] = dc;
}

/* du, ddelta, dz, and the sum dD. */
void end(Place p, uint first_d)
{
    const float factor = d.at[p.channel];
    float dd = 0.0;

    for (uint i = 0; i < p.count; i++) {
        const uint at = element(p, i);
        const float value = GET(u, at);

        dd += gradients[i] * value;
        PUT(ddelta, at, (dstep[i] + dinput[i] * value) * sigmoid(GET(delta, at)));
        if (HAS_GATE != 0) {
            const float gate = GET(z, at), s = sigmoid(gate), result = results[i] + factor * value;

            PUT(dz, at, GET(dy, at) * result * s * (1.0 + gate * (1.0 - s)));
        }
        PUT(du, at, dinput[i] * step_size(i) + gradients[i] * factor);
    }
    parts.at[first_d + p.chunk * channels + p.channel] = dd;
}

void main()
{
    const uint chunks = sequences * chunks_of_sequence();
    const uint first_d = chunks * states * channels + chunks * channels;
    const uint first_b = first_d + chunks * channels + states * channels;
    const uint first_c = first_b + slab_count() * sequences * length * states;

    FOR_EACH_ROW(group, chunks * slab_count())
    {
        const Place p = place_of(group);

        begin(p);
        for (uint n = 0; n < states; n++) {
            if (p.inside)
                go_back(p, n);
            barrier();
            add_channels(p, n, first_b, first_c);
            barrier();
        }
        if (p.inside)
            end(p, first_d);
    }
}
