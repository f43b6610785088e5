/* philox.glsl: the draws of base/philox.h. Numbers of 64 bits are two words, the low one first. */
uvec4 philox_draw(uvec2 seed, uvec2 stream, uvec2 index)
{
    uvec4 counter = uvec4(index, stream);
    uvec2 key = seed;

    for (int turn = 0; turn < 10; turn++) {
        uint high0, low0, high1, low1;

        umulExtended(0xD2511F53u, counter.x, high0, low0);
        umulExtended(0xCD9E8D57u, counter.z, high1, low1);
        counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}
