/* calibration.h: how fast a device calculates and moves memory, measured with its own operators,
 * and what follows for the time of a graph. */
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
    double flops_per_second[CALIBRATION_TYPES]; /* a matrix product, 1024 x 1024 x 1024 (of a GPU
                                                   4096), by the type of its operands; 0: not
                                                   measured */
    double convolution_flops_per_second[CALIBRATION_TYPES]; /* of 3x3; 0: as a product */
    /* of an activation over so many bytes, read and written, in ascending order; the last one is
     * memory's, beyond any cache. Those of 0 bytes at the end are not measured. */
    struct bandwidth bandwidths[CALIBRATION_BANDWIDTHS];
    double kernel_seconds;       /* the least that one operator takes */
    double launch_seconds;       /* of each kernel, beside what the rates and the rest say */
    struct operator_rates rates; /* of the models that the program has built in */
};

/* Takes five seconds and 350 MB on two threads. A device that does not tell the time of each node
 * (no device_profile) is measured by chains of operators alone (calibration_chains.h). */
int calibration_measure(const struct backend *backend, struct backend_device *device,
                        struct calibration *calibration, struct error *error);
/* What a device that nobody has measured is thought to do, from what it says of itself; false: it
 * says nothing. The caller releases. */
bool calibration_guess(const struct backend_device_info *info, struct calibration *calibration);
void calibration_release(struct calibration *calibration);

/* The bandwidth at which operands of so many bytes are moved; 0: not known. */
double calibration_bandwidth(const struct calibration *calibration, double bytes);
/* The products' speed with operands of the type, or else of float32; 0: not known. */
double calibration_flops(const struct calibration *calibration, enum tensor_type type);

/* The calibration of a simulated device: arithmetic and memory so many times those of `real`, and a
 * time that each kernel takes to start. -ENOMEM. */
int calibration_scale(const struct calibration *real, double speed, double bandwidth,
                      double launch_seconds, struct calibration *scaled, struct error *error);

/* Seconds of one node, what runs take beside their nodes left out. */
double calibration_node_seconds(const struct calibration *calibration, const struct graph *graph,
                                int32_t node, const struct node_description *description);
/* Seconds of one run of the graph's `phases`: of each node by the calls that resemble it, and
 * where there is none by what bounds it, arithmetic or memory (Williams, Waterman and Patterson
 * 2009, "Roofline", CACM 52(4)), but at least the cost of a kernel. */
double calibration_predict(const struct calibration *calibration, const struct session *session,
                           const struct graph *graph, unsigned phases);
