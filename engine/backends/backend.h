/* backend.h: what a device must offer to run a graph. One vtable per backend; `cpu` is built in,
 * others are plugins that export `const struct backend *traind_backend(void)`.
 *
 * The order of calls: device_open, then for each graph program_prepare (the backend chooses layouts
 * and says what they cost), memory_plan_make over all of them, buffer_create, program_bind for
 * each, tensor_write for the initial weights, then program_run step after step. After program_bind
 * nothing allocates.
 *
 * A function that works on the device fails with one of these; after all but the first the process
 * cannot use the device any more:
 *
 * - -ERROR_DEVICE_MEMORY: the device has too little memory.
 * - -ERROR_DEVICE_LOST: the device is gone.
 * - -ERROR_DEVICE_CORRUPTION: an error in its memory could not be corrected.
 * - -ERROR_DEVICE_ACCESS: a kernel accessed an invalid address.
 * - -ERROR_DEVICE_FAILURE: a kernel or a library call failed otherwise.
 *
 * Objects are released in reverse order; a device outlives its programs and buffers. One program
 * runs at a time, from the thread that called device_open. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"
#include "engine/graph/loss_scale.h"
#include "engine/graph/memory_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BACKEND_INTERFACE_VERSION = 9 };
enum { BACKEND_STEPS_MAX = 64 };         /* of one program_run_steps() */
enum { CONVOLUTION_CHOICES_MAX = 1024 }; /* bytes of device_choose_convolutions()' text, with NUL */

struct backend_device;
struct backend_program;
struct backend_buffer;
struct backend_data;

enum { NODE_METHOD_MAX = 64 };
enum { CONVOLUTION_METHODS_MAX = 16 }; /* bytes of convolution_methods()' letters, with NUL */

/* How a program executes a node. Times of two nodes are comparable where this is equal. */
struct node_description {
    /* blank-separated words, those that matter most first: "winograd", "jit:avx512_core relu" */
    char method[NODE_METHOD_MAX];
    bool absorbed; /* a neighbouring node's kernel does its work too (fusion) */
    int tasks;     /* parts into which the work on the batch is divided */
    int lanes;     /* threads or queues that work on the tasks at the same time */
};

/* Describes a simulated device; it must outlive the device. */
struct simulated_device_config {
    const char *name;      /* "sim0" */
    uint64_t memory_bytes; /* all buffers together may take so much */
    /* Seconds that the simulated device takes for a node. `description` says how the CPU executes
     * it. */
    double (*node_seconds)(const void *context, const struct graph *graph, int32_t node,
                           const struct node_description *description);
    const void *context;
    double loss_error; /* part by which losses are told too high, to try who notices; 0: none */
};

struct backend_device_config {
    int index;        /* which device of the backend */
    const char *name; /* the device's name; NULL: the backend chooses one. It is copied */
    int threads;      /* CPU: 0 uses every core that this process may use */
    /* Offer compute types that the device lacks, so that tests run on any machine. Products then
     * round their operands to the type and multiply in float32, which is slow. */
    bool emulate_precision;
    const struct simulated_device_config *simulated; /* of backend_simulated() alone */
    /* Folder for the device's measurements of library kernels, which later programs reuse; NULL:
     * they are not kept. */
    const char *cache_folder;
};

/* The time that one part of opening a device took. */
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
    bool owns_memory; /* memory of its own, not the process': only buffers take some of it */
    /* Sets of 1 << enum tensor_type: the types that a graph may have as its compute_type (always
     * with float32), and those in which linear layers, or convolutions, are faster than in
     * float32. */
    unsigned compute_types, fast_linear_types, fast_convolution_types;
    bool rounds_parameters; /* whether it can do what graph->rounds_parameters asks for */
    /* Whether fast_convolution_types holds for this graph, which is not lowered yet; NULL: it holds
     * for every graph. */
    bool (*convolutions_are_fast)(const struct graph *graph);
    /* The peaks that the device reports of itself, of products by type; 0: it reports none. */
    double peak_bytes_per_second, peak_flops[TENSOR_INT32];
    struct device_opening opening[BACKEND_OPENING_PARTS]; /* empty if opening is quick */
};

/* A part of a device's memory. */
struct backend_heap {
    bool on_device; /* it is the device's own, not the host's */
    uint64_t bytes;
    /* What this process may hold of it by the driver's estimate, and what it holds; 0, 0: the
     * driver estimates nothing. What all others hold is `bytes` - `budget`. */
    uint64_t budget, used;
};
enum { BACKEND_HEAPS_MAX = 16 };

/* A device as its driver describes it while nobody has opened it. */
struct backend_found_device {
    int index;          /* what device_open() calls it, if the process sees all devices */
    char id[64];        /* stable: "vulkan-" and the UUID, as CUDA writes it behind "GPU-" */
    char type[16];      /* "discrete", "integrated", "virtual", "cpu" or "other" */
    char model[128];    /* "AMD Radeon RX 7900 XTX" */
    char driver[128];   /* its name and version */
    char features[256]; /* blank-separated words */
    bool is_software;   /* it computes on the host's processor */
    bool shares_memory; /* its memory is the host's */
    struct backend_heap heaps[BACKEND_HEAPS_MAX];
    int heap_count;
};

/* The values that differ from step to step. */
struct step_scalars {
    int64_t step; /* number of this update, from 1; Adam's bias correction uses it */
    /* number of this batch, from 1; a step has several batches when gradients accumulate. Dropout
     * draws its mask with it */
    int64_t batch;
    uint64_t seed; /* for dropout */
    float learning_rate;
    float gradient_scale; /* multiplies the loss' gradient: 1 / micro-steps of an accumulation */
    bool accumulate;      /* add to the previous micro-step's gradients instead of replacing them */
    /* the update scales all gradients by min(1, clip_norm / (norm + 1e-6)), where norm is that of
     * all gradients together (torch.nn.utils.clip_grad_norm_); 0: no scaling */
    float clip_norm;
    /* the update then limits each gradient to -clip_value … clip_value; 0: no limit */
    float clip_value;
    bool cycle_momentum; /* `momentum` takes the place of the optimizer's momentum or beta1 */
    double momentum;
    /* OP_MOVING_AVERAGE: what the value counts in its average, 1 - decay. The decay itself would
     * be rounded to 1 after many steps of Schedule-Free */
    float average_share;
    /* product of the momenta of all steps up to this one (struct optimizer) */
    double momentum_product;
    /* 0: none. Otherwise it multiplies the loss' gradient too, and the update first divides all
     * gradients by it. If a gradient is NaN or infinite, the update changes nothing:
     * program_update_skipped() */
    float loss_scale;
    int64_t skipped; /* earlier updates that changed nothing; the optimizer does not count them */
    /* the device keeps and advances loss_scale and skipped itself (program_write_loss_scale()); the
     * values here are of an earlier step */
    bool scales_itself;
};

/* ---- data in the device's memory ---- */

enum backend_element { BACKEND_UINT8, BACKEND_FLOAT32, BACKEND_INT32 };

/* A set of raw samples that the device keeps and makes batches of, with the same random draws and
 * values as engine/data/. Sample i begins at element i * sample_stride. */
struct backend_data_config {
    enum backend_element element;
    int64_t elements, count; /* numbers of raw elements and of samples */
    int64_t sample_stride;
    int64_t channels, height, width; /* of an image; else 1, 1 and the elements of a sample */
    bool symbols;                    /* rows are int32 symbols, which nothing below changes */
    /* value = (raw - mean[g]) * factor[g]. g is 0 if groups is 1, the channel if groups is the
     * number of channels, else the place within the sample (groups == width; not for images). */
    int64_t groups;
    const float *mean, *factor;

    int64_t target_width; /* float32 values of a sample's target; 0: an int32 label */
    int64_t classes;
    int64_t orders; /* room for this many sample indices: the orders of epochs of several sets */
    int64_t batch;  /* batch size of the largest program that reads the data */

    /* as in struct augmentation; label noise has been applied to the labels already */
    uint64_t seed;
    int64_t crop_padding, cutout_side;
    bool horizontal_flip, mixes;
    bool soft; /* targets of augmented batches are probabilities */
    double label_smoothing;
};

/* The samples of one step; their number is the program's batch. */
struct backend_batch {
    int64_t first; /* place of the first sample's index in the orders */
    bool augmented;
    uint32_t epoch; /* part of the key of augmentation's random draws */
    float share;    /* MixUp's lambda */
};

struct backend_step {
    struct step_scalars scalars;
    struct backend_batch batch;
    unsigned phases;
};

/* Sums over the steps since program_reset_metrics(). They stay on the device until they are
 * read. */
struct step_metrics {
    double loss_sum; /* of each step's mean loss times its labels */
    int64_t samples;
    /* that count: as many as samples, or those of all their tokens; of triplets, these */
    int64_t labels;
    int64_t correct;        /* argmax == label; 0 for regression */
    double last_loss;       /* mean loss of the latest step */
    int64_t nonfinite_step; /* the first step whose loss was NaN or infinite, else 0 */
};

/* The mean loss; 0 where nothing counts, as in batches without a triplet. */
static inline double step_metrics_loss(const struct step_metrics *metrics)
{
    return metrics->loss_sum / (double)(metrics->labels ? metrics->labels : 1);
}

enum program_phases {
    PROGRAM_FORWARD = 1 << GRAPH_FORWARD,
    PROGRAM_BACKWARD = 1 << GRAPH_BACKWARD,
    PROGRAM_UPDATE = 1 << GRAPH_UPDATE,
    PROGRAM_STEP = PROGRAM_FORWARD | PROGRAM_BACKWARD | PROGRAM_UPDATE
};

/* Times of nodes and phases: the caller lends this memory to the device and reads it between
 * runs. */
enum { PROFILE_WAIT = -1 }; /* stands in `node` while the lane waits for the others */

struct profile_event {
    /* nanoseconds of device_seconds()' clock, or of CLOCK_MONOTONIC without one */
    int64_t begin, end;
    int32_t node; /* of the graph that ran, or PROFILE_WAIT */
    int32_t task; /* number of the part of the node's work */
};

/* The events of one thread (CPU) or one queue (other devices), in order. */
struct profile_lane {
    _Alignas(64) struct profile_event *events;
    int64_t capacity, count; /* events beyond the capacity are not kept */
};

struct profile_recorder {
    struct profile_lane *lanes; /* one for each of the device's threads */
    bool keeps_events;          /* false: only the phases are measured */
    /* Sums over the runs, measured on the first lane; they add up to the time of the runs. */
    int64_t phase_nanoseconds[GRAPH_UPDATE + 1];
    /* the device's own */
    int64_t mark;
    int phase;
};

struct backend {
    int interface_version; /* BACKEND_INTERFACE_VERSION */
    const char *name;

    /* Lists the devices without opening one. Returns how many there are, at most `limit`, or why
     * nothing can be known: -ERROR_DEVICE_LOST. Optional: `traind-worker probe` calls it. */
    int (*devices_find)(struct backend_found_device *devices, int limit, struct error *error);
    int (*device_open)(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error);
    void (*device_close)(struct backend_device *device);
    /* Makes the calling thread the one that uses the device, instead of the one that opened it, and
     * `cache_folder` the folder of its measurements (NULL: no change). Optional: NULL where any
     * thread may use the device. */
    int (*device_enter)(struct backend_device *device, const char *cache_folder,
                        struct error *error);
    void (*device_describe)(struct backend_device *device, struct backend_device_info *info);

    /* Bytes of the device's own memory that this process holds now, for any purpose; 0: unknown.
     * Optional: NULL where the device has no memory of its own. */
    uint64_t (*device_memory_used)(struct backend_device *device);
    /* Joules that the whole device has used since an arbitrary moment; NAN: unknown. Optional. */
    double (*device_energy)(struct backend_device *device);

    /* The device's clock in seconds, which replaces CLOCK_MONOTONIC in all reports of speed.
     * Optional: only a simulated device has one. */
    double (*device_seconds)(struct backend_device *device);

    /* Frees what the device still keeps of freed programs, such as generated code. A process that
     * made many plans calls it before it measures the memory that one plan takes. Optional. */
    void (*device_trim)(struct backend_device *device);

    /* Chooses the methods of convolutions for programs that are prepared from now on. `choice` may
     * begin with a letter for the layout of images. Three letters follow for each convolution of
     * the forward part, in order: the methods of the forward pass, of the gradient by the data and
     * of that by the weights. "-" leaves the method to the device; so do missing letters, and a
     * letter whose method the device lacks for that convolution. Older choices have one digit for
     * each dense convolution of 3x3 (graph_node_is_dense_3x3): the sum of 1 (forward), 2 (data) and
     * 4 (weights) for the passes that are done directly, by the definition. -EINVAL: malformed.
     * Optional, like the next four. */
    int (*device_choose_convolutions)(struct backend_device *device, const char *choice,
                                      struct error *error);
    /* Writes the letters that a convolution of the forward part can have: first the layout that the
     * graph's images have now, then the device's methods other than "-". */
    void (*convolution_methods)(struct backend_device *device, const struct graph *graph,
                                const struct graph_node *node,
                                char methods[CONVOLUTION_METHODS_MAX]);
    /* The number of parts into which the device divides the work on the graph's batch. */
    int (*graph_parts)(const struct backend_device *device, const struct graph *graph);
    /* Whether these parts would differ much in their numbers of samples, so that some convolutions
     * divide samples, too. */
    bool (*graph_slices_differ)(const struct backend_device *device, const struct graph *graph);
    /* Divides programs that are prepared from now on into `parts` parts; 0: the device decides by
     * the amount of work. */
    void (*device_divide)(struct backend_device *device, int parts);
    /* Runs function(context, part, parts) for each part at once, on the threads that run programs
     * on the host's cores and wait between two runs. Optional: NULL where the device has none. */
    void (*device_share)(struct backend_device *device,
                         void (*function)(void *context, int part, int parts), void *context);

    /* Whether OP_LINEAR_BYTES of so many features is faster than a linear layer whose samples the
     * host turns into float32 numbers. Optional: NULL means that the device does not run it. */
    bool (*multiplies_bytes)(const struct backend_device *device, int64_t features);

    /* Whether the device can run the node; `reason` (256 bytes) says why not. Optional: NULL means
     * that it can run all. */
    bool (*supports)(struct backend_device *device, const struct graph *graph,
                     const struct graph_node *node, char *reason);

    /* Chooses layouts and implementations. `shared` is NULL, or a program over the same model with
     * which this one shares the storage, and so the layout, of persistent tensors. The graph must
     * outlive the program. */
    int (*program_prepare)(struct backend_device *device, const struct graph *graph,
                           const struct backend_program *shared, struct backend_program **program,
                           struct error *error);
    void (*program_free)(struct backend_program *program);
    /* The memory that the prepared program needs; the arrays live as long as the program. */
    void (*program_memory)(const struct backend_program *program, struct memory_request *request);

    /* How the program executes a node. Optional. */
    void (*program_describe)(const struct backend_program *program, int32_t node,
                             struct node_description *description);

    /* The buffer is aligned to MEMORY_ALIGNMENT, zeroed and resident: no
     * step meets a page fault. */
    int (*buffer_create)(struct backend_device *device, size_t bytes,
                         struct backend_buffer **buffer, struct error *error);
    /* The same as address space without memory. Programs can be bound to it, which shows how much
     * memory binding takes, but they cannot run. Optional. */
    int (*buffer_reserve)(struct backend_device *device, size_t bytes,
                          struct backend_buffer **buffer, struct error *error);
    void (*buffer_free)(struct backend_buffer *buffer);
    /* The buffer's bytes in host memory (batches are staged in them), or NULL when the host cannot
     * address the device's memory. */
    void *(*buffer_host)(struct backend_buffer *buffer);

    /* Announces that the host will write batches to this part of buffer_host()'s bytes. The device
     * copies a batch from there while the previous step runs. Optional. */
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

    /* Makes the next run read the input tensor (samples or target) from `canonical`: host memory,
     * aligned to MEMORY_ALIGNMENT, that stays valid and unchanged until the run after that
     * begins. */
    int (*program_set_input)(struct backend_program *program, int32_t tensor, const void *canonical,
                             struct error *error);

    int (*program_run)(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error);

    /* ---- data in the device's memory: optional, all of these functions or none ---- */

    /* Bytes that the data take in a buffer; 0: the device cannot make batches from them. */
    size_t (*data_bytes)(struct backend_device *device, const struct backend_data_config *config);
    /* Places the data in the buffer at `offset`, a multiple of MEMORY_ALIGNMENT. */
    int (*data_create)(struct backend_device *device, const struct backend_data_config *config,
                       struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                       struct error *error);
    void (*data_free)(struct backend_data *data);
    /* Copy `count` raw elements, or the targets of `count` samples, to the device. */
    int (*data_write)(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                      struct error *error);
    int (*data_write_targets)(struct backend_data *data, int64_t first, int64_t count,
                              const void *targets, struct error *error);
    /* Copies sample indices into a part of the orders that no running step still reads. */
    int (*data_write_order)(struct backend_data *data, int64_t first, int64_t count,
                            const uint32_t *indices, struct error *error);
    /* Runs `count` steps in order, at most BACKEND_STEPS_MAX, on batches of the data. The results
     * have the same bits as those of single runs. Returns before the steps are done, but waits for
     * the steps of the call before the previous one. */
    int (*program_run_steps)(struct backend_program *program, struct backend_data *data,
                             const struct backend_step *steps, int count, struct error *error);

    /* Whether the latest run's update changed nothing because a gradient was NaN or infinite; waits
     * for that run. The answer is one for all gradients. It is asked once per update, and only with
     * a loss scale. */
    bool (*program_update_skipped)(struct backend_program *program);

    /* Set and read (after waiting for runs) the loss scale that the device advances itself in steps
     * with `scales_itself`. All programs of a model share it. Optional, both or none. */
    void (*program_write_loss_scale)(struct backend_program *program,
                                     const struct loss_scale *loss_scale);
    void (*program_read_loss_scale)(struct backend_program *program, struct loss_scale *loss_scale);

    /* Records the runs of all programs of this device from now on; NULL ends that. Not while a
     * program runs. Results keep the same bits. Only the first run of a kind may allocate.
     * Optional, like the next one. */
    void (*device_profile)(struct backend_device *device, struct profile_recorder *recorder);
    /* The largest number of events that one run of the program records on a lane. After
     * program_bind. */
    int64_t (*program_profile_events)(const struct backend_program *program);

    void (*program_reset_metrics)(struct backend_program *program);
    void (*program_read_metrics)(struct backend_program *program, struct step_metrics *metrics);
    /* Continues from these sums, so that a run resumed in mid-epoch reports the same bits. */
    void (*program_restore_metrics)(struct backend_program *program,
                                    const struct step_metrics *metrics);
};

/* The built-in CPU backend (engine/backends/cpu/). */
const struct backend *backend_cpu(void);
/* Computes on the CPU, with the same bits, but has a memory limit and a clock of its own
 * (engine/backends/simulated/). */
const struct backend *backend_simulated(void);
