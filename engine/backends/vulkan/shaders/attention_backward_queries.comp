#version 460
#extension GL_GOOGLE_include_directive : require
/* attention_backward_queries.comp: the gradient by a tile of queries, over all of their keys. */
#include "attention.glsl"

float result[PARTS * 4];

/* result += the gradients of scores, which tile_weights has, times the keys. */
void add_keys(Place p, uint first_key)
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;

    [[unroll]] for (uint part = 0; part < PARTS; part++) {
        barrier();
        FOR_EACH_TILE_ELEMENT(i)
        tile_right[TILE_AT(i)] = packed_element(p, KEYS, first_key, part, i);
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

void main()
{
    FOR_EACH_ROW(group, tile_count())
    {
        const Place p = place_of(group);
        const uint end = CAUSAL != 0 ? min(p.keys, p.first + TILE) : p.keys;

        for (uint i = 0; i < PARTS * 4; i++)
            result[i] = 0.0;
        for (uint first_key = 0; first_key < end; first_key += TILE) {
            float scores[4], slopes[4];

            load_scores(p, p.first, first_key, scores);
            load_slopes(p, p.first, first_key, slopes);
            weigh(p, p.first, first_key, scores, slopes);
            share_weights(slopes);
            add_keys(p, first_key);
        }
        for (uint part = 0; part < PARTS; part++)
            for (uint i = 0; i < 4; i++) {
                const uint t = query_of(p.first, i), column = key_of(part * TILE, i);

                if (t < steps && column < width)
                    PUT(dqkv, packed_at(p, QUERIES, t) + column, result[part * 4 + i]);
            }
    }
}
