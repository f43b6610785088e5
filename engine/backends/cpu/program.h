/* program.h: shared by the files of the CPU backend: the device, a program, and the functions by
 * which operators add steps to a program.
 *
 * The number of tasks that share a step's work is a pure function of the graph, so results do not
 * depend on the number of threads. Task t of a step works on slice t of the batch, on part t of a
 * parameter, or (only t = 0) on everything. There are at most as many slices as samples. Steps that
 * can also divide a sample may have more tasks: program->parts.
 *
 * Each thread runs the same tasks in all steps. A barrier separates two steps only if a task of the
 * second accesses memory that another task of the first accessed, and one of them writes.
 * schedule.c works that out from the accesses that steps declare. */
#pragma once

#include "base/alignment.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/convolution_method.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/onednn.h"
#include "engine/backends/cpu/threads.h"
#include "engine/graph/fusion.h"

#include <stdatomic.h>

enum { TASKS_MAX = 8, STEP_ACCESSES_MAX = 20, PART_GRAIN = 16 };
/* slices of at least this many samples may differ in size by one */
enum { SLICE_SAMPLES_EVEN = 4 };

/* The memory layout of a program's images. */
enum image_order {
    IMAGES_BY_GRAPH,      /* program.c decides by the graph */
    IMAGES_IN_BLOCKS,     /* nChw16c or nChw8c where channels fill blocks, else NCHW */
    IMAGES_CHANNELS_LAST, /* NHWC */
};

struct operator_table;

struct backend_device {
    const struct operator_table *operators;
    int threads;
    int tasks;       /* of every program; 0: by its work. device_divide() */
    int image_block; /* channels of a block of images in blocks: 16 with AVX-512, else 8 */
    char direct_convolutions[CONVOLUTION_CHOICES_MAX]; /* device_choose_convolutions() */
    enum image_order image_order; /* of every program; only tests change it from IMAGES_BY_GRAPH */
    const struct kernels *kernels;
    struct thread_team *team;
    struct onednn *onednn;
    struct profile_recorder *recorder; /* lent; NULL: runs are not recorded */
    unsigned compute_types;            /* set of 1 << enum tensor_type */
    unsigned native_types;             /* subset of compute_types that is not emulated */
    bool amx;                          /* tiles are multiplied by AMX */
    unsigned writes;                   /* how often parameters were written: tensor_write() */
    enum int8_instructions int8;       /* what multiplies integers of 8 bits */
    bool tiles;                        /* images lie in tiles where the compute type is bfloat16 */
    size_t cache_bytes;                /* of a core's second-level cache */
};

struct backend_buffer {
    char *start, *mapping; /* start lies within the mapping of `mapped` bytes */
    size_t bytes, mapped;
};

/* How the bytes of an access are divided among the tasks. */
enum access_pattern {
    ACCESS_SLICE, /* rows are samples; task t touches those of its slice */
    ACCESS_PART,  /* rows are divided by program_part() */
    ACCESS_TASK,  /* task t touches row t */
    ACCESS_WHOLE, /* every task touches all rows */
    ACCESS_FIRST  /* task 0 touches all rows, the others none */
};

struct access {
    const char *start;
    size_t row_bytes;
    int64_t rows;
    enum access_pattern pattern;
    bool write;
    bool squares; /* happens only in runs that need the gradients' squares */
};

struct step;
typedef void step_function(struct backend_program *program, const struct step *step, int task,
                           int thread);

struct step {
    step_function *run;
    const struct graph_node *node;
    void *state;     /* of the node: nodes[].state */
    char *workspace; /* of the node */
    int variant;     /* the operator's own */
    int tasks;       /* program->tasks, program->parts or threads: step_divide() */
    bool divides_samples;
    bool first_task_only;
    /* runs only if the squares of the gradients are needed: to clip or to unscale gradients */
    bool squares;
    int access_count;
    struct access access[STEP_ACCESSES_MAX];
};

/* Steps between two barriers. */
struct segment {
    int first, end;  /* steps */
    int tasks;       /* of each of them */
    unsigned phases; /* enum program_phases of its steps */
};

/* The decisions of program_prepare about a node. */
struct node_plan {
    const struct operator_functions *functions;
    bool absorbed; /* its work is done by a neighbour (fusion.c) */
    /* activation applied to the result (enum activation_kind), or -1. Batch norm backward: the
     * activation that it differentiates first */
    int fused;
    /* tensors, -1 where absent; of batch norm: */
    int32_t addend; /* is added to the result before the activation */
    /* and of batch norm backward with `fused`: */
    int32_t incoming[2]; /* gradients behind the activation, in place of input[1]; their sum */
    int32_t saved; /* ReLU's result: where that is 0, so is the gradient; input[1] is then stored */
    /* without `saved`: batch norm's bias, with which the activation's input is recomputed from x */
    int32_t bias;
    /* of a recurrent layer: the linear layer in front of it, a node, whose product it computes */
    int32_t input_layer;
    void *state; /* of the operator; released by its release() */
};

/* A call that reads `offset` bytes behind the beginning of each batch, whose address changes. */
struct source_call {
    struct onednn_call *call; /* owned by its operator */
    size_t offset;
};

struct backend_program {
    struct backend_device *device;
    const struct graph *graph;
    int tasks; /* slices of the batch */
    int parts; /* at least `tasks`: the tasks of steps that divide more than the batch */
    /* images lie as bfloat16 in tiles (tiles.c); the next two members do not matter then */
    bool tiled;
    bool channels_last; /* images are NHWC, else in blocks of channels or NCHW */
    bool plain_samples; /* only the samples stay NCHW, as the host has them */

    int32_t *root;                 /* per tensor: whose storage it uses */
    int32_t *alias;                /* the same as memory_request wants it: -1 for roots */
    size_t *tensor_bytes;          /* per tensor */
    size_t *workspace;             /* per node */
    size_t scratch_bytes;          /* per thread; each step uses it anew */
    struct onednn_layout **layout; /* per parameter that oneDNN lays out, else NULL; owned */
    bool *compact;                 /* per tensor: bfloat16, and lies so in memory */
    struct node_plan *nodes;
    int32_t *node_step; /* per node: the node with which it runs */

    char **address;                   /* per root, after bind */
    char **node_address;              /* per node: its workspace */
    char *scratch;                    /* of thread 0 */
    const void *samples;              /* in PyTorch's layout, if `input` has storage of its own */
    struct source_call *source_calls; /* calls that read `input` in the host's memory */
    int source_call_count;

    struct step *steps;
    int step_count, step_capacity;
    /* [1]: for runs that need the squares of the gradients, which takes more barriers */
    struct segment *segments[2];
    int segment_count[2];

    unsigned refreshed; /* device->writes when nodes were last refreshed */

    /* of the current run */
    unsigned phases;
    struct step_scalars scalars;
    double loss[TASKS_MAX];
    int64_t labels[TASKS_MAX]; /* that count, of the task's slice */
    int64_t correct[TASKS_MAX];
    double gradient_squares[TASKS_MAX];
    _Atomic int failure;

    bool has_loss;
    struct step_metrics metrics;
};

/* The functions of one operator, which program_prepare, program_bind and program_free call for its
 * nodes; a row of the table in operators.c. */
struct operator_functions {
    int (*prepare)(struct backend_program *program, int32_t node, struct error *error);
    int (*bind)(struct backend_program *program, int32_t node, struct error *error);
    void (*release)(void *state);
    /* is called before a run if parameters were written since the last one; NULL: nothing is made
     * of them beforehand */
    int (*refresh)(struct backend_program *program, int32_t node, struct error *error);
    /* with slices_bind(): the function of the step, and that of the step over images in tiles */
    step_function *run, *run_tiles;
    struct fusion_abilities fuses; /* the fusions that its kernels support */
    bool adds;        /* can add to a gradient that another node has written: graph_node.adds */
    bool elementwise; /* `run` can work on any range of elements, not only on whole samples */
    /* whether the node can work on images in tiles; NULL: never */
    bool (*suits_tiles)(const struct graph *graph, const struct graph_node *node);
};
/* The functions of all operators. device.c hands the table down, so that the files below the
 * operators do not depend on them. */
struct operator_table {
    struct operator_functions by_operator[OP_COUNT];
    struct operator_functions muon; /* of an OP_OPTIMIZER node of Muon's */
    struct operator_functions lamb; /* likewise */
};
extern const struct operator_table cpu_operators; /* operators.c */
/* The functions of a node's operator. A convolution of single pixels (1x1 images, kernel 1x1) is a
 * linear layer, and so are its gradients. */
const struct operator_functions *operator_functions_of(const struct operator_table *table,
                                                       const struct graph *graph,
                                                       const struct graph_node *node);

/* Fuses nodes: sets absorbed, fused, the tensors of node_plan and node_step, and drops the storage
 * of tensors that are no longer stored. The first step of prepare. */
int program_fuse(struct backend_program *program, struct error *error);

int linear_prepare(struct backend_program *, int32_t, struct error *);
int linear_bind(struct backend_program *, int32_t, struct error *);
int linear_backward_weights_bind(struct backend_program *, int32_t, struct error *);
void linear_release(void *);
int linear_int8_prepare(struct backend_program *, int32_t, struct error *);
int linear_int8_bind(struct backend_program *, int32_t, struct error *);
void linear_int8_release(void *);
/* Rows of a linear layer's input and its result. */
struct linear_int8_rows {
    const float *x;
    float *y;
    int64_t x_row, y_row, y_group, y_vector; /* floats from one to the next: struct int8_linear */
    int64_t count;
};
/* Computes all columns of these rows of `node`, whose weights are packed so. Another node may have
 * absorbed it. It needs so much scratch for `depth` features. */
void linear_int8_multiply(struct backend_program *program, int32_t node,
                          const struct int8_packing *packing, const struct linear_int8_rows *rows,
                          void *scratch);
size_t linear_int8_scratch_bytes(int64_t depth);
int linear_refresh(struct backend_program *, int32_t, struct error *);
int linear_bytes_prepare(struct backend_program *, int32_t, struct error *);
int linear_bytes_bind(struct backend_program *, int32_t, struct error *);
int linear_bytes_refresh(struct backend_program *, int32_t, struct error *);
void linear_bytes_release(void *);
int convolution_int8_prepare(struct backend_program *, int32_t, struct error *);
int convolution_int8_bind(struct backend_program *, int32_t, struct error *);
int convolution_int8_refresh(struct backend_program *, int32_t, struct error *);
void convolution_int8_release(void *);
int observe_bind(struct backend_program *, int32_t, struct error *);
step_function quantize_run, dequantize_run;
int fake_quantize_prepare(struct backend_program *, int32_t, struct error *);
int fake_quantize_bind(struct backend_program *, int32_t, struct error *);
int fake_quantize_rows_bind(struct backend_program *, int32_t, struct error *);
step_function fake_quantize_backward_run;
/* How the weights, an int8 tensor, lie in memory. false: the tensor is none. */
bool program_int8_packing(const struct backend_program *program, int32_t tensor,
                          struct int8_packing *packing);
/* Whether oneDNN can compute the convolution with operands in bfloat16. */
bool convolution_takes_bfloat16(struct backend_program *program, int32_t index);
int convolution_prepare(struct backend_program *, int32_t, struct error *);
int convolution_bind(struct backend_program *, int32_t, struct error *);
/* The name of the implementation: "kernel" or "planes" for our own, or oneDNN's. After prepare, for
 * a node that convolution_prepare() did not pass on to another operator. */
void convolution_method(const struct backend_program *program, int32_t node,
                        char method[NODE_METHOD_MAX]);
void convolution_release(void *);
int winograd_prepare(struct backend_program *, int32_t, struct error *);
int winograd_bind(struct backend_program *, int32_t, struct error *);
int tile_convolution_prepare(struct backend_program *, int32_t, struct error *);
int tile_convolution_bind(struct backend_program *, int32_t, struct error *);
int product_prepare(struct backend_program *, int32_t, struct error *);
int product_bind(struct backend_program *, int32_t, struct error *);
void product_release(void *);
/* Of a pool over the image x that gives y, or of its gradient. */
struct pool_shape program_pool_shape(const struct backend_program *program,
                                     const struct graph_node *node, int32_t x, int32_t y);
int batch_norm_prepare(struct backend_program *, int32_t, struct error *);
int batch_norm_bind(struct backend_program *, int32_t, struct error *);
int batch_norm_apply_bind(struct backend_program *, int32_t, struct error *);
int batch_norm_frozen_backward_bind(struct backend_program *, int32_t, struct error *);
int batch_norm_backward_bind(struct backend_program *, int32_t, struct error *);
int cross_entropy_bind(struct backend_program *, int32_t, struct error *);
int triplet_loss_prepare(struct backend_program *, int32_t, struct error *);
int triplet_loss_bind(struct backend_program *, int32_t, struct error *);
int attention_prepare(struct backend_program *, int32_t, struct error *);
int attention_bind(struct backend_program *, int32_t, struct error *);
int rotary_prepare(struct backend_program *, int32_t, struct error *);
void rotary_release(void *);
step_function rotary_run, add_positions_run, image_tokens_run, prepend_token_run;
int add_positions_backward_bind(struct backend_program *, int32_t, struct error *);
int prepend_token_backward_bind(struct backend_program *, int32_t, struct error *);
/* Layer norm and RMS norm. */
int row_norm_bind(struct backend_program *, int32_t, struct error *);
int row_norm_backward_prepare(struct backend_program *, int32_t, struct error *);
int row_norm_backward_bind(struct backend_program *, int32_t, struct error *);
/* Binds an operator that has one step, `run` of its functions, in which every task works only on
 * its slice of the batch. */
int slices_bind(struct backend_program *, int32_t, struct error *);
int carry_state_bind(struct backend_program *, int32_t, struct error *);
int channel_dropout_prepare(struct backend_program *, int32_t, struct error *);
step_function channel_dropout_run;
int group_norm_prepare(struct backend_program *, int32_t, struct error *);
int group_norm_backward_bind(struct backend_program *, int32_t, struct error *);
int channel_bias_backward_bind(struct backend_program *, int32_t, struct error *);
step_function value_loss_run, value_loss_backward_run, focal_loss_run, focal_loss_backward_run;
step_function ordinal_loss_run, ordinal_loss_backward_run;
step_function triplet_loss_run, triplet_loss_backward_run;
step_function group_norm_run, channel_bias_run, resize_run, resize_backward_run, adaptive_max_run,
    adaptive_max_backward_run, adaptive_average_run, adaptive_average_backward_run;
step_function pointwise_run, dropout_run, channel_scale_run, channel_scale_backward_run,
    reshape_run, max_pool_run, max_pool_backward_run, average_pool_run, average_pool_backward_run,
    cross_entropy_run, cross_entropy_backward_run, mse_run, mse_backward_run, head_losses_run,
    head_losses_backward_run, sequence_lengths_run, window_lengths_run, mask_steps_run,
    last_step_run, last_step_backward_run, mean_over_time_run, mean_over_time_backward_run,
    token_image_run, max_over_time_run, max_over_time_backward_run, concatenate_run, split_run,
    both_strands_run;
step_function slice_run, slice_backward_run, permute_run, broadcast_run,
    broadcast_backward_first_run, softmax_run, softmax_backward_run, batch_product_run, take_run,
    axis_sum_run, axis_sum_backward_run;
int take_backward_bind(struct backend_program *, int32_t, struct error *);
int broadcast_backward_second_bind(struct backend_program *, int32_t, struct error *);
int causal_conv_bind(struct backend_program *, int32_t, struct error *);
int selective_scan_bind(struct backend_program *, int32_t, struct error *);
int causal_conv_backward_prepare(struct backend_program *, int32_t, struct error *);
int causal_conv_backward_bind(struct backend_program *, int32_t, struct error *);
int selective_scan_prepare(struct backend_program *, int32_t, struct error *);
int selective_scan_backward_bind(struct backend_program *, int32_t, struct error *);
int image_tokens_prepare(struct backend_program *, int32_t, struct error *);
int reshape_prepare(struct backend_program *, int32_t, struct error *);
int cast_prepare(struct backend_program *, int32_t, struct error *);
int cast_bind(struct backend_program *, int32_t, struct error *);
void cast_release(void *);
int embedding_bind(struct backend_program *, int32_t, struct error *);
int recurrent_prepare(struct backend_program *, int32_t, struct error *);
int recurrent_bind(struct backend_program *, int32_t, struct error *);
void recurrent_release(void *);
int recurrent_weights_prepare(struct backend_program *, int32_t, struct error *);
int recurrent_weights_bind(struct backend_program *, int32_t, struct error *);
void recurrent_weights_release(void *);
int optimizer_bind(struct backend_program *, int32_t, struct error *);
int muon_prepare(struct backend_program *, int32_t, struct error *);
int muon_bind(struct backend_program *, int32_t, struct error *);
void muon_release(void *);
int lamb_prepare(struct backend_program *, int32_t, struct error *);
int lamb_bind(struct backend_program *, int32_t, struct error *);
int moving_average_bind(struct backend_program *, int32_t, struct error *);

/* The vtable's entries of the same names. */
int cpu_program_prepare(struct backend_device *device, const struct graph *graph,
                        const struct backend_program *shared, struct backend_program **program,
                        struct error *error);
void cpu_program_free(struct backend_program *program);
void cpu_program_memory(const struct backend_program *program, struct memory_request *request);
void cpu_program_describe(const struct backend_program *program, int32_t node,
                          struct node_description *description);
int cpu_program_bind(struct backend_program *program, const struct memory_placement *placement,
                     struct backend_buffer *buffer, struct error *error);
int cpu_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                     struct error *error);
int cpu_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                    struct error *error);
int cpu_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                          struct error *error);
int cpu_program_run(struct backend_program *program, unsigned phases,
                    const struct step_scalars *scalars, struct error *error);
bool cpu_program_update_skipped(struct backend_program *program);

/* ---- slices, parts, addresses ---------------------------------------------------------------- */

struct range {
    int64_t first, end;
};

static inline struct range program_slice(const struct backend_program *program, int task)
{
    int64_t batch = program->graph->batch;

    return (struct range){batch * task / program->tasks, batch * (task + 1) / program->tasks};
}

/* Threads that run the program; each takes the same tasks in all steps. */
static inline int program_threads(const struct backend_program *program)
{
    return program->parts < program->device->threads ? program->parts : program->device->threads;
}

/* The first task of the thread in a step with `tasks` tasks. */
static inline int program_first_task(const struct backend_program *program, int tasks, int thread)
{
    int threads = program_threads(program);

    return (thread * tasks + threads - 1) / threads;
}

/* Makes the node's result the storage of its first input, so that the node has nothing to do. */
void program_make_view(struct backend_program *program, int32_t node);
/* Reserves at least `bytes` of scratch for every thread: memory that a step uses while it runs and
 * whose contents no other step reads. Call it in prepare. */
static inline void program_reserve_scratch(struct backend_program *program, size_t bytes)
{
    bytes = align_up(bytes, MEMORY_ALIGNMENT);
    if (bytes > program->scratch_bytes)
        program->scratch_bytes = bytes;
}

/* The scratch of the thread that runs `task`, in a step with program->tasks tasks, or with `tasks`.
 * After prepare. */
void *program_task_scratch(const struct backend_program *program, int task);
void *program_scratch_of(const struct backend_program *program, int tasks, int task);

static inline bool slices_differ(int64_t batch, int parts)
{
    return batch % parts != 0 && batch < SLICE_SAMPLES_EVEN * parts;
}

/* Whether the slices differ much in size, or are fewer than the parts. Steps that also divide
 * samples then use the threads more evenly. */
static inline bool program_slices_differ(const struct backend_program *program)
{
    return slices_differ(program->graph->batch, program->parts);
}

/* Part `task` of `tasks` of `rows`, in multiples of PART_GRAIN rows. */
static inline struct range program_part_of(int64_t rows, int tasks, int task)
{
    int64_t grains = (rows + PART_GRAIN - 1) / PART_GRAIN;
    int64_t first = grains * task / tasks * PART_GRAIN;
    int64_t end = grains * (task + 1) / tasks * PART_GRAIN;

    return (struct range){first, end < rows ? end : rows};
}

/* The same with program->tasks parts. */
static inline struct range program_part(const struct backend_program *program, int64_t rows,
                                        int task)
{
    return program_part_of(rows, program->tasks, task);
}

static inline const struct graph_tensor *program_tensor(const struct backend_program *program,
                                                        int32_t tensor)
{
    return &program->graph->tensors[tensor];
}

/* The `parts` that a program of the graph has. */
int graph_parts(const struct backend_device *device, const struct graph *graph);
/* program_slices_differ() for such a program. */
bool graph_slices_differ(const struct backend_device *device, const struct graph *graph);
/* Whether images of the graph lie channels last. */
bool graph_orders_channels_last(const struct backend_device *device, const struct graph *graph);

/* The tensors of a convolution or of one of its gradients. */
struct convolution_tensors {
    enum onednn_direction direction;
    int32_t x, weights, bias, y; /* tensors, or the gradients by them; bias may be -1 */
};
struct convolution_tensors convolution_tensors(const struct graph_node *node);
/* The method chosen for the node, a convolution or a gradient of one. */
static inline enum convolution_method
program_convolution_method(const struct backend_program *program, const struct graph_node *node)
{
    return convolution_method_of(program->graph, program->device->direct_convolutions, node);
}
/* Whether the node is a convolution that operator_winograd.c can do. In prepare. */
bool winograd_suits(const struct backend_program *program, int32_t node);
/* The same for operator_product.c. */
bool product_suits(const struct backend_program *program, int32_t node);

/* ---- images in tiles (tiles.c, operator_tiles.c) --------------------------------------------- */

/* Whether every operator over images can work on tiles. The graph may be lowered or not yet. */
bool graph_suits_tiles(const struct graph *graph);
bool tiles_suit_graph(const struct operator_table *table, const struct graph *graph);
/* Whether the tensor lies in tiles; images of a single pixel do not. */
bool program_is_tiled(const struct backend_program *program, int32_t tensor);
/* Whether the tensor is that of the rounded samples, which lie unfolded for the first
 * convolution. */
bool program_is_unfolded(const struct backend_program *program, int32_t tensor);
/* Whether the cast needs no work: its images are bfloat16 already, or the convolution rounds the
 * weights itself. */
bool tiles_absorb_cast(const struct backend_program *program, const struct graph_node *node);
struct tile_images program_tile_images(const struct backend_program *program, int32_t tensor,
                                       int64_t samples);
/* Copies between the tensor and float32 in PyTorch's layout. */
void tiles_copy(struct backend_program *program, int32_t tensor, void *canonical, bool write);
size_t tiles_unfolded_bytes(const struct backend_program *program, int32_t tensor);
int tiles_unfold_bind(struct backend_program *program, int32_t node, struct error *error);
/* Steps over images in tiles, and whether a node can be one. */
step_function tiles_add_run, tiles_relu_run, tiles_relu_backward_run, tiles_reshape_run,
    tiles_max_pool_run, tiles_max_pool_backward_run, tiles_average_run, tiles_average_backward_run;
bool tiles_suit_all(const struct graph *, const struct graph_node *);
bool tiles_suit_images(const struct graph *, const struct graph_node *);
bool tiles_suit_relu(const struct graph *, const struct graph_node *);
bool tiles_suit_convolution(const struct graph *, const struct graph_node *);
bool tiles_suit_average(const struct graph *, const struct graph_node *); /* of a whole image */

/* Whether a layer of so many units multiplies its state by AMX in bfloat16. */
bool recurrent_uses_amx(const struct backend_program *program, int64_t units);
/* Whether the gradient of its weights is a product in bfloat16. */
bool recurrent_uses_bfloat16(const struct backend_program *program, int64_t units);

/* Where the tensor begins. */
static inline void *program_address(const struct backend_program *program, int32_t tensor)
{
    return program->address[program->root[tensor]];
}

/* Bytes of an element in memory: 4 if a rounded number is stored as float32. */
static inline size_t program_element_bytes(const struct backend_program *program, int32_t tensor)
{
    enum tensor_type type = program->graph->tensors[tensor].type;
    bool low = type == TENSOR_BFLOAT16 || type == TENSOR_FLOAT16;

    if (program_is_tiled(program, tensor) && type != TENSOR_UINT8)
        return sizeof(uint16_t);
    return low && !program->compact[tensor] ? sizeof(float) : tensor_type_bytes(type);
}

/* Whether the node, in the present run, adds to the gradient that is its output `number`. */
static inline bool program_accumulates(const struct backend_program *program,
                                       const struct graph_node *node, int number)
{
    return program->scalars.accumulate || node->adds >> number & 1;
}

/* Whether the node, in the present run, adds to that gradient. */
static inline bool program_adds_to(const struct backend_program *program,
                                   const struct graph_node *node, int32_t gradient)
{
    int number = 0;

    while (number < node->output_count && node->output[number] != gradient)
        number++;
    return program_accumulates(program, node, number);
}

/* Elements of one sample of a batched tensor. */
static inline int64_t program_sample_elements(const struct backend_program *program, int32_t tensor)
{
    return graph_shape_elements(&program->graph->tensors[tensor].shape) / program->graph->batch;
}

/* Where sample `sample` of a batched tensor begins. */
void *program_sample(const struct backend_program *program, int32_t tensor, int64_t sample);

/* The layout of images (rank 4), sequences (rank 3) or rows (rank 2) of `samples` samples. */
struct image_layout program_image_layout(const struct backend_program *program, int32_t tensor,
                                         int64_t samples);

/* Whether the tensor is not in PyTorch's order, but has channels of a pixel side by side. */
bool program_interleaves_channels(const struct backend_program *program, int32_t tensor);

/* oneDNN's layout of a parameter, its gradient and its states; NULL: it is PyTorch's. */
const struct onednn_layout *program_parameter_layout(const struct backend_program *program,
                                                     int32_t tensor);

/* Gives the parameter (or that of the gradient) the layout, unless it has one. 0 or -ENOMEM. */
int program_choose_layout(struct backend_program *program, int32_t tensor,
                          const struct onednn_layout *layout, struct error *error);

/* The rows by which a parameter, its gradient and its states are divided into parts, and the
 * elements of each. A tensor that oneDNN lays out counts elements; else its first extent. */
void program_parameter_rows(const struct backend_program *program, int32_t tensor, int64_t *rows,
                            int64_t *row_elements);

/* Whether the present run skips its update: there is a loss scale, and a gradient is not finite. */
/* After an update: what graph->rounds_parameters asks for. */
void program_round_parameter(const struct backend_program *program, float *values, int64_t count);
bool program_skips_update(const struct backend_program *program);

/* Keeps a failure of oneDNN within a step; the run reports it at its end. */
static inline void program_record(struct backend_program *program, int result)
{
    if (result)
        atomic_store_explicit(&program->failure, result, memory_order_relaxed);
}

/* The scalars for an update with the group's settings in the present step. */
struct optimizer_scalars optimizer_scalars(const struct backend_program *program,
                                           const struct optimizer_group *group);
/* Adds the steps that sum the squares of all gradients, if `node` is the first update. */
int optimizer_squares_bind(struct backend_program *program, int32_t node);

/* ---- adding steps ---------------------------------------------------------------------------- */

/* NULL: out of memory. The pointer is valid until the next step is added. */
struct step *program_add_step(struct backend_program *program, int32_t node, step_function *run);
/* Gives the step program->parts tasks; each of its accesses by slice is then one of all slices.
 * Call it before accesses are declared. */
void step_divide(const struct backend_program *program, struct step *step);
/* The same with a task for each thread: for a step of predictions whose tasks each read all of the
 * weights. The number of tasks may change the last bits of its results, and no more. */
void step_divide_by_threads(const struct backend_program *program, struct step *step);
/* Declares an access of the step: by slice if the tensor is batched, else by `pattern`. */
void step_touch_tensor(struct backend_program *program, struct step *step, int32_t tensor,
                       enum access_pattern pattern, bool write);
/* Declares that the step reads the squares of all gradients, by which updates are scaled or
 * skipped. */
void step_touch_squares(const struct backend_program *program, struct step *step);
/* Declares that the step reads its node's inputs: of samples its slice, of others the whole. */
void step_touch_inputs(struct backend_program *program, struct step *step);
void step_touch(struct step *step, const void *start, size_t row_bytes, int64_t rows,
                enum access_pattern pattern, bool write);
/* Registers a call that reads `input` in the host's memory, `offset` bytes behind its beginning. */
int program_add_source_call(struct backend_program *program, struct onednn_call *call,
                            size_t offset, struct error *error);
/* Works out the segments from the accesses of the steps. 0 or -ENOMEM. */
int program_schedule(struct backend_program *program);
/* profile.c: run a step, or wait at a barrier, and record it. */
void profile_run_step(struct backend_program *program, const struct step *step, int task,
                      int thread);
void profile_barrier(struct backend_program *program, int thread);
/* Before and after all threads' work of a run. */
void profile_run_begin(struct profile_recorder *recorder);
void profile_run_end(struct profile_recorder *recorder);
void cpu_device_profile(struct backend_device *device, struct profile_recorder *recorder);
int64_t cpu_program_profile_events(const struct backend_program *program);
/* Runs the steps of program->phases on the device's threads. */
void program_execute(struct backend_program *program);
