/* moments.glsl: joins the moments that batch_norm_moments.comp left of the parts of a channel. The
 * squares around the common mean are those around a part's own and those of the distance of the two
 * means (Chan, Golub and LeVeque 1983). */
struct Moments {
    float mean, square; /* the sum of the squared differences from the mean */
};

/* Of channel c: `numbers` in all, `part` of a part. */
Moments join_moments(Floats moments, uint channels, uint c, uint numbers, uint part)
{
    const uint parts = (numbers + part - 1) / part;
    const float first = moments.at[c];
    float mean = 0.0, square = 0.0;

    for (uint i = 0; i < parts; i++)
        mean += (moments.at[i * channels + c] - first) * float(min(part, numbers - i * part));
    mean = first + mean / float(numbers);
    for (uint i = 0; i < parts; i++) {
        const float distance = moments.at[i * channels + c] - mean;

        square += moments.at[(parts + i) * channels + c] +
                  distance * distance * float(min(part, numbers - i * part));
    }
    return Moments(mean, square);
}
