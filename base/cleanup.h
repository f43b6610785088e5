/* cleanup.h: releases what a function owns at the end of its scope, or hands it over. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(function) __attribute__((cleanup(function)))

/* Gives up ownership: evaluates to the pointer (or descriptor) and leaves NULL (or -1) behind. */
#define TAKE_POINTER(variable)                    \
    ({                                            \
        __typeof__(variable) taken_ = (variable); \
        (variable) = NULL;                        \
        taken_;                                   \
    })
#define TAKE_DESCRIPTOR(variable) \
    ({                            \
        int taken_ = (variable);  \
        (variable) = -1;          \
        taken_;                   \
    })

static inline void cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void cleanup_close(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
}

static inline void cleanup_fclose(FILE **file)
{
    if (*file)
        fclose(*file);
}

#define AUTO_FREE CLEANUP(cleanup_free)
#define AUTO_CLOSE CLEANUP(cleanup_close)
#define AUTO_FCLOSE CLEANUP(cleanup_fclose)
