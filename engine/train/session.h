/* session.h: one model on one device. A session has several programs over the same weights (for the
 * training batch, the shorter last batch of an epoch, and evaluation batches), which are planned
 * together into one arena.
 *
 * session_prepare() builds the graphs and the plan and allocates nothing on the device; planning a
 * job needs no more. session_allocate() makes the arena, binds the programs and draws the initial
 * weights; nothing allocates afterwards. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* of each kind: the full batch and the shorter last ones of several sets */
    SESSION_BATCH_SIZES_MAX = 4,
    SESSION_LENGTHS_MAX = 7, /* beside that of the samples */
    SESSION_TRAINING_MAX = SESSION_BATCH_SIZES_MAX + SESSION_LENGTHS_MAX, /* programs */
    SESSION_DATA_MAX = 3 /* sets in the device's memory */
};

/* Appends the model's forward part and its loss to an initialised graph. */
typedef int (*session_build_function)(void *context, struct graph *graph, struct error *error);

struct session_config {
    const struct backend *backend;
    struct backend_device *device; /* outlives the session */
    session_build_function build;
    void *build_context;
    struct optimizer_config optimizer;
    const struct optimizer_group *groups; /* NULL: `optimizer` updates all parameters */
    int group_count;
    double layer_decay; /* graph_decay_layers(); 0: all depths learn alike */
    bool accumulate;    /* an update may follow several forward and backward passes */
    bool average;       /* keep moving averages of the weights and evaluate those */
    struct recompute_config recompute;
    enum tensor_type compute_type; /* of products: graph_lower_precision() */
    const char *quantization;      /* evaluation is float32 by graph_quantize(); NULL: it is not */
    /* Evaluation batches of at least so many samples are run often between two calls of
     * session_write(), which alone changes the weights: graph.constant_weights. 0: none are */
    int64_t constant_weights_from;
    /* how evaluation would normalise samples that are bytes: it is given the bytes if the device
     * multiplies them (session_reads_bytes()). NULL: it is given float32 numbers. Lent */
    const struct byte_normalisation *bytes;
    bool observes;                   /* evaluation observes ranges: graph_observe() */
    bool rounds_parameters;          /* to compute_type, after they are drawn and each update */
    bool nondeterministic;           /* training steps may give different bits each time */
    const char *direct_convolutions; /* device_choose_convolutions() of backend.h; NULL is "" */
    /* The batch sizes to prepare; 0 is unused, and repetitions are allowed. The largest training
     * size comes first. Without training sizes the session only evaluates. */
    int64_t training_batches[SESSION_BATCH_SIZES_MAX];
    int64_t evaluation_batches[SESSION_BATCH_SIZES_MAX];
    /* Fewer steps that batches of sequences of the first size of each kind may have. */
    int64_t lengths[SESSION_LENGTHS_MAX];
    int length_count;
    size_t staging_bytes; /* bytes of the arena in which the caller stages batches */
    uint64_t seed;        /* seed of the initial weights */
    /* Sets that the device keeps and makes batches of; data_bytes() of backend.h says whether it
     * can. What they point to must outlive the session. */
    struct backend_data_config data[SESSION_DATA_MAX];
    int data_count;
};

struct session;

/* Sums of the loss, one for each training program: floating-point sums depend on their order. */
struct session_losses {
    double sums[SESSION_TRAINING_MAX];
    int count;
};

/* One batch in memory: rows in PyTorch's layout, aligned to MEMORY_ALIGNMENT. It must stay
 * unchanged until the run after the next one begins. */
struct session_batch {
    int64_t count; /* one of the configured sizes */
    int64_t steps; /* of each sample: one of the configured lengths; 0: all */
    const void *samples;
    const void *targets;
    const int32_t *lengths; /* of the sequences, if the graph has lengths; NULL: they are whole */
};

/* A tensor that keeps its value from step to step. */
struct session_tensor {
    /* name of the tensor; gradients and averages have that of their parameter or statistic. It
     * lives as long as the session */
    const char *name;
    enum tensor_role role;
    enum tensor_type type;
    struct graph_shape shape;
    size_t bytes;   /* in canonical form */
    bool evaluated; /* evaluation reads it: a parameter or statistic, or its average */
    /* the model computes it, and training does not change it: no file's numbers take its place */
    bool constant;
};

/* -EINVAL and the builder's or backend's sentence. The caller releases with session_free(). */
int session_prepare(const struct session_config *config, struct session **session,
                    struct error *error);
int session_allocate(struct session *session, struct error *error);
/* Binds the programs as session_allocate() does, but to address space without memory if the backend
 * can. The memory that the process then holds is what it needs in addition to the arena. Only
 * session_free() may follow. */
int session_rehearse(struct session *session, struct error *error);
void session_free(struct session *session); /* NULL allowed */

const struct memory_plan *session_memory(const struct session *session);
/* The graph of the largest training batch, or of the largest evaluation batch without one. */
const struct graph *session_graph(const struct session *session);
/* The graph for batches of `count` samples of so many steps (0: all), or NULL. */
const struct graph *session_graph_for(const struct session *session, bool training, int64_t count,
                                      int64_t steps);
int64_t session_parameter_count(const struct session *session); /* learnt numbers */
/* Whether the samples of batches are bytes: struct session_config. */
bool session_reads_bytes(const struct session *session);

/* Bytes that a batch of the input tensor (samples or targets) takes in staging memory: a multiple
 * of MEMORY_ALIGNMENT, 0 for an absent tensor (-1). */
size_t session_input_bytes(const struct graph *graph, int32_t tensor);
/* The staging_bytes in the arena, aligned to MEMORY_ALIGNMENT; NULL before session_allocate(). */
void *session_staging(const struct session *session);

/* Runs the training program for the batch. `phases` is PROGRAM_STEP, or forward and backward alone
 * for a micro-step of an accumulation. */
int session_step(struct session *session, const struct session_batch *batch, unsigned phases,
                 const struct step_scalars *scalars, struct error *error);
/* Runs `count` steps, at most BACKEND_STEPS_MAX, of the training or evaluation program for `batch`
 * samples on batches of the session's data number `data`; see program_run_steps() of backend.h. */
int session_steps(struct session *session, bool training, int64_t batch, int data,
                  const struct backend_step *steps, int count, struct error *error);
/* The session's data number `data`, for data_write() and data_write_targets() of backend.h; after
 * session_allocate(). */
struct backend_data *session_data(const struct session *session, int data);
/* data_write_order() of backend.h */
int session_write_order(struct session *session, int data, int64_t first, int64_t count,
                        const uint32_t *indices, struct error *error);
/* The norm over all gradients of the latest session_step(), which must have made no update. */
int session_gradient_norm(struct session *session, double *norm, struct error *error);
void session_describe_device(const struct session *session, struct backend_device_info *info);
/* The device's clock: CLOCK_MONOTONIC unless it has one of its own
 * (device_seconds() of backend.h). */
double session_seconds(const struct session *session);
/* Joules that the whole device has used since an arbitrary moment; NAN: unknown. */
double session_energy(const struct session *session);
/* Lends the device a recorder for the steps to come (device_profile() of
 * backend.h); NULL ends it. */
void session_profile(struct session *session, struct profile_recorder *recorder);
/* How the device executes a node of one of the session's graphs (program_describe() of backend.h);
 * one task if the backend does not say. */
void session_describe_node(const struct session *session, const struct graph *graph, int32_t node,
                           struct node_description *description);
/* The largest number of events that one step of the largest training batch records on a lane, and
 * the recorder's number of lanes; 0 if the device cannot be profiled. After session_rehearse() or
 * session_allocate(). */
int64_t session_profile_events(const struct session *session, int *lanes);
/* Whether the device can advance the loss scale itself; and program_write_loss_scale() and
 * program_read_loss_scale() of backend.h for the session's programs. */
bool session_scales_loss(const struct session *session);
void session_write_loss_scale(struct session *session, const struct loss_scale *loss_scale);
void session_read_loss_scale(const struct session *session, struct loss_scale *loss_scale);
/* Whether the update of the latest session_step() was skipped: program_update_skipped(). */
bool session_update_skipped(struct session *session);
/* Runs the forward part of the evaluation program for the batch. */
int session_evaluate(struct session *session, const struct session_batch *batch,
                     struct error *error);
/* Copies the output of the latest session_evaluate() (logits or predictions, float32, one row a
 * sample). */
int session_read_output(struct session *session, float *output, struct error *error);

/* Sums since the reset over all training programs, or all evaluation programs; last_loss is that of
 * the latest run. */
void session_reset_metrics(struct session *session, bool training);
void session_read_metrics(const struct session *session, bool training,
                          struct step_metrics *metrics);
/* The sums of the loss of each training program, if there are several lengths; else none. */
void session_read_losses(const struct session *session, struct session_losses *losses);
/* Continues from the sums that these two gave before an interruption. If the session had other
 * programs then, the loss may differ in its last bits. */
void session_restore_metrics(struct session *session, const struct step_metrics *metrics,
                             const struct session_losses *losses);

/* Lets the next run of a training program, or of an evaluation program, begin with a state of 0
 * where it would go on from that of the batch before. */
int session_clear_states(struct session *session, bool training, struct error *error);

/* The persistent tensors in a fixed order: parameters, statistics, averages, the state that
 * training carries from batch to batch, optimizer state and, with accumulation, gradients. -ENOENT
 * when `index` is past the last one. */
int session_tensor(const struct session *session, int index, struct session_tensor *tensor);
/* Host memory for the canonical form of the largest of these tensors, made
 * by session_allocate(). */
void *session_scratch(struct session *session);
size_t session_scratch_bytes(const struct session *session);
/* Writes the model's own numbers of a constant tensor, or of its average, to `values`. */
void session_draw_constant(const struct session *session, int index, void *values);
/* Copies the canonical form out or in. */
int session_read(struct session *session, int index, void *canonical, struct error *error);
int session_write(struct session *session, int index, const void *canonical, struct error *error);
