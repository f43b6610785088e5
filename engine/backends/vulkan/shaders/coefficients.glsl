/* coefficients.glsl: the coefficients of a group's update, which the host has computed
 * (engine/backends/update_rule.h, whose numbers these are; update.c asserts them). */
layout(constant_id = 3) const uint ROUNDING = ROUNDING_NONE; /* of parameters */

float coefficient_rate, coefficient_shrink, coefficient_decay, coefficient_keep, coefficient_take,
    coefficient_keep2, coefficient_take2, coefficient_epsilon, coefficient_root, coefficient_own;
bool coefficient_nesterov, coefficient_momentum;

void load_coefficients(Scalars scalars, uint group)
{
    coefficient_rate = scalars.group[group];
    coefficient_shrink = scalars.group[group + 1];
    coefficient_decay = scalars.group[group + 2];
    coefficient_keep = scalars.group[group + 3];
    coefficient_take = scalars.group[group + 4];
    coefficient_keep2 = scalars.group[group + 5];
    coefficient_take2 = scalars.group[group + 6];
    coefficient_epsilon = scalars.group[group + 7];
    coefficient_root = scalars.group[group + 8];
    coefficient_own = scalars.group[group + 9];
    coefficient_nesterov = scalars.group[group + 10] != 0.0;
    coefficient_momentum = scalars.group[group + 11] != 0.0;
}

/* Limits a gradient to the step's limits; a NaN stays. */
float clipped(float g, float limit)
{
    const float most = limit < g ? limit : g;

    return -limit > most ? -limit : most;
}

/* A parameter as the run holds it. */
float rounded_parameter(float w)
{
    return ROUNDING == ROUNDING_NONE
               ? w
               : from_16_bits(to_16_bits(w, ROUNDING == ROUNDING_BFLOAT16),
                              ROUNDING == ROUNDING_BFLOAT16);
}
