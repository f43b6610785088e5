/* scan_place.glsl: where the invocations of the selective scan are: each has a channel in a chunk
 * of steps. Included behind the push constants, of which it reads the extents, u, delta, a_log and
 * z. */
#include "functions.glsl"

const uint CHUNK = 32; /* SCAN_CHUNK */

struct Place {
    uint chunk; /* of all sequences' */
    uint slab, channel;
    uint row, first; /* the sequence's first row, and the chunk's first step */
    uint count;      /* of steps */
    bool inside;     /* there is such a channel */
};

uint chunks_of_sequence()
{
    return (length + CHUNK - 1) / CHUNK;
}

uint slab_count()
{
    return (channels + WORKGROUP - 1) / WORKGROUP;
}

Place place_of(uint group)
{
    const uint chunks = chunks_of_sequence();
    Place p;

    p.chunk = group / slab_count();
    p.slab = group % slab_count();
    p.channel = p.slab * WORKGROUP + gl_LocalInvocationID.x;
    p.inside = p.channel < channels;
    p.row = p.chunk / chunks * length;
    p.first = p.chunk % chunks * CHUNK;
    p.count = min(length - p.first, CHUNK);
    return p;
}

/* The row of step i of the chunk, in the order in which the sequence is read. */
uint row_of(Place p, uint i)
{
    const uint t = p.first + i;

    return p.row + (REVERSE != 0 ? length - 1 - t : t);
}

uint element(Place p, uint i)
{
    return row_of(p, i) * channels + p.channel;
}

uint kept_at(Place p, uint n)
{
    return (p.chunk * states + n) * channels + p.channel;
}

float sigmoid(float x)
{
    return 1.0 / (1.0 + exp(-x));
}

float softplus(float x)
{
    return max(x, 0.0) + log_1p(exp(-abs(x)));
}

float decay_of(uint channel, uint n)
{
    return -exp(a_log.at[channel * states + n]);
}

/* The factor of the gate. */
float gate_of(uint at)
{
    return HAS_GATE != 0 ? GET(z, at) * sigmoid(GET(z, at)) : 1.0;
}
