/* policy_speed: measures how much processor time policy_decide() takes on random snapshots. */
#include "base/clock.h"
#include "scheduler/policy.h"
#include "tests/support/random_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static void measure(const char *name, struct random_shape shape, int rounds)
{
    double *seconds = calloc((size_t)rounds, sizeof *seconds);

    for (int i = 0; seconds && i < rounds; i++) {
        struct random_snapshot random;
        struct policy_decision decision;
        size_t size;
        void *workspace;
        double begin;

        random_snapshot_make(&random, &shape, (uint64_t)i);
        size = policy_workspace_size(&random.snapshot);
        workspace = calloc(1, size);
        begin = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (!workspace || policy_decide(&random.snapshot, workspace, size, &decision) < 0)
            abort();
        seconds[i] = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
        free(workspace);
        random_snapshot_free(&random);
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, compare_doubles);
    printf("%-48s %8.0f µs %8.0f µs\n", name, seconds[rounds / 2] * 1e6,
           seconds[rounds * 99 / 100] * 1e6);
    free(seconds);
}

int main(void)
{
    printf("%-48s %11s %11s\n", "one decision: jobs, devices", "median", "99%");
    measure(
        "200, 8 of 3 types, single devices",
        (struct random_shape){.types = 3, .devices = 8, .jobs = 200, .gang_max = 1, .plain = true},
        500);
    measure(
        "200, 8 of 3 types, gangs of up to 3",
        (struct random_shape){.types = 3, .devices = 8, .jobs = 200, .gang_max = 3, .plain = true},
        500);
    measure("200, 8, gangs, memory, sharing, priorities, ...",
            (struct random_shape){.types = 3, .devices = 8, .jobs = 200, .gang_max = 3}, 500);
    measure("10000, 8 of 3 types, single devices",
            (struct random_shape){
                .types = 3, .devices = 8, .jobs = 10000, .gang_max = 1, .plain = true},
            40);
    measure("10000, 8, gangs, memory, sharing, ...",
            (struct random_shape){.types = 3, .devices = 8, .jobs = 10000, .gang_max = 3}, 40);
    return 0;
}
