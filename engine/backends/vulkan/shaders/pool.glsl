/* pool.glsl: which pixels a window of a pool has. */
struct Pool {
    uint images; /* channels of all samples */
    uvec2 from, to; /* height and width of the image and of the result */
    uvec2 kernel, stride, padding; /* unless adaptive */
};

/* The pixels of a window along an axis: those from `first` to before `end` lie within the image;
 * positions count from `start`. */
struct Span {
    int start;
    uint first, end;
};

Span window_span(Pool pool, bool adaptive, uint axis, uint i)
{
    const uint from = pool.from[axis], to = pool.to[axis];

    if (adaptive) {
        const uint first = i * from / to;

        return Span(int(first), first, ((i + 1) * from + to - 1) / to);
    } else {
        const int start = int(i * pool.stride[axis]) - int(pool.padding[axis]);

        return Span(start, uint(max(start, 0)), min(uint(start + int(pool.kernel[axis])), from));
    }
}

/* The windows, from .x to before .y, that may have a pixel. */
uvec2 windows_of(Pool pool, bool adaptive, uint axis, uint pixel)
{
    const uint from = pool.from[axis], to = pool.to[axis];

    if (adaptive) {
        return uvec2(pixel * to / from, min(((pixel + 1) * to - 1) / from + 1, to));
    } else {
        const uint place = pixel + pool.padding[axis], kernel = pool.kernel[axis];
        const uint stride = pool.stride[axis];

        return uvec2(place < kernel ? 0 : (place - kernel) / stride + 1,
                     min(place / stride + 1, to));
    }
}

/* Positions of a row of a window. */
uint position_row(Pool pool, bool adaptive)
{
    return adaptive ? pool.from.y / pool.to.y + 2 : pool.kernel.y;
}
