/* call_pool.h: provides the memory that oneDNN allocates within a call. See call_pool.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Between these two calls, C++'s operator new in the calling thread takes small blocks from pool
 * number `pool` (modulo the number of pools) and one large block at a time from the `bytes` at
 * `memory`. A block that does not fit comes from the heap. */
void call_pool_enter(int pool, void *memory, size_t bytes);
void call_pool_leave(void);

/* Between these two calls, requests of the calling thread for large blocks fail. The second returns
 * the size of `memory` that the largest of them needs; 0: there was none. */
void call_pool_refuse(void);
size_t call_pool_refused(void);

/* For a program that replaces free(): frees the block if it is in `memory`, and returns whether it
 * is. */
bool call_pool_take_back(const void *block);
