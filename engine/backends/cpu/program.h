/* program.h: what the parts of the CPU backend share: the device, a program, and how operators add
 * their steps to it.
 *
 * Work is divided into a number of tasks that is a pure function of the graph, so results do not
 * depend on the number of threads. Task t of a step works on slice t of the batch, or on part t of
 * a parameter, or (t = 0 only) on everything. There are no more slices than samples, so steps that
 * can divide a sample, too, may have more tasks: program->parts. A thread takes fixed tasks;
 * between two steps there is a barrier only where a task of the second touches memory that another
 * task of the first touched and one of them writes (schedule.c works that out from what the steps
 * declare). */
#pragma once

#include "base/alignment.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/convolution_method.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/onednn.h"
#include "engine/backends/cpu/threads.h"
#include "engine/graph/fusion.h"

#include <stdatomic.h>

enum { TASKS_MAX = 8, STEP_ACCESSES_MAX = 12, PART_GRAIN = 16 };
enum { SLICE_SAMPLES_EVEN = 4 }; /* slices of so many samples may differ by one */

/* How the images of a program lie. */
enum image_order {
    IMAGES_BY_GRAPH,      /* as program.c decides */
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
    enum image_order image_order; /* of every program: by graph; tests set it */
    const struct kernels *kernels;
    struct thread_team *team;
    struct onednn *onednn;
    struct profile_recorder *recorder; /* lent; NULL: runs are not recorded */
    unsigned compute_types;            /* set of 1 << enum tensor_type */
    unsigned native_types;             /* of these, those that are not emulated */
    bool amx;                          /* tiles are multiplied by AMX */
    bool tiles;                        /* images lie in tiles where the compute type is bfloat16 */
};

struct backend_buffer {
    char *start, *mapping; /* start lies within the mapping of `mapped` bytes */
    size_t bytes, mapped;
};

/* How the bytes of an access fall to the tasks. */
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
    int tasks;       /* program->tasks, or program->parts: step_divide() */
    bool divides_samples;
    bool first_task_only;
    /* runs only where the gradients' squares are needed: to clip or to unscale them */
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

/* What prepare decided about a node. */
struct node_plan {
    const struct operator_functions *functions;
    bool absorbed; /* its work is done by a neighbour (fusion.c) */
    int fused;     /* enum activation_kind applied to the result, or -1; in batch norm backward the
                      activation whose gradient it takes first */
    /* tensors, -1 where absent; of batch norm: */
    int32_t addend; /* is added to the result before the activation */
    /* and of batch norm backward with `fused`: */
    int32_t incoming[2]; /* gradients behind the activation, in place of input[1]; their sum */
    int32_t saved;       /* ReLU's result: where it is 0 the gradient is, and input[1] is stored */
    int32_t bias;        /* else the activation's input is made again from x; batch norm's bias */
    void *state;         /* of the operator; released by its release() */
};

/* A call whose source moves with every batch, by `offset` from its beginning. */
struct source_call {
    struct onednn_call *call; /* owned by its operator */
    size_t offset;
};

struct backend_program {
    struct backend_device *device;
    const struct graph *graph;
    int tasks;          /* slices of the batch */
    int parts;          /* at least as many: of steps that divide more than the batch */
    bool tiled;         /* images lie as bfloat16 in tiles (tiles.c), whatever else is said here */
    bool channels_last; /* how its images lie: NHWC, else in blocks of channels or NCHW */
    bool plain_samples; /* but the samples stay as the host has them, NCHW */

    int32_t *root;                 /* per tensor: whose storage it uses */
    int32_t *alias;                /* the same as memory_request wants it: -1 for roots */
    size_t *tensor_bytes;          /* per tensor */
    size_t *workspace;             /* per node */
    size_t scratch_bytes;          /* of each thread, for one step at a time */
    struct onednn_layout **layout; /* per parameter that oneDNN lays out, else NULL; owned */
    bool *compact;                 /* per tensor: bfloat16, and lies so in memory */
    struct node_plan *nodes;
    int32_t *node_step; /* per node: the node with which it runs */

    char **address;      /* per root, after bind */
    char **node_address; /* per node: its workspace */
    char *scratch;       /* of thread 0 */
    const void *samples; /* in PyTorch's layout, where `input` has storage of its own */
    struct source_call *source_calls; /* those that read `input` where the host has it */
    int source_call_count;

    struct step *steps;
    int step_count, step_capacity;
    struct segment *segments[2]; /* [1]: of runs that need the gradients' squares, and for that more
                                    barriers */
    int segment_count[2];

    /* of the current run */
    unsigned phases;
    struct step_scalars scalars;
    double loss[TASKS_MAX];
    int64_t correct[TASKS_MAX];
    double gradient_squares[TASKS_MAX];
    _Atomic int failure;

    bool has_loss;
    struct step_metrics metrics;
};

/* One operator: what program_prepare, program_bind and program_free do with its nodes; a row of the
 * table in operators.c. */
struct operator_functions {
    int (*prepare)(struct backend_program *program, int32_t node, struct error *error);
    int (*bind)(struct backend_program *program, int32_t node, struct error *error);
    void (*release)(void *state);
    /* of slices_bind(): the step, and that over images in tiles */
    step_function *run, *run_tiles;
    struct fusion_abilities fuses; /* what its kernels do along */
    bool elementwise;              /* `run` takes any part of the elements, not samples alone */
    /* whether the node can work on images in tiles; NULL: never */
    bool (*suits_tiles)(const struct graph *graph, const struct graph_node *node);
};
/* The functions of all operators. device.c hands the table down: what lies below the operators
 * knows of none of them. */
struct operator_table {
    struct operator_functions by_operator[OP_COUNT];
    struct operator_functions muon; /* of an OP_OPTIMIZER node of Muon's */
};
extern const struct operator_table cpu_operators; /* operators.c */
/* The functions of a node's operator. A convolution of single pixels (1x1 images, kernel 1x1) is a
 * linear layer, and so are its gradients. */
const struct operator_functions *operator_functions_of(const struct operator_table *table,
                                                       const struct graph *graph,
                                                       const struct graph_node *node);

/* Lets nodes do their neighbours' work along with their own: absorbed, fused, the tensors of
 * node_plan, node_step, and the storage of what is not stored any more. First thing in prepare. */
int program_fuse(struct backend_program *program, struct error *error);

int linear_prepare(struct backend_program *, int32_t, struct error *);
int linear_bind(struct backend_program *, int32_t, struct error *);
int linear_backward_weights_bind(struct backend_program *, int32_t, struct error *);
void linear_release(void *);
/* Whether oneDNN has the convolution for operands in bfloat16. */
bool convolution_takes_bfloat16(struct backend_program *program, int32_t index);
int convolution_prepare(struct backend_program *, int32_t, struct error *);
int convolution_bind(struct backend_program *, int32_t, struct error *);
/* Who does it: "kernel" of ours, or oneDNN's implementation. After prepare; of a node that
 * convolution_prepare() has kept. */
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
int batch_norm_backward_bind(struct backend_program *, int32_t, struct error *);
/* Operators of one step, in which every task works on its slice of the batch alone: `run` of their
 * functions. */
int slices_bind(struct backend_program *, int32_t, struct error *);
step_function pointwise_run, dropout_run, channel_scale_run, channel_scale_backward_run,
    reshape_run, max_pool_run, max_pool_backward_run, average_pool_run, average_pool_backward_run,
    cross_entropy_run, cross_entropy_backward_run, mse_run, mse_backward_run;
int reshape_prepare(struct backend_program *, int32_t, struct error *);
int cast_prepare(struct backend_program *, int32_t, struct error *);
int cast_bind(struct backend_program *, int32_t, struct error *);
void cast_release(void *);
int embedding_bind(struct backend_program *, int32_t, struct error *);
int optimizer_bind(struct backend_program *, int32_t, struct error *);
int muon_prepare(struct backend_program *, int32_t, struct error *);
int muon_bind(struct backend_program *, int32_t, struct error *);
void muon_release(void *);
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

/* Of a step with so many tasks. */
static inline int program_first_task(const struct backend_program *program, int tasks, int thread)
{
    int threads = program_threads(program);

    return (thread * tasks + threads - 1) / threads;
}

/* Asks for scratch of at least `bytes` for every thread: memory that a step uses while it runs and
 * that keeps nothing for another. In prepare. */
static inline void program_reserve_scratch(struct backend_program *program, size_t bytes)
{
    bytes = align_up(bytes, MEMORY_ALIGNMENT);
    if (bytes > program->scratch_bytes)
        program->scratch_bytes = bytes;
}

/* The scratch of the thread that runs `task` of as many as the program has slices; of so many.
 * After prepare. */
void *program_task_scratch(const struct backend_program *program, int task);
void *program_scratch_of(const struct backend_program *program, int tasks, int task);

static inline bool slices_differ(int64_t batch, int parts)
{
    return batch % parts != 0 && batch < SLICE_SAMPLES_EVEN * parts;
}

/* Whether slices are of sizes that differ much, or fewer than there could be: what divides samples,
 * too, is then spread more evenly over the threads. */
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

/* Of as many as the program has slices. */
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

/* The parts of a program of the graph. */
int graph_parts(const struct backend_device *device, const struct graph *graph);
/* program_slices_differ() of it. */
bool graph_slices_differ(const struct backend_device *device, const struct graph *graph);
/* Whether images of the graph lie channels last. */
bool graph_orders_channels_last(const struct backend_device *device, const struct graph *graph);

/* What a convolution or one of its gradients works on. */
struct convolution_tensors {
    enum onednn_direction direction;
    int32_t x, weights, bias, y; /* tensors, or the gradients by them; bias may be -1 */
};
struct convolution_tensors convolution_tensors(const struct graph_node *node);
/* How the device was told to do the node, a convolution or a gradient of one. */
static inline enum convolution_method
program_convolution_method(const struct backend_program *program, const struct graph_node *node)
{
    return convolution_method_of(program->graph, program->device->direct_convolutions, node);
}
/* Whether the node is a convolution that operator_winograd.c can do. In prepare. */
bool winograd_suits(const struct backend_program *program, int32_t node);
/* The same of operator_product.c. */
bool product_suits(const struct backend_program *program, int32_t node);

/* ---- images in tiles (tiles.c, operator_tiles.c) --------------------------------------------- */

/* Whether every operator over images can work on tiles. The graph may be lowered or not yet. */
bool graph_suits_tiles(const struct graph *graph);
bool tiles_suit_graph(const struct operator_table *table, const struct graph *graph);
/* Whether the tensor lies so; not where its pixels are single. */
bool program_is_tiled(const struct backend_program *program, int32_t tensor);
/* Whether it is the rounded samples, which lie unfolded for the first convolution. */
bool program_is_unfolded(const struct backend_program *program, int32_t tensor);
/* Whether the cast does nothing: of images that are bfloat16, of weights that the convolution
 * rounds itself. */
bool tiles_absorb_cast(const struct backend_program *program, const struct graph_node *node);
struct tile_images program_tile_images(const struct backend_program *program, int32_t tensor,
                                       int64_t samples);
/* Between the tensor and PyTorch's layout in float32. */
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

/* Where the tensor begins. */
static inline void *program_address(const struct backend_program *program, int32_t tensor)
{
    return program->address[program->root[tensor]];
}

/* What an element takes here: 4 bytes also where rounded numbers stay float32. */
static inline size_t program_element_bytes(const struct backend_program *program, int32_t tensor)
{
    enum tensor_type type = program->graph->tensors[tensor].type;
    bool low = type == TENSOR_BFLOAT16 || type == TENSOR_FLOAT16;

    if (program_is_tiled(program, tensor) && type != TENSOR_UINT8)
        return sizeof(uint16_t);
    return low && !program->compact[tensor] ? sizeof(float) : tensor_type_bytes(type);
}

/* Elements of one sample of a batched tensor. */
static inline int64_t program_sample_elements(const struct backend_program *program, int32_t tensor)
{
    return graph_shape_elements(&program->graph->tensors[tensor].shape) / program->graph->batch;
}

/* Where sample `sample` of a batched tensor begins. */
void *program_sample(const struct backend_program *program, int32_t tensor, int64_t sample);

/* How images (rank 4), sequences (rank 3) or rows (rank 2) of `samples` samples lie. */
struct image_layout program_image_layout(const struct backend_program *program, int32_t tensor,
                                         int64_t samples);

/* Whether the tensor's bytes are not in PyTorch's order: channels of a pixel lie side by side. */
bool program_interleaves_channels(const struct backend_program *program, int32_t tensor);

/* oneDNN's layout of a parameter, its gradient and its states; NULL where it is PyTorch's. */
const struct onednn_layout *program_parameter_layout(const struct backend_program *program,
                                                     int32_t tensor);

/* Gives the parameter (or that of the gradient) the layout, unless it has one. 0 or -ENOMEM. */
int program_choose_layout(struct backend_program *program, int32_t tensor,
                          const struct onednn_layout *layout, struct error *error);

/* The rows by which a parameter, its gradient and its states are divided into parts, and the
 * elements of each. A tensor that oneDNN lays out counts elements; else its first extent. */
void program_parameter_rows(const struct backend_program *program, int32_t tensor, int64_t *rows,
                            int64_t *row_elements);

/* Whether the present run's update is left out: a loss scale, and a gradient that is not finite. */
bool program_skips_update(const struct backend_program *program);

/* Keeps a failure of oneDNN within a step for the end of the run. */
static inline void program_record(struct backend_program *program, int result)
{
    if (result)
        atomic_store_explicit(&program->failure, result, memory_order_relaxed);
}

/* What an update by the group's settings needs in the present step. */
struct optimizer_scalars optimizer_scalars(const struct backend_program *program,
                                           const struct optimizer_group *group);
/* Adds the steps that sum up the squares of all gradients, if this is the first update. */
int optimizer_squares_bind(struct backend_program *program, int32_t node);

/* ---- adding steps ---------------------------------------------------------------------------- */

/* NULL: out of memory. The pointer is valid until the next step is added. */
struct step *program_add_step(struct backend_program *program, int32_t node, step_function *run);
/* The step has program->parts tasks. What it touches by slice is of all of them. Before that is
 * declared. */
void step_divide(const struct backend_program *program, struct step *step);
/* Declares what the step touches. By slice where the tensor is batched, else `pattern`. */
void step_touch_tensor(struct backend_program *program, struct step *step, int32_t tensor,
                       enum access_pattern pattern, bool write);
void step_touch(struct step *step, const void *start, size_t row_bytes, int64_t rows,
                enum access_pattern pattern, bool write);
/* The call's source is where the host has `input`, `offset` bytes from its beginning. */
int program_add_source_call(struct backend_program *program, struct onednn_call *call,
                            size_t offset, struct error *error);
/* Works out the segments from what the steps touch. 0 or -ENOMEM. */
int program_schedule(struct backend_program *program);
/* profile.c: a step, and the wait at a barrier, as run_thread() does them
 * while runs are recorded. */
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
