#version 460
#extension GL_GOOGLE_include_directive : require
/* pointwise.comp: y = op(a, b). Element i of the result depends on element i of the operands alone,
 * so the result may overwrite an operand. Where operands have 16 bits, elements go by pairs
 * (PAIRS): `count` is how many pairs there are then. */
#include "common.glsl"
#include "activations.glsl"

layout(constant_id = 1) const uint OPERATION = 0; /* POINTWISE_... */
layout(constant_id = 2) const uint KIND = 0;      /* which activation, or function */
layout(constant_id = 3) const uint HAS_SECOND = 0;
layout(constant_id = 4) const uint PAIRS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats a, b, y;
    uint count;
    float first, second; /* settings of the operation */
};
TYPED(a, 0) TYPED(b, 1) TYPED(y, 2)

/* The numbers are those of enum number_function (engine/graph/graph.h). */
const uint EXP = 0, LOG = 1, SQRT = 2, RECIPROCAL = 3, SIN = 4, COS = 5, ERF = 6;

float function_of(float x)
{
    switch (KIND) {
    case EXP:
        return exp(x);
    case LOG:
        return log(x);
    case SQRT:
        return sqrt(x);
    case RECIPROCAL:
        return 1.0 / x;
    case SIN:
        return sin(x);
    case COS:
        return cos(x);
    case ERF:
        return error_function(x);
    default:
        return power(x, first);
    }
}

float function_backward(float dy, float x)
{
    switch (KIND) {
    case EXP:
        return dy * exp(x);
    case LOG:
        return dy / x;
    case SQRT:
        return dy * 0.5 / sqrt(x);
    case RECIPROCAL:
        return -dy / (x * x);
    case SIN:
        return dy * cos(x);
    case COS:
        return -dy * sin(x);
    case ERF:
        return dy * 1.12837916709551257390 * exp(-x * x); /* 2 / sqrt(pi) */
    default:
        return first == 0.0 ? 0.0 : dy * first * power(x, first - 1.0);
    }
}

float operation(float x, float other)
{
    switch (OPERATION) {
    case POINTWISE_ACTIVATION:
        return activate(KIND, x);
    case POINTWISE_ACTIVATION_BACKWARD:
        return activate_backward(KIND, x, other);
    case POINTWISE_ADD:
        return x + other;
    case POINTWISE_AFFINE:
        return first * x + second;
    case POINTWISE_LEAKY_RELU:
        return x > 0.0 ? x : first * x;
    case POINTWISE_LEAKY_RELU_BACKWARD:
        return other > 0.0 ? x : first * x;
    case POINTWISE_ELU:
        return x > 0.0 ? x : first * exp_m1(x);
    case POINTWISE_ELU_BACKWARD:
        return other > 0.0 ? x : first * x * exp(other);
    case POINTWISE_FUNCTION:
        return function_of(x);
    case POINTWISE_COPY:
        return x;
    default:
        return function_backward(x, other);
    }
}

void main()
{
#ifdef HALVES
    if (PAIRS != 0) {
        FOR_EACH_ELEMENT(i, count)
        {
            const vec2 x = GET_PAIR(a, i), other = HAS_SECOND != 0 ? GET_PAIR(b, i) : vec2(0.0);

            PUT_PAIR(y, i, vec2(operation(x.x, other.x), operation(x.y, other.y)));
        }
        return;
    }
#endif
    FOR_EACH_ELEMENT(i, count)
    PUT(y, i, operation(GET(a, i), HAS_SECOND != 0 ? GET(b, i) : 0.0));
}
