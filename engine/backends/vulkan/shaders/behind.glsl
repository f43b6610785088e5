/* behind.glsl: the gradient by a batch norm's result, where that of an activation, or of a sum and
 * an activation, is computed along with it. The shader declares dy, `second`, and the constants
 * BEHIND (BEHIND_...) and ACTIVATION (1 + its number). */
#include "activations.glsl"

/* The gradient that comes in at a place. */
float incoming_at(uint place)
{
    return GET(dy, place) + ((BEHIND & BEHIND_SECOND) != 0 ? GET(second, place) : 0.0);
}

/* The gradient by the operand of the activation. */
float behind_operand(float gradient, float operand)
{
    return (BEHIND & BEHIND_OPERAND) != 0 ? activate_backward(ACTIVATION - 1, gradient, operand)
                                          : gradient;
}
