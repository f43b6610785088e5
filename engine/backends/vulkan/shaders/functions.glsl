/* functions.glsl: functions that GLSL lacks. */

/* log(1 + x) and e^x - 1 without cancellation, by what rounding did to 1 + x and e^x (Kahan). */
float log_1p(float x)
{
    const float u = 1.0 + x;

    return u == 1.0 ? x : is_finite(u) ? log(u) * x / (u - 1.0) : u;
}

float exp_m1(float x)
{
    const float u = exp(x);

    return u == 1.0 ? x : u - 1.0 == -1.0 ? -1.0 : is_finite(u) ? (u - 1.0) * x / log(u) : u;
}

/* e^(-x^2 / 2), of which GELU and its derivative make the normal distribution and density. */
float normal_exponential(float x)
{
    return exp(-0.5 * x * x);
}

/* The tail is a polynomial times the exponential (Abramowitz and Stegun, 7.1.26), with an error of
 * 7.5e-8. */
float normal_tail(float absolute, float exponential)
{
    const float t = 1.0 / (1.0 + 0.3275911 * 0.70710678118654752440 * absolute);
    const float polynomial =
        ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t +
         0.254829592) *
        t;

    return 0.5 * polynomial * exponential;
}

float normal_distribution(float x, float exponential)
{
    const float tail = normal_tail(abs(x), exponential);

    return x < 0.0 ? tail : 1.0 - tail;
}

/* erf(x) = 2 Phi(sqrt(2) x) - 1; near 0 its series, where that difference cancels. */
float error_function(float x)
{
    const float s = 1.41421356237309504880 * x, q = x * x;

    if (abs(x) < 0.5)
        return 1.12837916709551257390 * x *
               (1.0 - q * (1.0 / 3.0 -
                           q * (1.0 / 10.0 -
                                q * (1.0 / 42.0 -
                                     q * (1.0 / 216.0 - q * (1.0 / 1320.0 - q / 9360.0))))));
    return sign(x) * (1.0 - 2.0 * normal_tail(abs(s), normal_exponential(s)));
}

/* tanh() of some drivers overflows. */
float hyperbolic_tangent(float x)
{
    const float e = exp_m1(-2.0 * abs(x));

    return sign(x) * (-e / (2.0 + e));
}

/* x to the power of y, where x may be negative if y is a whole number. */
float power(float x, float y)
{
    const bool whole = floor(y) == y, odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;

    if (y == 0.0)
        return 1.0;
    if (x == 0.0)
        return y > 0.0 ? 0.0 : INFINITY;
    if (x < 0.0 && !whole)
        return NOT_A_NUMBER;
    return (x < 0.0 && odd ? -1.0 : 1.0) * (y == 2.0 ? x * x : y == 1.0 ? abs(x) : pow(abs(x), y));
}
