/* attention.glsl: what the shaders of attention share. A workgroup of 16 x 16 invocations has tiles
 * of TILE queries and TILE keys of a head. Products over the head's width load TILE columns of both
 * at a time; invocation (row, column) has the four elements of a tile in rows `row` and row + 16
 * and columns `column` and column + 16. */
#include "common.glsl"

layout(constant_id = 1) const uint CAUSAL = 0;
layout(constant_id = 2) const uint HAS_LENGTHS = 0;
layout(constant_id = 3) const uint PARTS = 1; /* TILE columns each that the head's width has */

layout(push_constant, scalar) uniform Push
{
    Floats qkv; /* [batch, steps, 3, heads, width] */
    Integers lengths;
    Floats y, log_sum_exp, dy, products, dqkv;
    uint batch, steps, heads, width;
    float scale;
};
TYPED(qkv, 0) TYPED(y, 2) TYPED(dy, 4) TYPED(dqkv, 6)

const uint TILE = 32, SIDE = 16, ROW = TILE + 1; /* a row of a tile in the shared memory */
const uint QUERIES = 0, KEYS = 1, VALUES = 2;

shared float tile_left[TILE * ROW];
shared float tile_right[TILE * ROW];
shared float tile_weights[TILE * ROW]; /* [query][key] */

/* A tile of steps of a head: this workgroup's. */
struct Place {
    uint number; /* of the head, in all samples */
    uint sequence, head, first;
    uint keys; /* that the sample has */
};

Place place_of(uint group)
{
    const uint tiles = (steps + TILE - 1) / TILE;
    Place p;

    p.number = group / tiles;
    p.sequence = p.number / heads;
    p.head = p.number % heads;
    p.first = group % tiles * TILE;
    p.keys = HAS_LENGTHS != 0 ? min(uint(max(lengths.at[p.sequence], 0)), steps) : steps;
    return p;
}

uint tile_count()
{
    return (steps + TILE - 1) / TILE * batch * heads;
}

/* Where the numbers of a step begin: in the packed tensors, and in y and dy. */
uint packed_at(Place p, uint which, uint t)
{
    return ((p.sequence * steps + t) * 3 + which) * heads * width + p.head * width;
}

uint result_at(Place p, uint t)
{
    return ((p.sequence * steps + t) * heads + p.head) * width;
}

/* Number i of TILE x TILE: columns of `part` of the steps from `first` on, 0 beyond their end. */
float packed_element(Place p, uint which, uint first, uint part, uint i)
{
    const uint t = first + i / TILE, column = part * TILE + i % TILE;

    return t < steps && column < width ? GET(qkv, packed_at(p, which, t) + column) : 0.0;
}

float gradient_element(Place p, uint first, uint part, uint i)
{
    const uint t = first + i / TILE, column = part * TILE + i % TILE;

    return t < steps && column < width ? GET(dy, result_at(p, t) + column) : 0.0;
}

#define FOR_EACH_TILE_ELEMENT(i) \
    for (uint i = gl_LocalInvocationID.x; i < TILE * TILE; i += SIDE * SIDE)
#define TILE_AT(i) ((i) / TILE * ROW + (i) % TILE)

/* sums += left right^T over the columns that are loaded: of rows that are both [step][column]. */
void add_scores(inout float sums[4])
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;

    for (uint k = 0; k < TILE; k++) {
        const float a = tile_left[row * ROW + k], b = tile_left[(row + SIDE) * ROW + k];
        const float c = tile_right[column * ROW + k], d = tile_right[(column + SIDE) * ROW + k];

        sums[0] += a * c;
        sums[1] += a * d;
        sums[2] += b * c;
        sums[3] += b * d;
    }
}

/* The products of queries and keys, without their scale. */
void load_scores(Place p, uint first_query, uint first_key, out float scores[4])
{
    for (uint i = 0; i < 4; i++)
        scores[i] = 0.0;
    for (uint part = 0; part < PARTS; part++) {
        barrier();
        FOR_EACH_TILE_ELEMENT(i)
        {
            tile_left[TILE_AT(i)] = packed_element(p, QUERIES, first_query, part, i);
            tile_right[TILE_AT(i)] = packed_element(p, KEYS, first_key, part, i);
        }
        barrier();
        add_scores(scores);
    }
}

/* The products of the gradients of results and the values: the gradients of the weights. */
void load_slopes(Place p, uint first_query, uint first_key, out float slopes[4])
{
    for (uint i = 0; i < 4; i++)
        slopes[i] = 0.0;
    for (uint part = 0; part < PARTS; part++) {
        barrier();
        FOR_EACH_TILE_ELEMENT(i)
        {
            tile_left[TILE_AT(i)] = gradient_element(p, first_query, part, i);
            tile_right[TILE_AT(i)] = packed_element(p, VALUES, first_key, part, i);
        }
        barrier();
        add_scores(slopes);
    }
}

/* The query and the key of this invocation's element i. */
uint query_of(uint first_query, uint i)
{
    return first_query + gl_LocalInvocationID.x / SIDE + i / 2 * SIDE;
}

uint key_of(uint first_key, uint i)
{
    return first_key + gl_LocalInvocationID.x % SIDE + i % 2 * SIDE;
}

bool attends(Place p, uint query, uint key)
{
    return query < steps && key < p.keys && (CAUSAL == 0 || key <= query);
}

/* Where element i stands in tile_weights. */
uint weight_at(uint i)
{
    return (gl_LocalInvocationID.x / SIDE + i / 2 * SIDE) * ROW + gl_LocalInvocationID.x % SIDE +
           i % 2 * SIDE;
}

/* What the backward part makes of scores and slopes: the weights, and the gradients of scores. */
void weigh(Place p, uint first_query, uint first_key, inout float scores[4], inout float slopes[4])
{
    for (uint i = 0; i < 4; i++) {
        const uint query = query_of(first_query, i), at = p.number * steps + query;
        float weight = 0.0, slope = 0.0;

        if (attends(p, query, key_of(first_key, i))) {
            weight = exp(scores[i] * scale - log_sum_exp.at[at]);
            slope = weight * (slopes[i] - products.at[at]) * scale;
        }
        scores[i] = weight;
        slopes[i] = slope;
    }
}

/* Stores the four numbers of this invocation in tile_weights. */
void share_weights(float weights[4])
{
    barrier();
    for (uint i = 0; i < 4; i++)
        tile_weights[weight_at(i)] = weights[i];
    barrier();
}
