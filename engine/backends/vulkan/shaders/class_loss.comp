#version 460
#extension GL_GOOGLE_include_directive : require
/* class_loss.comp: the focal loss and that of classes in order: of a row the logarithm of the sum
 * of e^logit, the loss, and whether the largest logit is the label's; or, BACKWARD, the gradient by
 * the logits. An invocation has a row. The formulas are those of
 * engine/backends/cpu/kernels/value_loss.c. */
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint ORDINAL = 0;
layout(constant_id = 2) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push
{
    Floats logits;
    Integers label;
    Floats log_sum_exp, result; /* the rows' losses, or the gradient */
    Integers correct;
    Scalars scalars;
    uint rows, classes;
    float gamma;
};

/* log(e^a + e^b) */
float log_add(float a, float b)
{
    const float larger = max(a, b);

    return larger == -INFINITY ? larger : larger + log_1p(exp(min(a, b) - larger));
}

float focal_of(uint row, float total)
{
    const float log_p = min(logits.at[row * classes + uint(label.at[row])] - total, 0.0);

    return -power(-exp_m1(log_p), gamma) * log_p;
}

/* The mean over the places between two classes. A place below the label's class wants the sum above
 * it, another one that below it. */
float ordinal_of(uint row, float total)
{
    const uint begin = row * classes, own = uint(label.at[row]);
    float below = -INFINITY, above = -INFINITY, sum = 0.0;

    for (uint c = 0; c + 1 < classes; c++) {
        below = log_add(below, logits.at[begin + c]);
        sum += c >= own ? total - below : 0.0;
    }
    for (uint c = classes - 1; c > 0; c--) {
        above = log_add(above, logits.at[begin + c]);
        sum += c <= own ? total - above : 0.0;
    }
    return sum / float(classes - 1);
}

void forward(uint row, bool known)
{
    const uint begin = row * classes;
    uint best = 0;
    float sum = 0.0, total;

    for (uint c = 1; c < classes; c++)
        best = logits.at[begin + c] > logits.at[begin + best] ? c : best;
    for (uint c = 0; c < classes; c++)
        sum += exp(logits.at[begin + c] - logits.at[begin + best]);
    total = logits.at[begin + best] + log(sum);
    log_sum_exp.at[row] = total;
    correct.at[row] = int(int(best) == label.at[row]);
    result.at[row] = !known         ? NOT_A_NUMBER
                     : ORDINAL != 0 ? ordinal_of(row, total)
                                    : focal_of(row, total);
}

/* With g = gamma p (1 - p)^(gamma - 1) log p - (1 - p)^gamma: g (one-hot - softmax). */
void focal_slopes(uint row, float scale)
{
    const uint begin = row * classes, own = uint(label.at[row]);
    const float total = log_sum_exp.at[row], log_p = min(logits.at[begin + own] - total, 0.0);
    const float p = exp(log_p), rest = -exp_m1(log_p);
    float g = -power(rest, gamma);

    if (gamma > 0.0 && rest > 0.0)
        g += gamma * p * power(rest, gamma - 1.0) * log_p;
    for (uint c = 0; c < classes; c++)
        result.at[begin + c] = scale * g * ((c == own ? 1.0 : 0.0) -
                                            exp(logits.at[begin + c] - total));
}

void ordinal_slopes(uint row, float scale)
{
    const uint begin = row * classes, own = uint(label.at[row]);
    const float total = log_sum_exp.at[row], each = scale / float(classes - 1);
    float below = -INFINITY, above = -INFINITY;

    for (uint c = 0; c < classes; c++)
        result.at[begin + c] = float(classes - 1) * exp(logits.at[begin + c] - total);
    for (uint c = 0; c + 1 < classes; c++) {
        below = log_add(below, logits.at[begin + c]);
        for (uint j = 0; c >= own && j <= c; j++)
            result.at[begin + j] -= exp(logits.at[begin + j] - below);
    }
    for (uint c = classes - 1; c > 0; c--) {
        above = log_add(above, logits.at[begin + c]);
        for (uint j = c; c <= own && j < classes; j++)
            result.at[begin + j] -= exp(logits.at[begin + j] - above);
    }
    for (uint c = 0; c < classes; c++)
        result.at[begin + c] *= each;
}

void backward(uint row, bool known)
{
    const float scale = scalars.loss_factor / float(rows);

    if (!known)
        for (uint c = 0; c < classes; c++)
            result.at[row * classes + c] = NOT_A_NUMBER;
    else if (ORDINAL != 0)
        ordinal_slopes(row, scale);
    else
        focal_slopes(row, scale);
}

void main()
{
    FOR_EACH_ELEMENT(row, rows)
    {
        const bool known = label.at[row] >= 0 && label.at[row] < int(classes);

        if (BACKWARD != 0)
            backward(row, known);
        else
            forward(row, known);
    }
}
