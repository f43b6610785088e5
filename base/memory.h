/* memory.h: small allocations whose sizes the program itself fixes: a struct, a short text, a node
 * of a list. Each of these functions returns memory, which the caller frees with free(), or ends
 * the process: see memory_exhausted(). For whatever a message, a file or a user sizes, call
 * malloc() and return error_no_memory() (base/error.h) instead. */
#pragma once

#include <stddef.h>

/* The exit status of a process that has no memory left; EX_OSERR of sysexits.h. The systemd units
 * restart the daemon then: jobs outlive it, and nothing that was acknowledged is lost. */
enum { MEMORY_EXIT_STATUS = 71 };

/* Uninitialised memory, and zeroed memory, of `bytes` bytes. */
void *memory_allocate(size_t bytes) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *memory_zero(size_t bytes) __attribute__((malloc, alloc_size(1), returns_nonnull));

/* realloc(): for what the daemon keeps of what it has acknowledged, such as the dependencies of a
 * job, which must not be forgotten. */
void *memory_grow(void *memory, size_t bytes) __attribute__((returns_nonnull));

/* A copy of `text`; of NULL, NULL. */
char *memory_copy_text(const char *text) __attribute__((malloc));

/* printf() into new memory. */
char *memory_format(const char *format, ...)
    __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

/* Writes one line to the log that says that the process ends for lack of memory, and calls
 * _exit(MEMORY_EXIT_STATUS). `bytes` is what was asked for; 0: unknown. Neither the line nor the
 * exit needs memory; a daemon that is restarted recovers as after a crash. */
_Noreturn void memory_exhausted(size_t bytes);
