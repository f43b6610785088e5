/* cuda.h: what the files of the CUDA plugin share: plugin.c (the vtable), device.c (device and
 * memory), program.c (prepare, memory, bind), tensors.c (written and read), data.c (data in the
 * device's memory), run.c (runs as CUDA graphs, metrics), queue.c (their launches), operators.c,
 * normalization.c, images.c, spatial.c, sequences.c, general.c (launches for each node),
 * recurrent.c, recurrent_ways.c (LSTM and GRU), transformer.c, attention.c, fusion.c,
 * image_fusion.c (what batch norms, and convolutions and channel scales, do along with their own
 * work), casts.c (of parameters), linear.c (linear layers by cublaslt.c's products), small_linear.c
 * (by kernels of our own), linear_search.c (which of both is the faster), choices.c (what was
 * measured), convolution.c (by cuDNN), convolution_own.c (by kernels of our own), update.c
 * (optimizers), profile.c (when each node of a run was done). */
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cuda/cublaslt.h"
#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/fusion.h"
#include "engine/graph/image_fusion.h"

enum {
    CUDA_PROGRAMS_MAX = 64, /* the most programs of a device at the same time */
    CUDA_CAPTURES_MAX = 64  /* the most kinds of runs of one program */
};

struct linear;      /* linear.c */
struct convolution; /* convolution.c */
struct small_linear;
struct muon;
struct recurrent; /* recurrent.c */
/* Launches the node's work on the device's stream. */
typedef int cuda_operator(struct backend_program *program, int32_t node, struct error *error);

/* The launches of runs; it is made when the device is opened. */
struct cuda_queue {
    /* on the device: the scalars of a launch's steps, one behind the other */
    struct cuda_scalars *scalars;
    /* page-locked: these scalars on the host, for every other launch */
    struct cuda_scalars *staged[2];
    cudaEvent_t launched[2]; /* recorded behind such a launch */
    int64_t launches;
    cudaStream_t copies; /* copies data while runs work */
    cudaEvent_t copied;  /* recorded behind the latest batch on that stream */
};

struct backend_device {
    int index, multiprocessors;
    char name[32];
    cudaStream_t stream;
    struct cublaslt *cublaslt;
    struct cudnn *cudnn;               /* NULL: no convolution was asked for yet */
    struct convolution_search *search; /* uses cudnn */
    struct choices *products;          /* of linear_search.c; NULL: no choice was asked for yet */
    char *cache_folder;                /* from struct backend_device_config */
    struct cuda_control *controls;     /* CUDA_PROGRAMS_MAX elements */
    struct cuda_queue queue;
    bool control_used[CUDA_PROGRAMS_MAX];
    char model[128];
    int capability[2];
    /* The generation whose instructions the kernels may use: below the device's where they were
     * compiled for an earlier one alone. */
    int code_major;
    size_t memory_bytes;
    double context_seconds, library_seconds; /* how long opening took */
    struct management *management;
    struct profile_recorder *recorder; /* lent; NULL: runs are not recorded */
};

struct backend_buffer {
    char *start; /* on the device; NULL: address space alone */
    size_t bytes;
    char *host; /* address space of the same size on the host, in which batches are staged */
    /* The part of both that batches use: page-locked on the host; on the device the place of
     * arrival. */
    size_t staged_offset, staged_bytes;
};

/* What a run records of its time (profile.c): nothing, or when each phase, or each node, is
 * done. */
enum recording { RECORD_NOTHING, RECORD_PHASES, RECORD_NODES };

/* The properties of a step on which its launches depend. */
struct step_kind {
    unsigned phases;
    bool accumulate, sums_squares;
    enum recording recording;
};
/* The key of steps captured as one graph: everything on which the sequence of launches depends. */
struct capture_key {
    struct step_kind first;
    int count;
    uint64_t accumulates, updates;   /* bit k belongs to step k */
    const struct backend_data *data; /* NULL: the batch is copied from the host */
    bool augmented;
};
struct capture {
    struct capture_key key;
    cudaGraphExec_t graph;
};

/* What a batch norm computes along with its own work (fusion.c). Tensors are -1 if there are
 * none. */
struct norm_fusion {
    /* Enum activation_kind. Forward: the activation behind it. Backward: the activation whose
     * operand is recomputed from x. */
    int activation;
    /* forward: added before the activation */
    int32_t addend;
    /* Forward: the node by which the addend is normalised first; that node then computes moments
     * alone. */
    int32_t second;
    bool moments_alone;
    /* backward: the bias of the same layer, if the operand of an activation is recomputed */
    int32_t bias;
    /* Backward: the result of ReLU. input[1] is then computed from it and incoming[]. */
    int32_t result;
    /* backward: the gradient with respect to the activation's result, or two whose sum it is */
    int32_t incoming[2];
    bool whole; /* one launch, as was measured to be the faster way (normalization.c) */
};

struct backend_program {
    struct backend_device *device;
    const struct graph *graph;
    size_t *tensor_bytes;                /* per tensor */
    int32_t *alias;                      /* per tensor */
    uint8_t *stored;                     /* per tensor: enum tensor_type, program_stored_type() */
    bool *as_given;                      /* per tensor: stored in PyTorch's order in any case */
    size_t *workspace_bytes;             /* per node */
    char **address;                      /* per tensor: its address on the device */
    const struct backend_buffer *buffer; /* to which the program is bound */
    char **workspace;                    /* per node */
    /* per node: its own function, or that of the fusion of which it is a part */
    cuda_operator **operators;
    int32_t *node_step; /* per node: the node that computes it (struct memory_request) */
    char *scratch;      /* CUDA_PRODUCT_SCRATCH bytes, which keep nothing between nodes */
    /* where the samples are, as the host wrote them, until the first node; NULL: in the tensor
     * itself */
    char *staging;
    struct norm_fusion *fusions;        /* per node */
    struct image_fusion *image_fusions; /* per node */
    struct memory_touch *touches;       /* owned */
    int touch_count;
    struct squeeze_node *squeezes; /* per node */
    struct small_linear *small;
    struct muon **muons;               /* per node, or NULL */
    struct product **batch_products;   /* per node, or NULL: by a kernel of our own */
    struct linear **linears;           /* per node, or NULL */
    struct convolution **convolutions; /* per node, or NULL */
    struct recurrent **recurrents;     /* per node, or NULL */
    uint8_t *attention_ways;           /* per node: enum attention_way */
    const void *input[3];              /* on the host: samples, target, lengths */
    struct cuda_control *control;
    struct loss_scale *loss_scale; /* on the device: that of the first program of the model */
    const struct cuda_scalars *step_scalars; /* on the device: of the step that is being captured */
    struct cuda_items *items;                /* owned: what the update changes */
    int item_launches;
    /* owned: the same without what the launches of small_linear.c update */
    struct cuda_items *other_items;
    int other_launches;
    bool has_loss;
    struct capture captures[CUDA_CAPTURES_MAX];
    int capture_count;
    struct step_kind run; /* of the step that is being captured, or that ran last */
    cudaEvent_t *marks;   /* owned: the events of recorded runs, which the first one makes */
};

int cuda_fail(struct error *error, cudaError_t status, const char *what);

/* ---- device.c ---- */

int cuda_device_open(const struct backend_device_config *config, struct backend_device **device,
                     struct error *error);
void cuda_device_close(struct backend_device *device);
int cuda_device_enter(struct backend_device *device, const char *cache_folder, struct error *error);
void cuda_device_describe(struct backend_device *device, struct backend_device_info *info);
int cuda_buffer_create(struct backend_device *device, size_t bytes, struct backend_buffer **buffer,
                       struct error *error);
int cuda_buffer_reserve(struct backend_device *device, size_t bytes, struct backend_buffer **buffer,
                        struct error *error);
void cuda_buffer_free(struct backend_buffer *buffer);
void *cuda_buffer_host(struct backend_buffer *buffer);
int cuda_buffer_stage(struct backend_buffer *buffer, size_t offset, size_t bytes,
                      struct error *error);
/* The address on the device at which bytes of the host's staged part arrive; NULL: they are not in
 * it. */
char *buffer_arrival(const struct backend_buffer *buffer, const void *host, size_t bytes);

/* ---- management.c ---- */

struct management;
/* Begins to load NVML for the device; NULL: no memory. */
struct management *management_begin(int index);
void management_free(struct management *management);
uint64_t cuda_device_memory_used(struct backend_device *device);
double cuda_device_energy(struct backend_device *device);

/* ---- program.c ---- */

bool cuda_supports(struct backend_device *device, const struct graph *graph,
                   const struct graph_node *node, char *reason);
int cuda_program_prepare(struct backend_device *device, const struct graph *graph,
                         const struct backend_program *shared, struct backend_program **program,
                         struct error *error);
void cuda_program_free(struct backend_program *program);
void cuda_program_memory(const struct backend_program *program, struct memory_request *request);
int cuda_program_bind(struct backend_program *program, const struct memory_placement *placement,
                      struct backend_buffer *buffer, struct error *error);

/* ---- tensors.c ---- */

int cuda_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                      struct error *error);
int cuda_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                     struct error *error);
/* Launches the conversion of the samples, float32 in PyTorch's order at `from` on the device, into
 * the tensor that the nodes read. */
int program_convert_input(struct backend_program *program, const void *from, struct error *error);

static inline int64_t program_elements(const struct backend_program *program, int32_t tensor)
{
    return graph_shape_elements(&program->graph->tensors[tensor].shape);
}

/* The type in which a tensor is stored. Samples, activations and their gradients have the graph's
 * compute type, except for the output and what a loss reads or writes. Gradients of weights that
 * cuDNN computes and only the update reads have it, too. All others have the tensor's own type. */
static inline enum tensor_type program_stored_type(const struct backend_program *program,
                                                   int32_t tensor)
{
    return (enum tensor_type)program->stored[tensor];
}

/* Images are stored channels-last, [B,H,W,C]. So are the weights of convolutions and all that
 * belongs to them, [O,kh,kw,I]; but not other parameters, which are combined with rows. */
static inline bool program_is_channels_last(const struct backend_program *program, int32_t tensor)
{
    return program->graph->tensors[tensor].shape.rank == 4 && !program->as_given[tensor];
}

/* The layout of a stored tensor; {1, 1}: it is in PyTorch's order. */
struct cuda_layout program_layout(const struct backend_program *program, int32_t tensor);

/* Whether the node, in the present run, adds to the gradient that is its output `number`. */
static inline bool program_accumulates(const struct backend_program *program,
                                       const struct graph_node *node, int number)
{
    return program->run.accumulate || node->adds >> number & 1;
}

/* tensor < 0: an array without address. */
static inline struct cuda_array program_array(const struct backend_program *program, int32_t tensor)
{
    return tensor < 0 ? (struct cuda_array){.at = NULL}
                      : (struct cuda_array){.at = program->address[tensor],
                                            .type = program->stored[tensor]};
}

/* The address of a tensor that is stored in float32; tensor < 0: NULL. */
static inline float *program_floats(const struct backend_program *program, int32_t tensor)
{
    return tensor < 0 ? NULL : (float *)program->address[tensor];
}

/* ---- run.c ---- */

int cuda_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                           struct error *error);
int cuda_program_run(struct backend_program *program, unsigned phases,
                     const struct step_scalars *scalars, struct error *error);
int cuda_program_run_steps(struct backend_program *program, struct backend_data *data,
                           const struct backend_step *steps, int count, struct error *error);
bool cuda_program_update_skipped(struct backend_program *program);
void cuda_program_write_loss_scale(struct backend_program *program,
                                   const struct loss_scale *loss_scale);
void cuda_program_read_loss_scale(struct backend_program *program, struct loss_scale *loss_scale);
void cuda_program_reset_metrics(struct backend_program *program);
void cuda_program_read_metrics(struct backend_program *program, struct step_metrics *metrics);
void cuda_program_restore_metrics(struct backend_program *program,
                                  const struct step_metrics *metrics);

/* ---- queue.c ---- */

cudaError_t queue_create(struct cuda_queue *queue);
void queue_free(struct cuda_queue *queue);
/* Where the host writes the scalars of the next launch. Waits for the launch before the last
 * one. */
cudaError_t queue_stage(struct cuda_queue *queue, struct cuda_scalars **staged);
/* Copies that many bytes of them to the device, and launches the graph. */
cudaError_t queue_launch(struct cuda_queue *queue, cudaStream_t stream, size_t bytes,
                         cudaGraphExec_t graph);

/* ---- profile.c ---- */

void cuda_device_profile(struct backend_device *device, struct profile_recorder *recorder);
int64_t cuda_program_profile_events(const struct backend_program *program);
/* What runs have to record now. */
enum recording profile_wanted(const struct backend_program *program);
/* Call it before the first recorded run is captured. */
int profile_prepare(struct backend_program *program, struct error *error);
/* Call it while a run is captured, behind each node; -1: before the first one. */
int profile_mark(struct backend_program *program, int32_t node, struct error *error);
/* Waits for the run, and passes its times to the recorder. */
int profile_read(struct backend_program *program, struct error *error);
void profile_free(struct backend_program *program);

/* ---- data.c ---- */

size_t cuda_data_bytes(struct backend_device *device, const struct backend_data_config *config);
int cuda_data_create(struct backend_device *device, const struct backend_data_config *config,
                     struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                     struct error *error);
void cuda_data_free(struct backend_data *data);
int cuda_data_write(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                    struct error *error);
int cuda_data_write_targets(struct backend_data *data, int64_t first, int64_t count,
                            const void *targets, struct error *error);
int cuda_data_write_order(struct backend_data *data, int64_t first, int64_t count,
                          const uint32_t *indices, struct error *error);
/* For how many batches there is room: those of so many steps are made at once. */
int data_batches(const struct backend_data *data);
/* The address of the batch of a launch's step. */
char *data_samples(const struct backend_data *data, int step);
char *data_targets(const struct backend_data *data, int step);
/* Launches a kernel that makes the batches of `steps` steps. `scalars` (on the device) are those of
 * the first one. */
int data_make_batches(const struct backend_data *data, const struct backend_program *program,
                      int steps, bool augmented, const struct cuda_scalars *scalars,
                      size_t scalars_stride, struct error *error);
/* Fills in the scalars that it reads. */
void data_scalars(const struct backend_data *data, const struct backend_batch *batch,
                  struct cuda_scalars *scalars);

/* ---- operators.c ---- */

/* NULL: there is no such operator. */
cuda_operator *cuda_operator_of(enum graph_op op);
/* The function of a node that vanishes, because another node computes it. */
cuda_operator cuda_nothing;
/* The function of a node of the backward part that a launch of the forward part computes. */
cuda_operator cuda_done_forward;
/* The bytes of workspace that the node needs while it runs. */
size_t cuda_operator_workspace(const struct graph *graph, const struct graph_node *node);
/* Whether the operator can add to a gradient that another node has written: graph_node.adds. */
bool cuda_operator_adds(enum graph_op op);

/* ---- normalization.c ---- */

cuda_operator norm_run, norm_backward_run, norm_frozen_backward_run;
/* Chooses how many launches a batch norm or its gradient is. Call it once fusions are applied. */
int norm_prepare(struct backend_program *program, int32_t index, struct error *error);
/* Whether the node has kernels that can fuse more than batch norm itself. */
bool norm_can_fuse(const struct backend_program *program, int32_t index);

/* ---- images.c ---- */

/* `large`: the pool's operand, or its gradient. `small`: its result, or its gradient. */
struct cuda_pool image_describe_pool(const struct backend_program *program,
                                     const struct graph_node *node, int32_t large, int32_t small);
cuda_operator max_pool_run, max_pool_backward_run, average_pool_run, average_pool_backward_run,
    channel_scale_run, channel_scale_backward_run;

/* ---- sequences.c ---- */

cuda_operator sequence_lengths_run, window_lengths_run, mask_steps_run, max_over_time_run,
    max_over_time_backward_run, columns_run, both_strands_run, causal_conv_run,
    causal_conv_backward_run, selective_scan_run, selective_scan_backward_run;
/* The bytes of workspace of one of these operators; 0 for any other. */
size_t sequence_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- recurrent.c ---- */

/* Chooses how to compute a node of LSTM or GRU. */
int recurrent_prepare(struct backend_program *program, int32_t node, struct error *error);
void recurrent_free(struct recurrent *recurrent);
cuda_operator recurrent_run, recurrent_backward_run, recurrent_backward_weights_run,
    carry_state_run;

/* ---- casts.c ---- */

/* Lets the first cast of parameters compute all of them. Call it once tensors have their bytes. */
void program_fuse_casts(struct backend_program *program);

/* ---- image_fusion.c ---- */

/* Finds what convolutions and channel scales can compute for their neighbours. Call it once types
 * are chosen. */
void program_find_image_fusions(struct backend_program *program);
/* Removes these neighbours. Call it once tensors have their bytes. */
int program_apply_image_fusions(struct backend_program *program, struct error *error);
/* Removes the activations beside channel scales that no other node computes. Call it once all other
 * fusions are applied. */
void program_apply_gates(struct backend_program *program);
/* Launches the sums over the channels of `gradient` for node `index`. They leave out elements where
 * `position` (a tensor, or -1) is CUDA_POOL_NOWHERE. */
int channel_sum_run(struct backend_program *program, int32_t index, int32_t gradient,
                    int32_t position, int32_t bias_gradient, struct error *error);
cuda_operator activation_sum_run, channel_scale_sum_run;

/* ---- fusion.c ---- */

/* Whether no other node has absorbed this one. */
bool program_is_free(const struct backend_program *program, int32_t node);
/* Lets batch norms compute their neighbours. Call it once tensors have their bytes. */
int program_fuse_norms(struct backend_program *program, struct error *error);

/* ---- linear.c ---- */

/* Whether the node is OP_LINEAR or which of its gradients; OP_COUNT: none. Convolutions of a single
 * pixel count, because their tensors have the same layout. */
enum graph_op linear_pass(const struct graph *graph, const struct graph_node *node);
/* The ReLU that is the only reader of the linear layer's result and is stored in the same type, or
 * -1. */
int32_t linear_rectifier(const struct backend_program *program, int32_t node);
/* Chooses how to compute a node, and removes the nodes that are computed along with it. */
int linear_prepare(struct backend_program *program, int32_t node, struct error *error);
void linear_free(struct linear *linear);
cuda_operator linear_run, linear_backward_data_run, linear_backward_weights_run;

/* ---- convolution.c ---- */

/* Loads cuDNN at the first call. -ENOENT: there is no cuDNN. */
int convolution_open_library(struct backend_device *device, struct error *error);
void convolution_close_library(struct backend_device *device);
/* Chooses how to compute the node, which may be measured. It needs only the stored types. */
int convolution_prepare(struct backend_program *program, int32_t node, struct error *error);
/* Frees the memory that measurements used. */
void convolution_end_search(struct backend_device *device);
size_t convolution_workspace(const struct backend_program *program, int32_t node);
void convolution_free(struct convolution *convolution);
/* Forward and the gradient by the data; the gradients by the weights and the bias. */
cuda_operator convolution_run, convolution_backward_weights_run;

/* ---- update.c ---- */

/* Lists what the update changes. */
int update_prepare(struct backend_program *program, struct error *error);
/* What an OP_OPTIMIZER node changes. */
struct cuda_item update_item(const struct backend_program *program, const struct graph_node *node);
/* The same, given the gradient. It has no parameter if no update reads the gradient, or if Muon's
 * does. */
struct cuda_item update_item_of(const struct backend_program *program, int32_t gradient);
/* Fills in the scalars that the update's kernels read. */
void update_scalars(const struct backend_program *program, const struct step_scalars *step,
                    struct cuda_scalars *scalars);
/* The first OP_OPTIMIZER node updates everything except what Muon updates. */
cuda_operator update_run;
/* Whether the node launches anything: the first one updates all that Muon does not. */
bool update_launches(const struct backend_program *program, int32_t node);
