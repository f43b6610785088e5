/* call_pool.h: memory for what oneDNN allocates within a call. See call_pool.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Between the two the calling thread takes small blocks of C++'s operator new from the pool with
 * that number (any: numbers beyond the pools wrap around), and one large block at a time from the
 * `bytes` at `memory`; a larger one comes from the heap. */
void call_pool_enter(int pool, void *memory, size_t bytes);
void call_pool_leave(void);

/* Between the two the calling thread gets no large block. Returns what `memory` needs to have for
 * the largest one that was asked for, 0: none was. */
void call_pool_refuse(void);
size_t call_pool_refused(void);

/* For a program with a free() of its own: whether the block was one of
 * `memory`; then it is free. */
bool call_pool_take_back(const void *block);
