#version 460
#extension GL_GOOGLE_include_directive : require
/* attention_backward_keys.comp: the gradients by a tile of keys and values, over all queries that
 * attend to them. Here the rows of results are keys. */
#include "attention.glsl"

float dkeys[PARTS * 4], dvalues[PARTS * 4];

/* sums[part] += tile_weights^T tile_right. */
#define ADD_TRANSPOSED(sums, part)                                                             \
    for (uint k = 0; k < TILE; k++) {                                                          \
        const float a = tile_weights[k * ROW + row], b = tile_weights[k * ROW + row + SIDE];   \
        const float c = tile_right[k * ROW + column], d = tile_right[k * ROW + column + SIDE]; \
                                                                                               \
        sums[part * 4] += a * c;                                                               \
        sums[part * 4 + 1] += a * d;                                                           \
        sums[part * 4 + 2] += b * c;                                                           \
        sums[part * 4 + 3] += b * d;                                                           \
    }

/* Weights times the gradients of results. */
void add_values(Place p, uint first_query)
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;

    [[unroll]] for (uint part = 0; part < PARTS; part++) {
        barrier();
        FOR_EACH_TILE_ELEMENT(i)
        tile_right[TILE_AT(i)] = gradient_element(p, first_query, part, i);
        barrier();
        ADD_TRANSPOSED(dvalues, part)
    }
}

/* Gradients of scores times queries. */
void add_keys(Place p, uint first_query)
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;

    [[unroll]] for (uint part = 0; part < PARTS; part++) {
        barrier();
        FOR_EACH_TILE_ELEMENT(i)
        tile_right[TILE_AT(i)] = packed_element(p, QUERIES, first_query, part, i);
        barrier();
        ADD_TRANSPOSED(dkeys, part)
    }
}

void store(Place p)
{
    for (uint part = 0; part < PARTS; part++)
        for (uint i = 0; i < 4; i++) {
            const uint t = query_of(p.first, i), column = key_of(part * TILE, i);

            if (t < steps && column < width) {
                PUT(dqkv, packed_at(p, KEYS, t) + column, dkeys[part * 4 + i]);
                PUT(dqkv, packed_at(p, VALUES, t) + column, dvalues[part * 4 + i]);
            }
        }
}

void main()
{
    FOR_EACH_ROW(group, tile_count())
    {
        const Place p = place_of(group);
        const uint begin = CAUSAL != 0 ? p.first : 0; /* earlier queries do not see these keys */

        for (uint i = 0; i < PARTS * 4; i++)
            dkeys[i] = dvalues[i] = 0.0;
        for (uint first = begin; first < steps && p.first < p.keys; first += TILE) {
            float scores[4], slopes[4];

            load_scores(p, first, p.first, scores);
            load_slopes(p, first, p.first, slopes);
            weigh(p, first, p.first, scores, slopes);
            share_weights(scores);
            add_values(p, first);
            share_weights(slopes);
            add_keys(p, first);
        }
        store(p);
    }
}
