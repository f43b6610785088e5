/* vulkan.h: what the files of the Vulkan backend share: the device, its memory, programs, and how
 * operators record their work (docs/internals/vulkan-backend.md).
 *
 * Shaders get addresses of numbers in the arena (VK_KHR_buffer_device_address) and sizes as push
 * constants; there are no descriptors. Tensors are stored in PyTorch's order. */
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/choice_table.h"
#include "engine/backends/update_rule.h"
#include "engine/backends/vulkan/library.h"
#include "engine/backends/vulkan/shaders/shared.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VULKAN_TURNS = 2, /* launches under way: the host prepares one while the device does another */
    VULKAN_SLOTS = VULKAN_TURNS * BACKEND_STEPS_MAX, /* their steps, turn by turn */
    VULKAN_PUSH_BYTES = 128,                         /* of push constants, which every device has */
    VULKAN_CONSTANTS_MAX = 8,          /* specialization constants that a launch sets */
    VULKAN_CONSTANTS = CONSTANT_COUNT, /* these, and those that shared.h has beside */
    VULKAN_CAPTURES_MAX = 16,          /* kinds of runs of a program */
    VULKAN_INPUTS = 3                  /* samples, target, lengths */
};

/* The shaders, of which shaders/ has the sources: SHADER_linear, … The build lists them. */
enum vulkan_shader {
#define SHADER(name) SHADER_##name,
#include "engine/backends/vulkan/shader_list.h"
#undef SHADER
    SHADER_COUNT
};

struct vulkan_code {
    const uint32_t *words;
    const char *end;
};
/* A shader for float32 alone, for operands of 16 bits as well (numbers.glsl), and for products of
 * such by cooperative matrices (matrix_tiles.glsl). */
enum vulkan_variant {
    VARIANT_FLOATS,
    VARIANT_HALVES,
    VARIANT_FLOAT16_MATRICES,
    VARIANT_BFLOAT16_MATRICES,
    VARIANT_COUNT
};
struct vulkan_shader_code {
    struct vulkan_code variants[VARIANT_COUNT];
    const char *name;
};
extern const struct vulkan_shader_code vulkan_shaders[SHADER_COUNT];

/* Memory that is allocated once and bound to one buffer. */
struct vulkan_memory {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    char *mapped; /* the same bytes on the host; NULL: it cannot address them */
    size_t bytes;
};

/* A shader with its specialization constants. */
struct vulkan_pipeline {
    enum vulkan_shader shader;
    uint32_t constants[VULKAN_CONSTANTS];
    VkPipeline pipeline;
};

/* A [m, k] and B [k, n], which a subgroup of so many invocations multiplies; m 0: none. */
struct vulkan_matrices {
    uint32_t m, n, k, subgroup;
    bool checked; /* matrices_check() */
};

/* What the driver has compiled, for later processes: pipeline_cache.c. */
struct vulkan_pipeline_cache {
    VkPipelineCache cache;
    char *path; /* of the file, owned; NULL: nothing is kept */
    bool grown; /* by a pipeline that the file may lack */
};

struct backend_device {
    struct vulkan_library library;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    VkCommandPool commands;
    VkPipelineLayout layout;
    VkShaderModule modules[SHADER_COUNT][VARIANT_COUNT]; /* made when first used */
    struct vulkan_pipeline *pipelines;                   /* owned */
    int pipeline_count, pipeline_capacity;
    struct vulkan_pipeline_cache cache;
    /* tiles of products: product.c */
    struct choice_table *choices;
    bool measures;        /* which tile is the fastest */
    char tile[16];        /* that is taken where it can be; "": none */
    VkSemaphore timeline; /* counts submissions that are done */
    uint64_t submitted;
    struct vulkan_memory
        staging; /* for copies of tensors where the host cannot address the arena */
    char name[32];
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceMemoryProperties memory;
    VkDeviceSize allocation_max; /* bytes of one allocation */
    bool has_budget;             /* VK_EXT_memory_budget */
    bool stores_halves;          /* shaders read and write numbers of 16 bits */
    struct {
        struct vulkan_matrices float16, bfloat16;
    } matrices;                 /* matrices.h */
    struct vulkan_times *times; /* owned; NULL: launches are not timed (times.h) */
};

struct backend_buffer {
    struct backend_device *device;
    struct vulkan_memory memory;
    /* As many bytes of address space on the host. Only batches are written there, which each run
     * copies to its slot (exchange.c). */
    void *host;
};

/* How a step differs from others of the program: each kind is recorded once for each slot. */
struct vulkan_run_kind {
    unsigned phases;
    bool accumulate, sums_squares;
    const struct backend_data *data; /* of which the device makes the batch; NULL: the host does */
    bool augmented;
};

struct vulkan_capture {
    struct vulkan_run_kind kind;
    VkCommandBuffer commands[VULKAN_SLOTS];
};

/* What the host keeps of a launch until its results are read. */
struct vulkan_pending {
    int count;           /* of its steps; 0: there is none */
    uint64_t submission; /* it is done when the timeline has this value */
    bool has_loss;
    int64_t step[BACKEND_STEPS_MAX];
};

/* What a node computes along with its own work: fusion.c. */
struct vulkan_fusion {
    bool absorbed;       /* another node does its work */
    uint32_t activation; /* 1 + enum activation_kind; 0: none */
    int32_t addend;      /* a tensor that a batch norm adds before that; -1: none */
    /* A batch norm's gradient: the gradient by an activation's result, or two whose sum it is; -1:
     * none. With `bias`, that of the batch norm, the derivative of `activation` is computed from x.
     * With `result`, that of a ReLU, what passes the ReLU is stored as input[1]. */
    int32_t incoming[2], bias, result;
};

struct backend_program {
    struct backend_device *device;
    const struct graph *graph;
    size_t *tensor_bytes; /* owned, like the next seven */
    uint8_t *stored;      /* enum tensor_type: types.c */
    int32_t *alias;       /* the tensor in whose place it lies, or -1 */
    VkDeviceAddress *address;
    size_t *workspace_bytes;
    VkDeviceAddress *workspace;
    struct vulkan_fusion *fusions; /* per node */
    int32_t *node_step;            /* per node: the node that does its work */
    struct backend_buffer *buffer;
    struct vulkan_memory exchange; /* what host and device exchange in each launch: exchange.c */
    struct vulkan_memory control;  /* struct shader_control, and the scalars of the present step */
    int32_t square_count;          /* of its partial sums */
    const void *input[VULKAN_INPUTS];
    struct vulkan_capture captures[VULKAN_CAPTURES_MAX];
    int capture_count;
    struct vulkan_pending pending[VULKAN_TURNS];
    int turn; /* of the next launch */
    bool update_skipped, has_loss;
    struct step_metrics metrics;
};

/* A program while a kind of run is recorded. */
struct recorder {
    struct backend_program *program;
    struct vulkan_run_kind kind;
    VkCommandBuffer commands;
    VkDeviceAddress scalars, results; /* of the step: struct shader_scalars, shader_results */
    /* what was read and written since the last barrier */
    struct recorded_range *ranges; /* owned */
    int range_count, range_capacity;
    int node_first; /* the first range of the present node */
    int32_t node;   /* the present one; -1: there is none */
    bool is_timed;  /* times.h */
    /* nothing in the arena counts yet, and what is recorded will not run */
    bool rehearses;
};

/* Records the work of a node. */
typedef int vulkan_operator(struct recorder *recorder, int32_t node, struct error *error);

/* ---- device.c ---- */

int vulkan_device_open(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error);
void vulkan_device_close(struct backend_device *device);
int vulkan_device_enter(struct backend_device *device, const char *cache_folder,
                        struct error *error);
void vulkan_device_describe(struct backend_device *device, struct backend_device_info *info);
uint64_t vulkan_device_memory_used(struct backend_device *device);
/* Whether the device uses the machine's memory, as integrated GPUs and drivers in software do. */
bool vulkan_device_shares_memory(const struct backend_device *device);
bool vulkan_device_has_extension(struct backend_device *device, const char *name);
/* The first step of opening: the loader and an instance. vulkan_device_close() undoes it. */
int vulkan_device_begin(struct backend_device *device, struct error *error);
/* Reads what the driver says of device->physical. */
void vulkan_device_read(struct backend_device *device);
/* "discrete", "integrated", "virtual", "cpu" or "other" */
const char *vulkan_device_type(const struct backend_device *device);

/* ---- find.c ---- */

enum { VULKAN_DEVICES_MAX = 64, VULKAN_ID_MAX = 64 };

/* The devices by number, at most VULKAN_DEVICES_MAX. Where TRAIND_VULKAN_DEVICES is set they are
 * those whose ids it names. Returns how many, or a negative error. */
int vulkan_physical_list(struct backend_device *device, VkPhysicalDevice *list,
                         struct error *error);
int vulkan_devices_find(struct backend_found_device *devices, int limit, struct error *error);

/* ---- memory.c ---- */

/* Allocates memory of the device's own, or memory that the host addresses, too.
 * -ERROR_DEVICE_MEMORY: there is too little. */
int vulkan_memory_allocate(struct backend_device *device, size_t bytes, bool on_host,
                           struct vulkan_memory *memory, struct error *error);
void vulkan_memory_free(struct backend_device *device, struct vulkan_memory *memory);
/* Copies bytes from the host, with `write`, or to it. Where the host addresses the memory it does
 * not wait for what the device does there. */
int vulkan_memory_copy(struct backend_device *device, const struct vulkan_memory *memory,
                       size_t offset, void *host, size_t bytes, bool write, struct error *error);
int vulkan_buffer_create(struct backend_device *device, size_t bytes,
                         struct backend_buffer **buffer, struct error *error);
void vulkan_buffer_free(struct backend_buffer *buffer);
void *vulkan_buffer_host(struct backend_buffer *buffer);

/* ---- queue.c ---- */

/* Begins commands that are submitted once or, with `again`, many times. */
int queue_begin(struct backend_device *device, bool again, VkCommandBuffer *commands,
                struct error *error);
/* Ends commands that queue_begin() began. They are freed by queue_discard(). */
int queue_end(struct backend_device *device, VkCommandBuffer commands, struct error *error);
void queue_discard(struct backend_device *device, VkCommandBuffer commands);
/* Submits commands at once, to be done in their order; *submission is what queue_wait() waits for.
 */
int queue_submit(struct backend_device *device, const VkCommandBuffer *commands, int count,
                 uint64_t *submission, struct error *error);
int queue_wait(struct backend_device *device, uint64_t submission, struct error *error);
/* Ends and submits commands, waits until they are done, and frees them. */
int queue_finish(struct backend_device *device, VkCommandBuffer commands, struct error *error);
/* Lets what follows see all that was written before, by shaders, copies and the host. */
void queue_barrier(struct backend_device *device, VkCommandBuffer commands);

/* ---- pipelines.c ---- */

/* The pipeline of a shader with these constants, of which the first is the number of invocations
 * of a workgroup. It is compiled when it is asked for first, and belongs to the device. */
int pipeline_find(struct backend_device *device, enum vulkan_shader shader,
                  const uint32_t constants[VULKAN_CONSTANTS], VkPipeline *pipeline,
                  struct error *error);
void pipelines_free(struct backend_device *device);

/* ---- pipeline_cache.c ---- */

/* Makes the cache that pipelines are compiled with, of what the folder has; NULL: nothing is kept.
 * No file, or one that cannot be used, is no error. */
int pipeline_cache_open(struct backend_device *device, const char *folder, struct error *error);
/* Takes another folder, with what it has; NULL: no change. */
int pipeline_cache_keep(struct backend_device *device, const char *folder, struct error *error);
/* Writes the file if pipelines have been compiled since then that it lacks. */
void pipeline_cache_save(struct backend_device *device);
/* Saves it, too. */
void pipeline_cache_close(struct backend_device *device);

/* ---- program.c ---- */

bool vulkan_supports(struct backend_device *device, const struct graph *graph,
                     const struct graph_node *node, char *reason);
int vulkan_program_prepare(struct backend_device *device, const struct graph *graph,
                           const struct backend_program *shared, struct backend_program **program,
                           struct error *error);
void vulkan_program_free(struct backend_program *program);
void vulkan_program_memory(const struct backend_program *program, struct memory_request *request);
int vulkan_program_bind(struct backend_program *program, const struct memory_placement *placement,
                        struct backend_buffer *buffer, struct error *error);

/* Where a step's scalars are while it runs: struct shader_scalars. */
VkDeviceAddress program_scalars(const struct backend_program *program);

static inline int64_t program_elements(const struct backend_program *program, int32_t tensor)
{
    return graph_shape_elements(&program->graph->tensors[tensor].shape);
}

/* Whether the tensor's numbers have 16 bits, and are float32 on the host. */
static inline bool program_is_half(const struct backend_program *program, int32_t tensor)
{
    return program->stored[tensor] == TENSOR_BFLOAT16 || program->stored[tensor] == TENSOR_FLOAT16;
}

/* An address whose numbers have 16 bits is odd until they are launched on: all numbers lie at even
 * ones. */
enum { ADDRESS_OF_HALVES = 1 };

/* The address of the tensor's numbers, as launches take it; 0: the node has no such operand. */
static inline VkDeviceAddress program_address(const struct backend_program *program, int32_t tensor)
{
    if (tensor < 0 || !program->address[tensor])
        return 0;
    return program->address[tensor] | (program_is_half(program, tensor) ? ADDRESS_OF_HALVES : 0);
}

/* The address of the number `count` numbers behind another one. */
static inline VkDeviceAddress address_behind(VkDeviceAddress address, int64_t count)
{
    const size_t bytes = address & ADDRESS_OF_HALVES ? sizeof(uint16_t) : sizeof(float);

    return address + (VkDeviceSize)count * bytes;
}

/* ---- types.c: how tensors are stored ---- */

/* Whether the device computes in the type; if not, *reason says why. */
bool types_support(const struct backend_device *device, enum tensor_type type, char *reason);
/* Types of products, as sets of 1 << enum tensor_type. */
unsigned types_of_device(const struct backend_device *device);
void types_choose(struct backend_program *program);

/* ---- exchange.c: scalars, batches and results of a launch ---- */

/* Allocates the slots. */
int exchange_create(struct backend_program *program, struct error *error);
/* Bytes of a step's scalars. */
size_t exchange_scalars_bytes(const struct backend_program *program);
VkDeviceAddress exchange_results(const struct backend_program *program, int slot);
/* What loss_numbers() has. */
VkDeviceAddress exchange_numbers(const struct backend_program *program);
/* Fills in what a step reads; `data`: of which the device makes its batch, or NULL. */
void exchange_fill_step(struct backend_program *program, int slot, const struct backend_step *step,
                        const struct backend_data *data);
/* Fills in the batch of a launch of one step. */
int exchange_fill_batch(struct backend_program *program, int turn, struct error *error);
/* Record the copies of scalars and batches to where the nodes read them. */
void exchange_record_scalars(struct recorder *recorder, int slot);
int exchange_record_batch(struct recorder *recorder, int turn, struct error *error);
/* Waits for the turn's launch, if there is one, and adds its results to the metrics. */
int exchange_collect(struct backend_program *program, int turn, struct error *error);

/* ---- data.c: data in the device's memory ---- */

size_t vulkan_data_bytes(struct backend_device *device, const struct backend_data_config *config);
int vulkan_data_create(struct backend_device *device, const struct backend_data_config *config,
                       struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                       struct error *error);
void vulkan_data_free(struct backend_data *data);
int vulkan_data_write(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                      struct error *error);
int vulkan_data_write_targets(struct backend_data *data, int64_t first, int64_t count,
                              const void *targets, struct error *error);
int vulkan_data_write_order(struct backend_data *data, int64_t first, int64_t count,
                            const uint32_t *indices, struct error *error);
/* Fills in what the making of a batch reads. */
void data_scalars(const struct backend_data *data, const struct backend_batch *batch,
                  struct shader_scalars *scalars);
/* Records the making of a batch, to where the nodes read it. */
int data_record_batch(struct recorder *recorder, const struct backend_data *data, bool augmented,
                      struct error *error);

/* ---- tensors.c ---- */

int vulkan_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                        struct error *error);
int vulkan_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                       struct error *error);

/* ---- record.c ---- */

/* Begins the work of a node: waits, where needed, for what it reads and overwrites. */
int record_node(struct recorder *recorder, int32_t node, struct error *error);
/* Within a node: what follows reads what was written before. */
void record_barrier(struct recorder *recorder);

/* A launch of a shader. */
struct launch {
    enum vulkan_shader shader;
    uint32_t constants[VULKAN_CONSTANTS_MAX];
    int constant_count;
    const void *push; /* push constants, as the shader declares them */
    size_t push_bytes;
    int addresses;                          /* with which these begin, if some may be of 16 bits */
    int64_t groups[3];                      /* workgroups by axis; 0 counts as 1 */
    const struct vulkan_matrices *matrices; /* that multiply; NULL: invocations do */
    uint32_t waves[2];                      /* matrices_divide() */
};
int record_launch(struct recorder *recorder, const struct launch *launch, struct error *error);
/* Whether `count` numbers of operands, some of 16 bits, can go by pairs; `addresses` are all of
 * theirs, combined by or. */
bool record_has_pairs(VkDeviceAddress addresses, int64_t count);
/* Copies `count` numbers from one place to another, of which each may have 16 bits. */
int record_copy(struct recorder *recorder, VkDeviceAddress from, VkDeviceAddress to, int64_t count,
                struct error *error);
/* Transposes `batch` matrices; numbers of each place may have 16 bits. */
int record_transpose(struct recorder *recorder, VkDeviceAddress from, VkDeviceAddress to,
                     int64_t batch, int64_t rows, int64_t columns, struct error *error);
/* Workgroups for `count` elements, of which each invocation has one or, if that is too much for the
 * grid, several. */
int64_t record_groups(int64_t count, uint32_t workgroup);

/* ---- run.c ---- */

/* Lets the nodes choose between ways: the program has been bound, and the arena holds nothing. */
int program_rehearse(struct backend_program *program, struct error *error);
int vulkan_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                             struct error *error);
int vulkan_program_run(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error);
int vulkan_program_run_steps(struct backend_program *program, struct backend_data *data,
                             const struct backend_step *steps, int count, struct error *error);
bool vulkan_program_update_skipped(struct backend_program *program);
void vulkan_program_reset_metrics(struct backend_program *program);
void vulkan_program_read_metrics(struct backend_program *program, struct step_metrics *metrics);
void vulkan_program_restore_metrics(struct backend_program *program,
                                    const struct step_metrics *metrics);
/* Waits for all runs of the program. */
int program_collect(struct backend_program *program, struct error *error);

/* ---- fusion.c ---- */

/* Finds what nodes compute along with others' work, and where results of those lie then. */
int program_fuse(struct backend_program *program, struct error *error);

/* ---- operators.c ---- */

/* NULL: there is no such operator. */
vulkan_operator *vulkan_operator_of(enum graph_op op);
/* Bytes that the node needs while it runs. */
size_t vulkan_operator_workspace(const struct backend_program *program,
                                 const struct graph_node *node);
/* Whether the operator can add to a gradient that another node has written: graph_node.adds. */
bool vulkan_operator_adds(enum graph_op op);

/* Whether the node, in the present run, adds to the gradient that is its output `number`. */
static inline bool record_accumulates(const struct recorder *recorder,
                                      const struct graph_node *node, int number)
{
    return recorder->kind.accumulate || node->adds >> number & 1;
}
