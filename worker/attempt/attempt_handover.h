/* attempt_handover.h: what a shim and the warm worker that it keeps say to each other. The worker
 * (worker_warm.c) has opened its device before there is a job, and waits on
 * ATTEMPT_HANDOVER_DESCRIPTOR; the shim (shim_warm.c) waits for a job and hands it over. */
#pragma once

#include <stddef.h>

enum {
    ATTEMPT_HANDOVER_DESCRIPTOR = 5, /* of both: their socket pair */
    ATTEMPT_HANDOVER_DESCRIPTORS = 3 /* that go with a job: attempt.json, the log, cgroup.procs */
};

/* A job is the attempt's folder with its descriptors. The worker says "ready" at first, and when it
 * has become the trainee; else why it cannot. */
#define ATTEMPT_HANDOVER_READY "ready"

/* Packets with descriptors, at most ATTEMPT_HANDOVER_DESCRIPTORS. 1, 0 when the other end has hung
 * up, or a negative errno. */
int attempt_handover_send(int socket, const char *text, size_t length, const int *descriptors,
                          int count);
int attempt_handover_receive(int socket, char *text, size_t size, int *descriptors, int count);
