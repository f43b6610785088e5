/* call_pool.c: gives oneDNN the memory that it allocates within the call of a primitive, so that no
 * step allocates from the heap. oneDNN makes two kinds of allocations.
 *
 * Maps of its arguments: half a dozen small blocks of C++'s operator new, freed before the call
 * returns. This file replaces operator new and delete of the whole process (under their linker
 * names, _Znwm and _ZdlPv; the other forms of new and delete call these two). Within a call, blocks
 * are cells of a fixed pool. One atomic operation on a word of the pool takes a cell or gives it
 * back. Any thread may therefore free a cell, and threads may share a pool, though that is slower.
 *
 * Packed operands of its general matrix product: one large block of posix_memalign() at a time,
 * which the caller has planned (onednn_packing.c). This file replaces posix_memalign() and free(),
 * too. oneDNN aligns its own objects to 64 bytes, generated code among them; they outlive the call.
 * Blocks with a larger alignment are working memory, which oneDNN frees within the call.
 *
 * All other allocations go to the C and C++ libraries. Sanitizers bring their own allocators, so
 * builds with them leave this file's replacements out. */
#include "engine/backends/cpu/call_pool.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void call_pool_enter(int pool, void *memory, size_t bytes)
{
    (void)pool;
    (void)memory;
    (void)bytes;
}

void call_pool_leave(void)
{
}

void call_pool_refuse(void)
{
}

size_t call_pool_refused(void)
{
    return 0;
}

bool call_pool_take_back(const void *block)
{
    (void)block;
    return false;
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* Observed in oneDNN 2.6 (products, convolutions, reorders): at most 9 blocks at a time, of up to
 * 152 bytes. 58 further blocks stay: the code of the general matrix product, which the first call
 * that needs it generates. */
enum { CELL_BYTES = 256, WORD_CELLS = 64, WORDS = 4, CELLS = WORDS * WORD_CELLS, POOLS = 64 };
enum { OBJECT_ALIGNMENT = 64 };

struct pool {
    _Alignas(64) _Atomic uint64_t taken[WORDS]; /* bit i of word w: cell 64 w + i */
    _Alignas(64) unsigned char cell[CELLS][CELL_BYTES];
};

static struct pool pools[POOLS]; /* an unused page costs no memory */

/* The call that this thread is in. */
static _Thread_local struct {
    struct pool *pool; /* NULL: it is in none */
    char *memory;
    size_t bytes;
    void *block; /* the block of `memory` that is taken, or NULL */
    bool refuses;
    size_t refused;
} call;

static void *(*library_new)(size_t);
static void (*library_delete)(void *);
static void (*library_free)(void *);
static pthread_once_t found = PTHREAD_ONCE_INIT;

static void find_library(void)
{
    *(void **)&library_new = dlsym(RTLD_NEXT, "_Znwm");
    *(void **)&library_delete = dlsym(RTLD_NEXT, "_ZdlPv");
}

void call_pool_enter(int pool, void *memory, size_t bytes)
{
    call.pool = &pools[pool % POOLS];
    call.memory = memory;
    call.bytes = bytes;
}

void call_pool_leave(void)
{
    call.pool = NULL;
    call.memory = NULL;
    call.bytes = 0;
}

void call_pool_refuse(void)
{
    call.refuses = true;
    call.refused = 0;
}

size_t call_pool_refused(void)
{
    call.refuses = false;
    return call.refused;
}

/* NULL if all cells are taken. */
static void *take_cell(struct pool *pool)
{
    for (int word = 0; word < WORDS;) {
        uint64_t taken = atomic_load_explicit(&pool->taken[word], memory_order_relaxed);
        uint64_t free_cells = ~taken;
        int cell = __builtin_ffsll((long long)free_cells) - 1;
        uint64_t bit = 1ull << (cell & (WORD_CELLS - 1));

        if (cell < 0)
            word++;
        else if (!(atomic_fetch_or_explicit(&pool->taken[word], bit, memory_order_acquire) & bit))
            return pool->cell[word * WORD_CELLS + cell];
    }
    return NULL;
}

/* NULL if the block is taken already, or `memory` is too small. */
static void *take_memory(size_t alignment, size_t bytes)
{
    if (call.block || bytes + alignment > call.bytes)
        return NULL;
    call.block = call.memory + (-(uintptr_t)call.memory & (alignment - 1));
    return call.block;
}

bool call_pool_take_back(const void *block)
{
    if (!block || block != call.block)
        return false;
    call.block = NULL;
    return true;
}

#define EXPORTED __attribute__((visibility("default")))

/* operator new(size_t) */
EXPORTED void *_Znwm(size_t bytes);
EXPORTED void *_Znwm(size_t bytes)
{
    void *cell = call.pool && bytes <= CELL_BYTES ? take_cell(call.pool) : NULL;

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

EXPORTED int posix_memalign(void **result, size_t alignment, size_t bytes)
{
    void *block = NULL;

    if (alignment % sizeof(void *) || alignment == 0 || alignment & (alignment - 1))
        return EINVAL;
    if (call.refuses && alignment > OBJECT_ALIGNMENT) {
        call.refused = bytes + alignment > call.refused ? bytes + alignment : call.refused;
        return ENOMEM;
    }
    if (call.memory && alignment > OBJECT_ALIGNMENT)
        block = take_memory(alignment, bytes);
    if (!block)
        block = aligned_alloc(alignment, bytes);
    if (!block)
        return ENOMEM;
    *result = block;
    return 0;
}

/* pthread_once() cannot be used here, because the C library may call free() within it. This runs
 * before there are threads. */
__attribute__((constructor)) static void find_free(void)
{
    *(void **)&library_free = dlsym(RTLD_NEXT, "free");
}

/* Weak, because a test that counts allocations defines its own. */
EXPORTED __attribute__((weak)) void free(void *block)
{
    if (call_pool_take_back(block))
        return;
    if (!library_free)
        find_free();
    library_free(block);
}

#endif
