/* recurrent.cu: LSTM and GRU: the gates of one step behind a product, and the operands of the
 * gradient by the weights. */
#include "engine/backends/cuda/kernels/recurrent.cuh"

/* ---- a launch for each step ------------------------------------------------------------------ */

__global__ void recurrent_step_kernel(struct cuda_recurrent r, struct cuda_recurrent_step s)
{
    const int64_t gates = gates_of(r);

    FOR_EACH_ELEMENT(i, r.batch * r.hidden)
    {
        const struct unit_place p = {
            .unit = i % r.hidden, .sample = i / r.hidden, .time = time_of(r, s.number, false)};
        const bool inside = p.time < length_of(r, p.sample), first = s.number == 0;
        float input[GATES] = {}, sums[GATES] = {}, bias[GATES];
        float carried = first ? carried_at(r, p, carried_first(r)) : s.carried[i];
        float state = first ? carried_at(r, p, r.h0) : array_load(s.operand, i);

        if (inside)
            load_input(r, p, input);
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            bias[g] = g < gates ? r.bias[g * r.hidden + p.unit] : 0.0f;
            if ((!first || r.h0) && g < gates)
                sums[g] = s.sums[(p.sample * gates + g) * r.hidden + p.unit];
        }
        state = unit_forward(r, p, inside, input, sums, bias, state, &carried);
        s.carried[i] = carried;
        array_store(s.operand, i, state);
        if (s.number + 1 == r.steps)
            leave(r, p, state, carried);
    }
}

cudaError_t cuda_recurrent_step(const struct cuda_recurrent *recurrent,
                                const struct cuda_recurrent_step *step, cudaStream_t stream)
{
    recurrent_step_kernel<<<blocks_for(recurrent->batch * recurrent->hidden), BLOCK, 0, stream>>>(
        *recurrent, *step);
    return cudaGetLastError();
}

__global__ void recurrent_step_backward_kernel(struct cuda_recurrent r,
                                               struct cuda_recurrent_step s)
{
    const int64_t gates = gates_of(r);

    FOR_EACH_ELEMENT(i, r.batch * r.hidden)
    {
        const struct unit_place p = {
            .unit = i % r.hidden, .sample = i / r.hidden, .time = time_of(r, s.number, true)};
        const int64_t length = length_of(r, p.sample);
        const bool inside = p.time < length;
        float carried = s.number > 0 ? s.carried[i] : 0.0f, product[GATES];
        struct unit_saved saved = {};

        if (inside)
            saved = load_saved(r, p, length);
        unit_backward(r, p, inside, saved, s.number > 0 ? s.sums[i] : 0.0f, &carried, product);
        s.carried[i] = carried;
#pragma unroll
        for (int g = 0; g < GATES; g++)
            if (g < gates)
                array_store(s.operand, (p.sample * gates + g) * r.hidden + p.unit, product[g]);
    }
}

cudaError_t cuda_recurrent_step_backward(const struct cuda_recurrent *recurrent,
                                         const struct cuda_recurrent_step *step,
                                         cudaStream_t stream)
{
    recurrent_step_backward_kernel<<<blocks_for(recurrent->batch * recurrent->hidden), BLOCK, 0,
                                     stream>>>(*recurrent, *step);
    return cudaGetLastError();
}

/* ---- operands of the gradient by the weights ------------------------------------------------- */

__global__ void recurrent_previous_kernel(struct cuda_recurrent r, struct cuda_array y,
                                          struct cuda_array previous)
{
    FOR_EACH_ELEMENT(i, r.batch * r.steps * r.hidden)
    {
        const int64_t row = i / r.hidden;
        const struct unit_place p = {
            .unit = i % r.hidden, .sample = row / r.steps, .time = row % r.steps};
        const bool first = p.time == (r.reverse ? r.steps - 1 : 0);

        array_store(previous, i,
                    first ? carried_at(r, p, r.h0)
                          : array_load(y, i + (r.reverse ? r.hidden : -r.hidden)));
    }
}

cudaError_t cuda_recurrent_previous(const struct cuda_recurrent *recurrent, struct cuda_array y,
                                    struct cuda_array previous, cudaStream_t stream)
{
    const int64_t count = recurrent->batch * recurrent->steps * recurrent->hidden;

    recurrent_previous_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*recurrent, y, previous);
    return cudaGetLastError();
}

__global__ void recurrent_product_gradient_kernel(struct cuda_recurrent r, struct cuda_array gates,
                                                  struct cuda_array dinput,
                                                  struct cuda_array result)
{
    const int64_t width = gates_of(r) * r.hidden;

    FOR_EACH_ELEMENT(i, r.batch * r.steps * width)
    {
        const int64_t row = i / width, column = i % width;
        float value = array_load(dinput, i);

        if (r.cell == RECURRENT_GRU && column >= 2 * r.hidden)
            value *= array_load(gates, row * GATES * r.hidden + column - 2 * r.hidden);
        array_store(result, i, value);
    }
}

cudaError_t cuda_recurrent_product_gradient(const struct cuda_recurrent *recurrent,
                                            struct cuda_array gates, struct cuda_array dinput,
                                            struct cuda_array result, cudaStream_t stream)
{
    const int64_t count =
        recurrent->batch * recurrent->steps * gates_of(*recurrent) * recurrent->hidden;

    recurrent_product_gradient_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*recurrent, gates,
                                                                               dinput, result);
    return cudaGetLastError();
}
