/* operator_quantize.c: numbers become integers of 8 bits with a scale and a zero point for the
 * whole tensor, integers become numbers, and the range of numbers is found. Both lie in the same
 * order. */
#include "engine/backends/cpu/program.h"

void quantize_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    const float *x = program_sample(program, node->input[0], slice.first);
    uint8_t *y = program_sample(program, node->output[0], slice.first);

    (void)thread;
    program->device->kernels->quantize(
        x, (slice.end - slice.first) * program_sample_elements(program, node->input[0]),
        1 / node->attributes.quantization.scale, (float)node->attributes.quantization.zero, y);
}

void dequantize_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    const uint8_t *x = program_sample(program, node->input[0], slice.first);
    float *y = program_sample(program, node->output[0], slice.first);

    (void)thread;
    program->device->kernels->dequantize(
        x, (slice.end - slice.first) * program_sample_elements(program, node->input[0]),
        node->attributes.quantization.scale, (float)node->attributes.quantization.zero, y);
}

/* One task widens the range, which is one for all samples. */
static void run_observe(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct graph_node *node = step->node;

    (void)task;
    (void)thread;
    program->device->kernels->widen_range(program_address(program, node->input[0]),
                                          program->graph->batch *
                                              program_sample_elements(program, node->input[0]),
                                          program_address(program, node->input[1]));
}

int observe_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_observe);

    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    step_touch_tensor(program, step, node->input[0], ACCESS_FIRST, false);
    step_touch_tensor(program, step, node->input[1], ACCESS_FIRST, true);
    return 0;
}
