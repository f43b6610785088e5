/* cuda.h: what the files of the CUDA plugin share: plugin.c (the vtable), device.c (device and
 * memory), program.c (prepare, memory, bind), tensors.c (written and read), data.c (data in the
 * device's memory), run.c (runs as CUDA graphs, metrics), queue.c (their launches), operators.c,
 * normalization.c, images.c (a launch for each node), fusion.c, image_fusion.c (what batch norms,
 * and convolutions and channel scales, do along with their own work), casts.c (of parameters),
 * linear.c (linear layers by cublaslt.c's products), small_linear.c (by kernels of our own),
 * linear_search.c (which of both is the faster), choices.c (what was measured), convolution.c (by
 * cuDNN), convolution_own.c (by kernels of our own), update.c (optimizers), profile.c (when each
 * node of a run was done). */
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cuda/cublaslt.h"
#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/fusion.h"
#include "engine/graph/image_fusion.h"

enum {
    CUDA_PROGRAMS_MAX = 64, /* of a device at the same time */
    CUDA_CAPTURES_MAX = 64  /* kinds of runs of one program */
};

struct linear;      /* linear.c */
struct convolution; /* convolution.c */
struct small_linear;
struct muon;
/* Puts the node's work on the device's stream. */
typedef int cuda_operator(struct backend_program *program, int32_t node, struct error *error);

/* What runs are launched with, made when the device is opened. */
struct cuda_queue {
    /* on the device: of the steps of a launch, one behind the other */
    struct cuda_scalars *scalars;
    struct cuda_scalars *staged[2]; /* the same on their way, of every other launch: page-locked */
    cudaEvent_t launched[2];        /* when such a launch is done */
    int64_t launches;
    cudaStream_t copies; /* of data, beside the runs */
    cudaEvent_t copied;  /* the batch that came last by it */
};

struct backend_device {
    int index, multiprocessors;
    char name[32];
    cudaStream_t stream;
    struct cublaslt *cublaslt;
    struct cudnn *cudnn;               /* NULL: no convolution was asked for yet */
    struct convolution_search *search; /* of cudnn */
    struct choices *products;          /* of linear_search.c; NULL: none was asked for yet */
    char *cache_folder;                /* struct backend_device_config */
    struct cuda_control *controls;     /* CUDA_PROGRAMS_MAX of them */
    struct cuda_queue queue;
    bool control_used[CUDA_PROGRAMS_MAX];
    char model[128];
    int capability[2];
    size_t memory_bytes;
    double context_seconds, library_seconds; /* of opening */
    struct management *management;
    struct profile_recorder *recorder; /* lent; NULL: runs are not recorded */
};

struct backend_buffer {
    char *start; /* on the device; NULL: address space alone */
    size_t bytes;
    char *host; /* address space of the host of the same size: batches are staged in it */
    /* The part of both that batches take: page-locked on the host, on the
     * device where they arrive. */
    size_t staged_offset, staged_bytes;
};

/* What a run tells of its time (profile.c): nothing, when each phase, or when each node is done. */
enum recording { RECORD_NOTHING, RECORD_PHASES, RECORD_NODES };

/* What the launches of a step depend on. */
struct step_kind {
    unsigned phases;
    bool accumulate, sums_squares;
    enum recording recording;
};
/* Steps that were captured as one graph: everything that the sequence of launches depends on. */
struct capture_key {
    struct step_kind first;
    int count;
    uint64_t accumulates, updates;   /* bit k: of step k */
    const struct backend_data *data; /* NULL: the batch is copied from the host */
    bool augmented;
};
struct capture {
    struct capture_key key;
    cudaGraphExec_t graph;
};

/* What a batch norm does along with its own work (fusion.c): tensors, -1 where there is none. */
struct norm_fusion {
    /* enum activation_kind; forward: behind it; backward: taken back, from x */
    int activation;
    /* forward: added before the activation */
    int32_t addend;
    /* forward: the node whose normalisation the addend takes first; that one then finds moments
     * alone */
    int32_t second;
    bool moments_alone;
    /* backward: bias of the same layer, where an activation is taken back */
    int32_t bias;
    /* backward: result of ReLU; input[1] is then not given but made, from that and incoming[] */
    int32_t result;
    /* backward: the gradient by the activation's result, or two that are added up */
    int32_t incoming[2];
};

struct backend_program {
    struct backend_device *device;
    const struct graph *graph;
    size_t *tensor_bytes;                /* per tensor */
    int32_t *alias;                      /* per tensor */
    uint8_t *stored;                     /* per tensor: enum tensor_type, program_stored_type() */
    size_t *workspace_bytes;             /* per node */
    char **address;                      /* per tensor, on the device */
    const struct backend_buffer *buffer; /* that it is bound to */
    char **workspace;                    /* per node */
    cuda_operator **operators; /* per node: its own, or that of the fusion that it is part of */
    int32_t *node_step;        /* per node: the one that does its work (struct memory_request) */
    char *scratch;             /* CUDA_PRODUCT_SCRATCH bytes; nothing stays in it */
    char *staging; /* where the samples lie as the host gave them, before the first node; NULL:
                      where the tensor does */
    struct norm_fusion *fusions;        /* per node */
    struct image_fusion *image_fusions; /* per node */
    struct memory_touch *touches;       /* owned */
    int touch_count;
    struct small_linear *small;
    struct muon **muons;               /* per node, or NULL */
    struct linear **linears;           /* per node, or NULL */
    struct convolution **convolutions; /* per node, or NULL */
    const void *input[2];              /* host: samples, target */
    struct cuda_control *control;
    struct loss_scale *loss_scale; /* on the device: of the first program over the model */
    const struct cuda_scalars *step_scalars; /* on the device: of the step that is captured */
    struct cuda_items *items;                /* what the update changes; owned */
    int item_launches;
    struct cuda_items *other_items; /* without what small_linear.c's launches update; owned */
    int other_launches;
    bool has_loss;
    struct capture captures[CUDA_CAPTURES_MAX];
    int capture_count;
    struct step_kind run; /* of the step that is captured, or that ran last */
    cudaEvent_t *marks;   /* of recorded runs, made by the first; owned */
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
/* Where bytes of the staged part of the host arrive on the device; NULL: they are none of it. */
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
/* Launches what brings the samples, float32 in PyTorch's order at `from` on the device, to where
 * the nodes read them. */
int program_convert_input(struct backend_program *program, const void *from, struct error *error);

static inline int64_t program_elements(const struct backend_program *program, int32_t tensor)
{
    return graph_shape_elements(&program->graph->tensors[tensor].shape);
}

/* Samples, activations and their gradients lie in the graph's compute type, but for the output and
 * what a loss reads or writes, and so do gradients of weights that cuDNN makes and only the update
 * reads; all else in the tensor's own type. */
static inline enum tensor_type program_stored_type(const struct backend_program *program,
                                                   int32_t tensor)
{
    return (enum tensor_type)program->stored[tensor];
}

/* Images, and weights of convolutions with all that belongs to them, lie channels-last: [B,H,W,C]
 * and [O,kh,kw,I]. */
static inline bool program_is_channels_last(const struct backend_program *program, int32_t tensor)
{
    return program->graph->tensors[tensor].shape.rank == 4;
}

/* Of the tensor as it lies; {1, 1} where that is PyTorch's order. */
struct cuda_layout program_layout(const struct backend_program *program, int32_t tensor);

/* tensor < 0: one without address. */
static inline struct cuda_array program_array(const struct backend_program *program, int32_t tensor)
{
    return tensor < 0 ? (struct cuda_array){.at = NULL}
                      : (struct cuda_array){.at = program->address[tensor],
                                            .type = program->stored[tensor]};
}

/* Of a tensor that is stored in float32; tensor < 0: NULL. */
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
/* Where the scalars of the next launch are put together: waits for the
 * launch before the last one. */
cudaError_t queue_stage(struct cuda_queue *queue, struct cuda_scalars **staged);
/* Copies so many bytes of them to the device and launches the graph. */
cudaError_t queue_launch(struct cuda_queue *queue, cudaStream_t stream, size_t bytes,
                         cudaGraphExec_t graph);

/* ---- profile.c ---- */

void cuda_device_profile(struct backend_device *device, struct profile_recorder *recorder);
int64_t cuda_program_profile_events(const struct backend_program *program);
/* What runs are to tell now. */
enum recording profile_wanted(const struct backend_program *program);
/* Before the first recorded run is captured. */
int profile_prepare(struct backend_program *program, struct error *error);
/* While a run is captured: behind the node; -1: before the first one. */
int profile_mark(struct backend_program *program, int32_t node, struct error *error);
/* Waits for the run, and tells the recorder. */
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
/* How many batches there is room for: those of so many steps are made at once. */
int data_batches(const struct backend_data *data);
/* Where the batch of a launch's step lies. */
char *data_samples(const struct backend_data *data, int step);
char *data_targets(const struct backend_data *data, int step);
/* Launches what makes the batches of so many steps, the first of which `scalars` (on the device)
 * are of. */
int data_make_batches(const struct backend_data *data, const struct backend_program *program,
                      int steps, bool augmented, const struct cuda_scalars *scalars,
                      size_t scalars_stride, struct error *error);
/* Fills in what that reads. */
void data_scalars(const struct backend_data *data, const struct backend_batch *batch,
                  struct cuda_scalars *scalars);

/* ---- operators.c ---- */

/* NULL: the operator is missing. */
cuda_operator *cuda_operator_of(enum graph_op op);
/* Of a node that vanishes: another one does its work. */
cuda_operator cuda_nothing;
/* Of a node of the backward part that a launch of the forward part does along. */
cuda_operator cuda_done_forward;
/* Bytes that the node wants for itself while it runs. */
size_t cuda_operator_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- normalization.c ---- */

cuda_operator norm_run, norm_backward_run;
/* Whether the node has kernels that do more than batch norm alone. */
bool norm_can_fuse(const struct backend_program *program, int32_t index);

/* ---- images.c ---- */

/* `large`: the pool's operand (or the gradient by it), `small`: its result (or that by it). */
struct cuda_pool image_describe_pool(const struct backend_program *program,
                                     const struct graph_node *node, int32_t large, int32_t small);
cuda_operator max_pool_run, max_pool_backward_run, average_pool_run, average_pool_backward_run,
    channel_scale_run, channel_scale_backward_run;

/* ---- casts.c ---- */

/* Makes the casts of all parameters the work of the first; after tensors have their bytes. */
void program_fuse_casts(struct backend_program *program);

/* ---- image_fusion.c ---- */

/* What convolutions and channel scales do for their neighbours; after types are chosen. */
void program_find_image_fusions(struct backend_program *program);
/* The neighbours vanish; after tensors have their bytes. */
int program_apply_image_fusions(struct backend_program *program, struct error *error);
/* Puts the sums over `gradient`'s channels on the stream, without those at CUDA_POOL_NOWHERE of
 * `position` (a tensor, or -1), for node `index`. */
int channel_sum_run(struct backend_program *program, int32_t index, int32_t gradient,
                    int32_t position, int32_t bias_gradient, struct error *error);
cuda_operator activation_sum_run, channel_scale_sum_run;

/* ---- fusion.c ---- */

/* Gives batch norms the work of their neighbours; after tensors have their bytes. */
int program_fuse_norms(struct backend_program *program, struct error *error);

/* ---- linear.c ---- */

/* Which of OP_LINEAR and its gradients the node is, convolutions of a single pixel included, whose
 * tensors lie alike; OP_COUNT: none of them. */
enum graph_op linear_pass(const struct graph *graph, const struct graph_node *node);
/* The ReLU that alone reads the linear layer's result, which is stored alike, or -1. */
int32_t linear_rectifier(const struct backend_program *program, int32_t node);
/* Chooses how a node is done; what it does along with its own work vanishes. */
int linear_prepare(struct backend_program *program, int32_t node, struct error *error);
void linear_free(struct linear *linear);
cuda_operator linear_run, linear_backward_data_run, linear_backward_weights_run;

/* ---- convolution.c ---- */

/* Loads cuDNN, the first time. -ENOENT: there is none. */
int convolution_open_library(struct backend_device *device, struct error *error);
void convolution_close_library(struct backend_device *device);
/* Chooses how the node is done, which may be measured. Needs the stored types alone. */
int convolution_prepare(struct backend_program *program, int32_t node, struct error *error);
/* Gives back the memory that measurements took. */
void convolution_end_search(struct backend_device *device);
size_t convolution_workspace(const struct backend_program *program, int32_t node);
void convolution_free(struct convolution *convolution);
/* Forward and the gradient by the data; by the weights and the bias. */
cuda_operator convolution_run, convolution_backward_weights_run;

/* ---- update.c ---- */

/* Gathers what the update changes. */
int update_prepare(struct backend_program *program, struct error *error);
/* What an OP_OPTIMIZER node changes. */
struct cuda_item update_item(const struct backend_program *program, const struct graph_node *node);
/* The same by the gradient; without a parameter where no update reads it, or Muon's. */
struct cuda_item update_item_of(const struct backend_program *program, int32_t gradient);
/* Fills in what the update's kernels read. */
void update_scalars(const struct backend_program *program, const struct step_scalars *step,
                    struct cuda_scalars *scalars);
/* The first OP_OPTIMIZER node does the work of all, but for what Muon updates. */
cuda_operator update_run;
/* Whether the node launches anything: the first one updates what Muon does not. */
bool update_launches(const struct backend_program *program, int32_t node);
