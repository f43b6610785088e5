/* methods.c: see methods.h. What is not listed here no page can call: neither administrators' calls
 * (Drain) nor those that hand files over (snapshots, checkpoints). */
#include "web/methods.h"

#include <stddef.h>
#include <string.h>

static const struct web_method methods[] = {
    {"Cancel", WEB_METHOD_CHANGES},       {"CancelSweep", WEB_METHOD_CHANGES},
    {"Changes", WEB_METHOD_FOLLOWS},      {"Checkpoints", WEB_METHOD_READS},
    {"Curve", WEB_METHOD_READS},          {"Devices", WEB_METHOD_READS},
    {"DiskUsage", WEB_METHOD_READS},      {"Edit", WEB_METHOD_CHANGES},
    {"Explain", WEB_METHOD_READS},        {"Groups", WEB_METHOD_READS},
    {"History", WEB_METHOD_READS},        {"Hold", WEB_METHOD_CHANGES},
    {"HoldSweep", WEB_METHOD_CHANGES},    {"Limits", WEB_METHOD_READS},
    {"List", WEB_METHOD_READS},           {"Logs", WEB_METHOD_FOLLOWS},
    {"Metrics", WEB_METHOD_FOLLOWS},      {"Move", WEB_METHOD_CHANGES},
    {"Pause", WEB_METHOD_CHANGES},        {"Ping", WEB_METHOD_READS},
    {"Predict", WEB_METHOD_READS},        {"Profile", WEB_METHOD_READS},
    {"Queue", WEB_METHOD_READS},          {"Release", WEB_METHOD_CHANGES},
    {"ReleaseSweep", WEB_METHOD_CHANGES}, {"Requeue", WEB_METHOD_CHANGES},
    {"Resume", WEB_METHOD_CHANGES},       {"Schedules", WEB_METHOD_READS},
    {"Show", WEB_METHOD_READS},           {"ShowSweep", WEB_METHOD_READS},
    {"Submit", WEB_METHOD_CHANGES},       {"SubmitSweep", WEB_METHOD_CHANGES},
    {"Sweeps", WEB_METHOD_READS},         {"Trials", WEB_METHOD_READS},
};

const struct web_method *web_method_find(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}
