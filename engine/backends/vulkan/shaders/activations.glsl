/* activations.glsl: activations and their derivatives. The numbers are those of enum
 * activation_kind (engine/graph/graph.h), which elementwise.c asserts. */
#include "functions.glsl"

const uint RELU = 0, SILU = 1, GELU = 2, TANH = 3, SIGMOID = 4, HARDSWISH = 5, HARDSIGMOID = 6,
           RELU6 = 7, GELU_TANH = 8, MISH = 9, SOFTPLUS = 10;

float sigmoid(float x)
{
    return 1.0 / (1.0 + exp(-x));
}

float hard_sigmoid(float x)
{
    return min(max(x + 3.0, 0.0), 6.0) * (1.0 / 6.0);
}

/* GELU with tanh is x sigmoid of this. */
float gelu_tanh_argument(float x)
{
    return 1.59576912160573071 * x * (1.0 + 0.044715 * x * x);
}

float activate(uint kind, float x)
{
    switch (kind) {
    case RELU: /* this form keeps a NaN, as PyTorch does */
        return x < 0.0 ? 0.0 : x;
    case SILU:
        return x * sigmoid(x);
    case GELU:
        return x * normal_distribution(x, normal_exponential(x));
    case TANH:
        return hyperbolic_tangent(x);
    case SIGMOID:
        return sigmoid(x);
    case HARDSWISH:
        return x * hard_sigmoid(x);
    case RELU6:
        return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x;
    case GELU_TANH:
        return x * sigmoid(gelu_tanh_argument(x));
    case MISH: {
        const float e = exp(min(x, 20.0)), n = e * (e + 2.0);

        return x * n / (n + 2.0);
    }
    case SOFTPLUS:
        return (x < 0.0 ? 0.0 : x) + log_1p(exp(-abs(x)));
    default:
        return hard_sigmoid(x);
    }
}

/* With an activation that a node computes along with its own work: 1 + its number; 0: none. */
float activated(uint activation, float x)
{
    return activation != 0 ? activate(activation - 1, x) : x;
}

/* Given what the operator saves: the result, or the operand (OP_ACTIVATION_BACKWARD says which). */
float activate_backward(uint kind, float dy, float s)
{
    switch (kind) {
    case RELU:
        return s > 0.0 ? dy : 0.0;
    case SILU: {
        const float g = sigmoid(s);

        return dy * g * (1.0 + s * (1.0 - g));
    }
    case GELU: {
        const float e = normal_exponential(s);

        return dy * (normal_distribution(s, e) + s * 0.39894228040143267794 * e);
    }
    case TANH:
        return dy * (1.0 - s * s);
    case SIGMOID:
        return dy * s * (1.0 - s);
    case HARDSWISH:
        return s <= -3.0 ? 0.0 : s >= 3.0 ? dy : dy * (s * (1.0 / 3.0) + 0.5);
    case RELU6:
        return s > 0.0 && s < 6.0 ? dy : 0.0;
    case GELU_TANH: {
        const float c = min(max(s, -20.0), 20.0), g = sigmoid(gelu_tanh_argument(c));

        return dy *
               (g + c * g * (1.0 - g) * 1.59576912160573071 * (1.0 + 3.0 * 0.044715 * c * c));
    }
    case MISH: {
        const float c = min(s, 20.0), e = exp(c), n = e * (e + 2.0), inverse = 1.0 / (n + 2.0);

        return dy * (n * inverse + c * 4.0 * e * (1.0 + e) * inverse * inverse);
    }
    case SOFTPLUS:
        return dy * sigmoid(s);
    default:
        return s > 0.0 && s < 1.0 ? dy * (1.0 / 6.0) : 0.0;
    }
}
