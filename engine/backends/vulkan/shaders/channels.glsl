/* channels.glsl: sums over the numbers of each channel of x [samples, channels, pixels]. A
 * workgroup has ACROSS channels at once: 1, or several where pixels are few and channels lie side
 * by side. */
layout(constant_id = 1) const uint ACROSS = 1;

struct Channels {
    uint samples, channels, pixels;
    uint part; /* numbers of a channel that a workgroup has */
};

const uint ROWS = WORKGROUP / ACROSS;

/* For each block of channels that is this workgroup's; `c` is the invocation's channel. */
#define FOR_EACH_CHANNEL(c, channels)                                                        \
    for (uint block = gl_WorkGroupID.x, c = block * ACROSS + gl_LocalInvocationID.x % ACROSS; \
         block * ACROSS < (channels);                                                        \
         block += gl_NumWorkGroups.x, c = block * ACROSS + gl_LocalInvocationID.x % ACROSS)

/* A number of a channel, and how to get to the invocation's next one without a division. */
struct Cursor {
    uint i, end; /* of the channel's numbers */
    uint place, pixel;
    uint step, step_pixels, skip; /* skip: the other channels of a sample */
};

/* The invocation's first number of channel c in the workgroup's part. */
Cursor cursor_begin(Channels shape, uint c)
{
    const uint i = gl_WorkGroupID.y * shape.part + gl_LocalInvocationID.x / ACROSS;
    const uint end = min((gl_WorkGroupID.y + 1) * shape.part, shape.samples * shape.pixels);
    const uint plane = shape.channels * shape.pixels;

    return Cursor(i, c < shape.channels ? end : 0,
                  (i / shape.pixels * shape.channels + c) * shape.pixels + i % shape.pixels,
                  i % shape.pixels, ROWS / shape.pixels * plane + ROWS % shape.pixels,
                  ROWS % shape.pixels, plane - shape.pixels);
}

void cursor_next(Channels shape, inout Cursor cursor)
{
    cursor.i += ROWS;
    cursor.place += cursor.step;
    cursor.pixel += cursor.step_pixels;
    if (cursor.pixel >= shape.pixels) {
        cursor.pixel -= shape.pixels;
        cursor.place += cursor.skip;
    }
}

/* For each number of channel c that is the invocation's in the workgroup's part. */
#define FOR_EACH_NUMBER(cursor, shape, c) \
    for (Cursor cursor = cursor_begin(shape, c); cursor.i < cursor.end; cursor_next(shape, cursor))

/* The sum over the invocations that have the same channel, each of which gets it. */
float channel_sum(float x)
{
    const uint own = gl_LocalInvocationID.x;
    float sum;

    workgroup_values[own] = x;
    barrier();
    for (uint distance = WORKGROUP / 2; distance >= ACROSS; distance /= 2) {
        if (own < distance)
            workgroup_values[own] += workgroup_values[own + distance];
        barrier();
    }
    sum = workgroup_values[own % ACROSS];
    barrier();
    return sum;
}
