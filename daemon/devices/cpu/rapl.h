/* rapl.h: the energy that the machine's processors have used, by the counters that Intel's and
 * AMD's processors keep (RAPL). The kernel shows them below /sys/class/powercap, since 2020 to root
 * alone (CVE-2020-8694). https://docs.kernel.org/power/powercap/powercap.html */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAPL_PACKAGES_MAX = 64 };

/* The counters that can be read, one for each package; all zero: none. */
struct rapl {
    struct rapl_package {
        char path[PATH_MAX];
        uint64_t range; /* microjoules at which the counter begins again */
        uint64_t last;  /* the last reading */
    } packages[RAPL_PACKAGES_MAX];
    int count;
    double joules; /* since rapl_open() */
};

/* Finds the packages below `root` ("" for the machine's; tests pass a folder), and reads each once.
 * Parts of a package and the whole platform are left out: a package contains the former, the latter
 * contains it. */
void rapl_open(struct rapl *rapl, const char *root);

/* Adds up what the packages have used since rapl_open(). Call it more often than a counter begins
 * again: at 400 W the smallest one does so after 160 s. False: one of them cannot be read, or there
 * is none. */
bool rapl_read(struct rapl *rapl, double *joules);
