/* convolution.glsl: the extents of a convolution, seen from its forward pass, as convolution.c
 * gives them. Channels are those of one group. */
struct Convolution {
    uint samples, groups;
    uint from_channels, to_channels;
    uvec2 from, to; /* height and width of the operand x and of the result y */
    uvec2 kernel, stride, padding, dilation;
};

/* How the source of a pass is walked along an axis, for every pixel of the target that is this
 * phase's: pixel i is at first + i * spacing, and its tap t has the source's pixel
 * i * scale + origin + t * step and the weight at tap_first + t * tap_step of the kernel. */
struct Walk {
    uint first, spacing, count;
    int scale, origin, step;
    uint taps, tap_first, tap_step;
};

Walk walk_forward(Convolution conv, uint axis)
{
    return Walk(0, 1, conv.to[axis], int(conv.stride[axis]), -int(conv.padding[axis]),
                int(conv.dilation[axis]), conv.kernel[axis], 0, 1);
}

uint greatest_divisor(uint a, uint b)
{
    while (b != 0) {
        const uint rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* How many numbers there are from `first`, in steps of `spacing`, to before `end`. */
uint steps(uint first, uint end, uint spacing)
{
    return first < end ? (end - first - 1) / spacing + 1 : 0;
}

/* Of the gradient by x: only some taps meet the pixels that are `phase` modulo the stride. */
Walk walk_backward(Convolution conv, uint axis, uint phase)
{
    const uint stride = conv.stride[axis], dilation = conv.dilation[axis];
    const uint place = phase + conv.padding[axis];
    const uint tap_step = stride / greatest_divisor(stride, dilation);
    uint tap = 0;

    while (tap < tap_step && place % stride != tap * dilation % stride)
        tap++;
    return Walk(phase, stride, steps(phase, conv.from[axis], stride), 1,
                (int(place) - int(tap * dilation)) / int(stride),
                -int(tap_step * dilation / stride),
                tap < tap_step ? steps(tap, conv.kernel[axis], tap_step) : 0, tap, tap_step);
}
