/* attempt_handover.h: the protocol between a shim and its warm worker. The worker (worker_warm.c)
 * opens its device before there is a job, and waits on ATTEMPT_HANDOVER_DESCRIPTOR. The shim
 * (shim_warm.c) waits for a job and hands it over. */
#pragma once

#include <stddef.h>

enum {
    ATTEMPT_HANDOVER_DESCRIPTOR = 5, /* their socket pair, in both */
    ATTEMPT_HANDOVER_DESCRIPTORS = 3 /* sent with a job: attempt.json, log, cgroup.procs */
};

/* The shim sends a job as the attempt's folder with its descriptors. The worker sends "ready" at
 * first, and again once it has become the trainee; otherwise it sends why it cannot. */
#define ATTEMPT_HANDOVER_READY "ready"

/* Send and receive packets with at most ATTEMPT_HANDOVER_DESCRIPTORS descriptors. 1; 0: the other
 * end has hung up; or a negative errno. */
int attempt_handover_send(int socket, const char *text, size_t length, const int *descriptors,
                          int count);
int attempt_handover_receive(int socket, char *text, size_t size, int *descriptors, int count);
