/* backend.h: what a device must offer to run a graph. One vtable per backend; `cpu` is built in,
 * others are plugins that export `const struct backend *traind_backend(void)`.
 *
 * The order of calls: device_open, then for each graph program_prepare (the backend chooses layouts
 * and says what they cost), memory_plan_make over all of them, buffer_create, program_bind for
 * each, tensor_write for the initial weights, then program_run step after step. After program_bind
 * nothing allocates. Whatever works on the device fails with -ERROR_DEVICE_MEMORY (there is too
 * little), -ERROR_DEVICE_LOST (it is lost), -ERROR_DEVICE_CORRUPTION (an error of its memory that
 * cannot be corrected), -ERROR_DEVICE_ACCESS (a kernel read or wrote where it must not) or
 * -ERROR_DEVICE_FAILURE (another failure of a kernel or of a library's call); after all but the
 * first the device is of no use to this process. Objects are released in reverse order; a device
 * outlives its programs and buffers. One program runs at a time, from the thread that called
 * device_open. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"
#include "engine/graph/loss_scale.h"
#include "engine/graph/memory_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BACKEND_INTERFACE_VERSION = 6 };
enum { BACKEND_STEPS_MAX = 64 };         /* of one program_run_steps() */
enum { CONVOLUTION_CHOICES_MAX = 1024 }; /* bytes of device_choose_convolutions()' text, with NUL */

struct backend_device;
struct backend_program;
struct backend_buffer;
struct backend_data;

enum { NODE_METHOD_MAX = 64 };
enum { CONVOLUTION_METHODS_MAX = 16 }; /* bytes of convolution_methods()' letters, with NUL */

/* How a program does a node: what makes two calls of an operator comparable. */
struct node_description {
    /* blank-separated words, those that matter most first: "winograd", "jit:avx512_core relu" */
    char method[NODE_METHOD_MAX];
    bool absorbed; /* a neighbour does it along with its own work */
    int tasks;     /* parts that the work of the batch is divided into */
    int lanes;     /* that take them, at the same time */
};

/* What a simulated device is; it outlives the device. */
struct simulated_device_config {
    const char *name;      /* "sim0" */
    uint64_t memory_bytes; /* what buffers may take together */
    /* How long it takes for a node of a graph, which the CPU does as the description says. */
    double (*node_seconds)(const void *context, const struct graph *graph, int32_t node,
                           const struct node_description *description);
    const void *context;
};

struct backend_device_config {
    int index;        /* which device of the backend */
    const char *name; /* what it is to be called; NULL: as the backend does. It is copied */
    int threads;      /* CPU: 0 takes every core this process may use */
    /* For checks on any machine, and slow: a compute type that the device lacks is offered all the
     * same; products are then float32's, of operands rounded to the type. */
    bool emulate_precision;
    const struct simulated_device_config *simulated; /* of backend_simulated() alone */
    /* Where a device keeps what it measures of libraries for later programs; NULL: nowhere. */
    const char *cache_folder;
};

/* What opening a device took, part by part. */
struct device_opening {
    const char *part; /* "context"; NULL behind the last one */
    double seconds;
};
enum { BACKEND_OPENING_PARTS = 4 };

struct backend_device_info {
    char name[32];      /* "cpu", "cuda:0", "sim0" */
    char model[128];    /* "AMD EPYC 9655" */
    char features[256]; /* instruction sets or compute capability, blank-separated */
    char versions[256]; /* "oneDNN 2.6.3": libraries found at run time */
    int threads;
    uint64_t memory_bytes;
    bool owns_memory; /* beside the process': only buffers count */
    /* Sets of 1 << enum tensor_type: what graphs may have as their compute_type (float32 always),
     * and in which of these linear layers, and convolutions, are faster than in float32. */
    unsigned compute_types, fast_linear_types, fast_convolution_types;
    /* Whether that holds for the convolutions of this graph, not lowered yet; NULL: of any. */
    bool (*convolutions_are_fast)(const struct graph *graph);
    /* What it could do at most by its own account, products by their type; 0: it does not say. */
    double peak_bytes_per_second, peak_flops[TENSOR_INT32];
    struct device_opening opening[BACKEND_OPENING_PARTS]; /* where it takes a while */
};

/* What changes from step to step. */
struct step_scalars {
    int64_t step;  /* updates, this one included: 1 for the first; Adam's bias correction uses it */
    int64_t batch; /* batches, this one included: several to a step when gradients accumulate;
                      dropout draws its mask by it */
    uint64_t seed; /* of dropout */
    float learning_rate;
    float gradient_scale; /* multiplies the loss' gradient: 1 / micro-steps of an accumulation */
    bool accumulate;  /* add to the gradients of the micro-step before instead of replacing them */
    float clip_norm;  /* the update scales all gradients by min(1, clip_norm / (norm + 1e-6)), norm
                       * over all of them together (torch.nn.utils.clip_grad_norm_); 0: not */
    float clip_value; /* and then limits each to -clip_value … clip_value; 0: not at all */
    bool cycle_momentum; /* `momentum` takes the place of the optimizer's momentum or beta1 */
    double momentum;
    float average_decay;     /* of OP_MOVING_AVERAGE */
    double momentum_product; /* of the momenta of all steps (struct optimizer), this one's too */
    float loss_scale; /* 0: none. Else the loss' gradient is multiplied by it as well, and the
                         update divides all gradients by it before anything else is done with them;
                         where one of them is NaN or infinite it changes nothing:
                         program_update_skipped() */
    int64_t skipped;  /* updates before this one that changed nothing: the optimizer counts without
                         them */
    bool scales_itself; /* the last two are the device's own (program_write_loss_scale()), which the
                           update moves on; here they are of some step before */
};

/* ---- data in the device's memory ---- */

enum backend_element { BACKEND_UINT8, BACKEND_FLOAT32, BACKEND_INT32 };

/* A set of raw samples that the device keeps and makes batches of, as engine/data/ would: the same
 * draws, the same values. Of sample i the elements lie from i * sample_stride on. */
struct backend_data_config {
    enum backend_element element;
    int64_t elements, count; /* of all raw elements, and samples */
    int64_t sample_stride;
    int64_t channels, height, width; /* of an image; else 1, 1 and the elements of a sample */
    bool symbols;                    /* rows are int32, and nothing below changes them */
    /* value = (raw - mean[g]) * factor[g]; g is always 0, the channel (groups == channels > 1), or
     * the place within the sample (groups == width of what is no image) */
    int64_t groups;
    const float *mean, *factor;

    int64_t target_width; /* float32 values of a sample's target; 0: an int32 label */
    int64_t classes;
    int64_t orders; /* indices that there is room for: the order of an epoch, of several sets */
    int64_t batch;  /* of the largest program that reads the data */

    /* struct augmentation's; a label's noise is in the labels already */
    uint64_t seed;
    int64_t crop_padding, cutout_side;
    bool horizontal_flip, mixes;
    bool soft; /* targets of augmented batches are probabilities */
    double label_smoothing;
};

/* Which samples a step takes: as many as the program's batch. */
struct backend_batch {
    int64_t first; /* place of its first one in the orders */
    bool augmented;
    uint32_t epoch; /* that augmentation draws by */
    float share;    /* MixUp's lambda */
};

struct backend_step {
    struct step_scalars scalars;
    struct backend_batch batch;
    unsigned phases;
};

/* Sums over the steps since program_reset_metrics(), kept on the device until asked for. */
struct step_metrics {
    double loss_sum; /* of each step's mean loss times its samples */
    int64_t samples;
    int64_t correct;        /* argmax == label; 0 for regression */
    double last_loss;       /* mean loss of the latest step */
    int64_t nonfinite_step; /* the first step whose loss was NaN or infinite, else 0 */
};

enum program_phases {
    PROGRAM_FORWARD = 1 << GRAPH_FORWARD,
    PROGRAM_BACKWARD = 1 << GRAPH_BACKWARD,
    PROGRAM_UPDATE = 1 << GRAPH_UPDATE,
    PROGRAM_STEP = PROGRAM_FORWARD | PROGRAM_BACKWARD | PROGRAM_UPDATE
};

/* Where the time of runs goes: memory that the caller lends a device and reads between runs. */
enum { PROFILE_WAIT = -1 }; /* in place of a node: the lane waits for the others */

struct profile_event {
    int64_t begin, end; /* nanoseconds of the device's clock, else of CLOCK_MONOTONIC */
    int32_t node;       /* of the graph that ran, or PROFILE_WAIT */
    int32_t task;       /* which part of the node's work */
};

/* What one thread (another device: one queue) does, in order. */
struct profile_lane {
    _Alignas(64) struct profile_event *events;
    int64_t capacity, count; /* events beyond the capacity are not kept */
};

struct profile_recorder {
    struct profile_lane *lanes; /* one for each of the device's threads */
    bool keeps_events;          /* else the phases alone are measured */
    /* Sums over the runs, as the first lane saw them; together the time of the runs. */
    int64_t phase_nanoseconds[GRAPH_UPDATE + 1];
    /* the device's own */
    int64_t mark;
    int phase;
};

struct backend {
    int interface_version; /* BACKEND_INTERFACE_VERSION */
    const char *name;

    int (*device_open)(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error);
    void (*device_close)(struct backend_device *device);
    /* From now on the calling thread is the one that uses the device, in place of the one that
     * opened it, and `cache_folder` (NULL: as it was) is where it keeps what it measures.
     * Optional: a device that does not care. */
    int (*device_enter)(struct backend_device *device, const char *cache_folder,
                        struct error *error);
    void (*device_describe)(struct backend_device *device, struct backend_device_info *info);

    /* Bytes of the device's own memory that this process holds now, for whatever; 0: it cannot be
     * told. Optional: NULL where the device has none but the process'. */
    uint64_t (*device_memory_used)(struct backend_device *device);
    /* Joules that the whole device has used since some moment; NAN: not known. Optional. */
    double (*device_energy)(struct backend_device *device);

    /* The device's clock in seconds, in place of CLOCK_MONOTONIC, for whatever is told about the
     * speed of runs. Optional: a device of the real world has none. */
    double (*device_seconds)(struct backend_device *device);

    /* Gives back what the device keeps of programs that were freed (generated code): what a process
     * holds that made many plans should tell what one of them takes. Optional. */
    void (*device_trim)(struct backend_device *device);

    /* How convolutions are done in programs that are prepared from now on. `choice` may begin with
     * a letter for how images lie; then come, for each convolution of the forward part in order,
     * three letters: of the ways to do it forward, the gradient by the data, and that by the
     * weights; "-" is what the device thinks best. What is beyond the last letter, and all with "",
     * is done so, too, and what it cannot do in the way that was chosen. Older choices are digits,
     * one for each dense convolution of 3x3 (graph_node_is_dense_3x3): the sum of 1 (forward), 2
     * and 4 where it is done directly, as its definition says. -EINVAL: no such choice. Optional,
     * as the next three are. */
    int (*device_choose_convolutions)(struct backend_device *device, const char *choice,
                                      struct error *error);
    /* The letters for a convolution of the forward part: how images of the graph lie as it is, and
     * behind that the ways that the device has beside "-". */
    void (*convolution_methods)(struct backend_device *device, const struct graph *graph,
                                const struct graph_node *node,
                                char methods[CONVOLUTION_METHODS_MAX]);
    /* How many parts the work of the graph's batch is divided into. */
    int (*graph_parts)(const struct backend_device *device, const struct graph *graph);
    /* Programs that are prepared from now on are divided into so many parts, whatever their work
     * is; 0: by their work. */
    void (*device_divide)(struct backend_device *device, int parts);

    /* Whether the node runs here; `reason` (256 bytes) says why not. Optional: NULL is yes. */
    bool (*supports)(struct backend_device *device, const struct graph *graph,
                     const struct graph_node *node, char *reason);

    /* Chooses layouts and implementations. `shared`: a program over the same model whose persistent
     * tensors this one uses (same storage, so same layout), or NULL. The graph must outlive it. */
    int (*program_prepare)(struct backend_device *device, const struct graph *graph,
                           const struct backend_program *shared, struct backend_program **program,
                           struct error *error);
    void (*program_free)(struct backend_program *program);
    /* What the choice costs; the arrays live as long as the program. */
    void (*program_memory)(const struct backend_program *program, struct memory_request *request);

    /* How it does a node. Optional. */
    void (*program_describe)(const struct backend_program *program, int32_t node,
                             struct node_description *description);

    /* The buffer is aligned to MEMORY_ALIGNMENT, zeroed and resident: no
     * step meets a page fault. */
    int (*buffer_create)(struct backend_device *device, size_t bytes,
                         struct backend_buffer **buffer, struct error *error);
    /* The same as address space without memory: programs can be bound to it, which shows what that
     * takes, but not run. Optional. */
    int (*buffer_reserve)(struct backend_device *device, size_t bytes,
                          struct backend_buffer **buffer, struct error *error);
    void (*buffer_free)(struct backend_buffer *buffer);
    /* The buffer's bytes in host memory (batches are staged in them), or NULL when the host cannot
     * address the device's memory. */
    void *(*buffer_host)(struct backend_buffer *buffer);

    /* The host will fill this part of the bytes that buffer_host() gives with batches: they are
     * brought from there while the step before is at work. Optional. */
    int (*buffer_stage)(struct backend_buffer *buffer, size_t offset, size_t bytes,
                        struct error *error);

    int (*program_bind)(struct backend_program *program, const struct memory_placement *placement,
                        struct backend_buffer *buffer, struct error *error);

    /* Copies between host memory in the canonical form (float32 or int32, row-major, PyTorch's
     * shape) and the tensor's place on the device. */
    int (*tensor_write)(struct backend_program *program, int32_t tensor, const void *canonical,
                        struct error *error);
    int (*tensor_read)(struct backend_program *program, int32_t tensor, void *canonical,
                       struct error *error);

    /* The next run reads the input tensor (samples or target) from `canonical`: host memory that
     * stays valid and unchanged until the run after it begins. Aligned to MEMORY_ALIGNMENT. */
    int (*program_set_input)(struct backend_program *program, int32_t tensor, const void *canonical,
                             struct error *error);

    int (*program_run)(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error);

    /* ---- data in the device's memory: optional, all of it or nothing ---- */

    /* Bytes that the data take in a buffer; 0: the device cannot make batches of them. */
    size_t (*data_bytes)(struct backend_device *device, const struct backend_data_config *config);
    /* They lie in the buffer from `offset` on, a multiple of MEMORY_ALIGNMENT. */
    int (*data_create)(struct backend_device *device, const struct backend_data_config *config,
                       struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                       struct error *error);
    void (*data_free)(struct backend_data *data);
    /* Copies raw elements, and targets of samples, to their place. */
    int (*data_write)(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                      struct error *error);
    int (*data_write_targets)(struct backend_data *data, int64_t first, int64_t count,
                              const void *targets, struct error *error);
    /* Copies a part of the orders, which nothing that runs still reads: numbers of samples. */
    int (*data_write_order)(struct backend_data *data, int64_t first, int64_t count,
                            const uint32_t *indices, struct error *error);
    /* Runs so many steps one after the other, at most BACKEND_STEPS_MAX, on batches of the data;
     * the results are those of single runs, the same bits. Returns before they are done; waits for
     * those of the call before the last one. */
    int (*program_run_steps)(struct backend_program *program, struct backend_data *data,
                             const struct backend_step *steps, int count, struct error *error);

    /* Whether the latest run's update changed nothing because a gradient was NaN or
     * infinite; waits for that run. One answer for all gradients: asked once per update,
     * with a loss scale alone. */
    bool (*program_update_skipped)(struct backend_program *program);

    /* The loss scale that steps with `scales_itself` begin with and go on by, and where it stands
     * now (waits for runs); one for all programs of a model. Optional, both or none. */
    void (*program_write_loss_scale)(struct backend_program *program,
                                     const struct loss_scale *loss_scale);
    void (*program_read_loss_scale)(struct backend_program *program, struct loss_scale *loss_scale);

    /* Runs are recorded from now on, by programs of this device; NULL ends it. Not while one runs.
     * The results stay the same bits, and nothing is allocated but what the first run of its kind
     * takes. Optional, as the next one is. */
    void (*device_profile)(struct backend_device *device, struct profile_recorder *recorder);
    /* The most events that one run of the program leaves on a lane. After program_bind. */
    int64_t (*program_profile_events)(const struct backend_program *program);

    void (*program_reset_metrics)(struct backend_program *program);
    void (*program_read_metrics)(struct backend_program *program, struct step_metrics *metrics);
    /* Goes on adding to these sums: a run resumed in mid-epoch reports the same bits. */
    void (*program_restore_metrics)(struct backend_program *program,
                                    const struct step_metrics *metrics);
};

/* The built-in CPU backend (engine/backends/cpu/). */
const struct backend *backend_cpu(void);
/* Computes on the CPU, the same bits, with a memory and a clock of its own
 * (engine/backends/simulated/). */
const struct backend *backend_simulated(void);
