#include "simulator/simulation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    struct error error; struct cluster c; struct workload w; struct simulation_result r;
    struct simulation_options o = {.settings = policy_settings_default(), .restart_seconds=30,.round_seconds=360,.measure_steps=30,.seed=1};
    if (cluster_parse(argv[3], &c, &error) < 0 || workload_load(argv[1], argv[2], &c, &w, &error) < 0) { puts(error.text); return 1; }
    for (int i = 4; i < argc; i++) {
        double v = atof(strchr(argv[i], '=') + 1); char *n = argv[i];
#define O(k, f) if (!strncmp(n, k "=", sizeof k)) { o.f = v; continue; }
        O("c", settings.congestion) O("a", settings.length_exponent) O("b", settings.age_exponent) O("h", settings.hysteresis) O("opt", settings.optimism)
        O("sf", settings.starvation_factor) O("ss", settings.starvation_seconds) O("sn", speed_noise) O("ln", length_noise) O("hide", hide_lengths)
        O("nolearn", no_learning) O("seed", seed) O("p", policy) O("ms", measure_steps) O("r", round_seconds)
        printf("? %s\n", n); return 2;
    }
    if (simulate(&w, &c, &o, NULL, &r, &error) < 0) { puts(error.text); return 1; }
    printf("avg %.3f p50 %.2f p95 %.1f p99 %.1f max %.1f mk %.2f slow %.3f p99slow %.1f pre %zu wait %.1f dec %zu inexact %zu left %zu us p50 %.0f p99 %.0f max %.0f\n", r.average_completion/3600, r.median_completion/3600, r.p95_completion/3600, r.p99_completion/3600, r.worst_completion/3600, r.makespan/3600, r.average_slowdown, r.p99_slowdown, r.preemptions, r.longest_wait/3600, r.decisions, r.inexact, r.left_out, r.decision_median*1e6, r.decision_p99*1e6, r.decision_worst*1e6);
}
