/* shim_warm.h: what a shim and the warm worker that it keeps say to each other. The worker
 * (worker_warm.c) has opened its device before there is a job, and waits on SHIM_WARM_DESCRIPTOR;
 * the shim (shim_warm.c) waits for a job and hands it over. */
#pragma once

#include "worker/shim.h"

#include <limits.h>

enum {
    SHIM_WARM_DESCRIPTOR = 5, /* of both: their socket pair */
    SHIM_WARM_DESCRIPTORS = 3 /* that go with a job: attempt.json, the log, cgroup.procs */
};

/* Packets with descriptors, at most SHIM_WARM_DESCRIPTORS. 1, 0 when the other end has hung up, or
 * a negative errno. */
/* A job is the attempt's folder with its descriptors. The worker says "ready" at first, and when it
 * has become the trainee; else why it cannot. */
#define SHIM_WARM_READY "ready"
int shim_packet_send(int socket, const char *text, size_t length, const int *descriptors,
                     int count);
int shim_packet_receive(int socket, char *text, size_t size, int *descriptors, int count);
