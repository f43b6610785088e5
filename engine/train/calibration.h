/* calibration.h: measures a device's speeds of arithmetic and memory with its own operators, and
 * predicts the time of a graph from them. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/train/operator_rates.h"

/* TENSOR_INT32: the first type that no product has. */
enum { CALIBRATION_TYPES = TENSOR_INT32, CALIBRATION_BANDWIDTHS = 4 };

struct bandwidth {
    double bytes, bytes_per_second;
};

struct calibration {
    /* of a matrix product of 1024 x 1024 x 1024 (GPU: 4096), by type of its operands; 0: not
     * measured */
    double flops_per_second[CALIBRATION_TYPES];
    /* of a convolution of 3x3; 0: use flops_per_second */
    double convolution_flops_per_second[CALIBRATION_TYPES];
    /* of an activation that reads and writes `bytes` bytes, in ascending order. The last one
     * exceeds every cache. Entries of 0 bytes at the end are not measured. */
    struct bandwidth bandwidths[CALIBRATION_BANDWIDTHS];
    double kernel_seconds; /* minimum time of an operator */
    double launch_seconds; /* added to the predicted time of each kernel */
    /* times of operators in sample models, which the program has built in */
    struct operator_rates rates;
};

/* Takes five seconds and 350 MB on two threads. A device that does not tell the time of each node
 * (no device_profile) is measured by chains of operators alone (calibration_chains.h). */
int calibration_measure(const struct backend *backend, struct backend_device *device,
                        struct calibration *calibration, struct error *error);
/* Estimates the calibration of an unmeasured device from the peaks that it reports; false if it
 * reports none. The caller releases it. */
bool calibration_guess(const struct backend_device_info *info, struct calibration *calibration);
void calibration_release(struct calibration *calibration);

/* The bandwidth for operands of `bytes` bytes in all; 0: unknown. */
double calibration_bandwidth(const struct calibration *calibration, double bytes);
/* The speed of products with operands of the type, or of float32 if that was not measured; 0:
 * unknown. */
double calibration_flops(const struct calibration *calibration, enum tensor_type type);

/* The calibration of a simulated device: `real` with arithmetic and bandwidth multiplied by `speed`
 * and `bandwidth`, and with a start-up time for each kernel. -ENOMEM. */
int calibration_scale(const struct calibration *real, double speed, double bandwidth,
                      double launch_seconds, struct calibration *scaled, struct error *error);

/* Seconds of one node, without the time that a run takes in addition to its nodes. */
double calibration_node_seconds(const struct calibration *calibration, const struct graph *graph,
                                int32_t node, const struct node_description *description);
/* Predicted seconds of one run of the graph's `phases`. A node's time is interpolated from measured
 * calls that resemble it. Without any, it is the larger of the times of its arithmetic and of its
 * memory traffic (Williams, Waterman and Patterson 2009, "Roofline", CACM 52(4)), and at least the
 * minimum time of a kernel. */
double calibration_predict(const struct calibration *calibration, const struct session *session,
                           const struct graph *graph, unsigned phases);
