/* call_pool.c: within every call of a primitive oneDNN builds maps of its arguments, half a dozen
 * small blocks from C++'s operator new that are freed before it returns: hundreds of trips to the
 * heap in a step. So this file replaces operator new and delete of the whole process (under their
 * linker names, _Znwm and _ZdlPv; the other forms of new and delete come down to these two): within
 * a call blocks are cells of a fixed pool, everything else goes to the C++ library's own.
 *
 * A cell is taken and given back by one atomic operation on a word of its pool's cells, so that
 * any thread may free it, and pools shared by threads are correct, if slower. Sanitizers bring
 * their own operator new and go without. */
#include "engine/backends/cpu/call_pool.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void call_pool_enter(int pool)
{
    (void)pool;
}

void call_pool_leave(void)
{
}

#else

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Seen in oneDNN 2.6 (products, convolutions, reorders): 9 blocks at a time, up to 152 bytes, and
 * 58 that stay: the code of its general matrix product, made within the first call that wants it.
 */
enum { CELL_BYTES = 256, WORD_CELLS = 64, WORDS = 4, CELLS = WORDS * WORD_CELLS, POOLS = 64 };

struct pool {
    _Alignas(64) _Atomic uint64_t taken[WORDS]; /* bit i of word w: cell 64 w + i */
    _Alignas(64) unsigned char cell[CELLS][CELL_BYTES];
};

static struct pool pools[POOLS]; /* pages that nobody uses cost nothing */
static _Thread_local struct pool *active;

static void *(*library_new)(size_t);
static void (*library_delete)(void *);
static pthread_once_t found = PTHREAD_ONCE_INIT;

static void find_library(void)
{
    *(void **)&library_new = dlsym(RTLD_NEXT, "_Znwm");
    *(void **)&library_delete = dlsym(RTLD_NEXT, "_ZdlPv");
}

void call_pool_enter(int pool)
{
    active = &pools[pool % POOLS];
}

void call_pool_leave(void)
{
    active = NULL;
}

/* NULL when all cells are taken. */
static void *take_cell(struct pool *pool)
{
    for (int word = 0; word < WORDS;) {
        uint64_t taken = atomic_load_explicit(&pool->taken[word], memory_order_relaxed);
        int cell = __builtin_ffsll((long long)~taken) - 1;
        uint64_t bit = 1ull << (cell & (WORD_CELLS - 1));

        if (cell < 0)
            word++;
        else if (!(atomic_fetch_or_explicit(&pool->taken[word], bit, memory_order_acquire) & bit))
            return pool->cell[word * WORD_CELLS + cell];
    }
    return NULL;
}

#define EXPORTED __attribute__((visibility("default")))

/* operator new(size_t) */
EXPORTED void *_Znwm(size_t bytes);
EXPORTED void *_Znwm(size_t bytes)
{
    void *cell = active && bytes <= CELL_BYTES ? take_cell(active) : NULL;

    if (cell)
        return cell;
    pthread_once(&found, find_library);
    return library_new(bytes);
}

/* operator delete(void *) */
EXPORTED void _ZdlPv(void *block);
EXPORTED void _ZdlPv(void *block)
{
    uintptr_t offset = (uintptr_t)block - (uintptr_t)pools;

    if (offset < sizeof(pools)) {
        struct pool *pool = &pools[offset / sizeof(struct pool)];
        size_t cell = (size_t)((unsigned char *)block - pool->cell[0]) / CELL_BYTES;

        atomic_fetch_and_explicit(&pool->taken[cell / WORD_CELLS], ~(1ull << cell % WORD_CELLS),
                                  memory_order_release);
        return;
    }
    pthread_once(&found, find_library);
    library_delete(block);
}

#endif
