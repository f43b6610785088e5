/* lengths.glsl: how many steps of a sequence count. */

/* Between 1 and all, whatever the data says. */
uint length_within(int length, uint steps)
{
    return uint(clamp(length, 1, int(steps)));
}
