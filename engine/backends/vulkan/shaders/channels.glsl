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

/* Of each number i of channel c that is the invocation's in this workgroup's part: its place. */
#define FOR_EACH_NUMBER(place, layout_, c)                                                      \
    for (uint first_ = gl_WorkGroupID.y * layout_.part,                                         \
              end_ = channel_end(layout_, c), i = first_ + gl_LocalInvocationID.x / ACROSS,      \
              place = channel_place(layout_, c, i);                                             \
         i < end_; i += ROWS, place = channel_place(layout_, c, i))

uint channel_place(Channels shape, uint c, uint i)
{
    return (i / shape.pixels * shape.channels + c) * shape.pixels + i % shape.pixels;
}

/* The end of the workgroup's part; 0: the channel does not exist. */
uint channel_end(Channels shape, uint c)
{
    return c < shape.channels
               ? min((gl_WorkGroupID.y + 1) * shape.part, shape.samples * shape.pixels)
               : 0;
}

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
