/* call_pool.h: memory for what oneDNN allocates within a call. See call_pool.c. */
#pragma once

/* Between the two, C++'s operator new of the calling thread takes small blocks from the pool with
 * that number (any: numbers beyond the pools wrap around). */
void call_pool_enter(int pool);
void call_pool_leave(void);
