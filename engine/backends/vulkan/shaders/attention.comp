#version 460
#extension GL_GOOGLE_include_directive : require
/* attention.comp: a tile of queries goes over the keys with a running maximum; what was added up
 * before is made smaller when the maximum grows. */
#include "attention.glsl"

layout(constant_id = 4) const uint KEEPS_SUMS = 0;

/* Below all scores; not an infinity, which drivers may not know. */
const float LEAST = -3.0e38;

/* The state of this invocation's two rows. */
float maximum[2], sum[2], result[PARTS * 4];

/* Scores, of which tile_weights has all of the tile, become weights. */
void soften(Place p, uint first_key, inout float scores[4])
{
    const uint row = gl_LocalInvocationID.x / SIDE;

    for (uint r = 0; r < 2; r++) {
        float most = maximum[r], factor;

        for (uint c = 0; c < TILE; c++)
            most = max(most, tile_weights[(row + r * SIDE) * ROW + c]);
        factor = exp(maximum[r] - most);
        maximum[r] = most;
        sum[r] *= factor;
        for (uint part = 0; part < PARTS; part++)
            for (uint c = 0; c < 2; c++)
                result[part * 4 + r * 2 + c] *= factor;
        for (uint c = 0; c < 2; c++) {
            const uint i = r * 2 + c;

            scores[i] = attends(p, query_of(p.first, i), key_of(first_key, i))
                            ? exp(scores[i] - most)
                            : 0.0;
        }
    }
}

/* result += weights values. */
void add_values(Place p, uint first_key)
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;

    for (uint k = 0; k < TILE; k++) {
        sum[0] += tile_weights[row * ROW + k];
        sum[1] += tile_weights[(row + SIDE) * ROW + k];
    }
    [[unroll]] for (uint part = 0; part < PARTS; part++) {
        barrier();
        FOR_EACH_TILE_ELEMENT(i)
        tile_right[TILE_AT(i)] = packed_element(p, VALUES, first_key, part, i);
        barrier();
        for (uint k = 0; k < TILE; k++) {
            const float a = tile_weights[row * ROW + k], b = tile_weights[(row + SIDE) * ROW + k];
            const float c = tile_right[k * ROW + column], d = tile_right[k * ROW + column + SIDE];

            result[part * 4] += a * c;
            result[part * 4 + 1] += a * d;
            result[part * 4 + 2] += b * c;
            result[part * 4 + 3] += b * d;
        }
    }
}

void store(Place p)
{
    for (uint part = 0; part < PARTS; part++)
        for (uint i = 0; i < 4; i++) {
            const uint t = query_of(p.first, i), column = key_of(part * TILE, i);

            if (t < steps && column < width)
                PUT(y, result_at(p, t) + column,
                    sum[i / 2] != 0.0 ? result[part * 4 + i] / sum[i / 2] : 0.0);
        }
    if (KEEPS_SUMS == 0 || gl_LocalInvocationID.x % SIDE != 0)
        return;
    for (uint r = 0; r < 2; r++) {
        const uint t = query_of(p.first, 2 * r);

        if (t < steps)
            log_sum_exp.at[p.number * steps + t] =
                sum[r] != 0.0 ? maximum[r] + log(sum[r]) : -INFINITY;
    }
}

void main()
{
    FOR_EACH_ROW(group, tile_count())
    {
        const Place p = place_of(group);
        const uint end = CAUSAL != 0 ? min(p.keys, p.first + TILE) : p.keys;

        for (uint r = 0; r < 2; r++) {
            maximum[r] = LEAST;
            sum[r] = 0.0;
        }
        for (uint i = 0; i < PARTS * 4; i++)
            result[i] = 0.0;
        for (uint first_key = 0; first_key < end; first_key += TILE) {
            float scores[4], shown[4];

            load_scores(p, p.first, first_key, scores);
            for (uint i = 0; i < 4; i++) {
                scores[i] *= scale;
                shown[i] =
                    attends(p, query_of(p.first, i), key_of(first_key, i)) ? scores[i] : LEAST;
            }
            share_weights(shown);
            soften(p, first_key, scores);
            share_weights(scores);
            add_values(p, first_key);
        }
        store(p);
    }
}
