/* onednn_packing.c: plans the memory of oneDNN's general matrix product, "gemm:jit". oneDNN uses
 * that product for linear layers without AVX-512, and everywhere for convolutions whose channels do
 * not fill vectors.
 *
 * In every call it allocates memory into which it packs its operands, and it does not tell how
 * much. This file finds that out: it runs the primitive once, on memory that stands in for its
 * arguments, and refuses the allocation. The primitive then gives up before it multiplies anything,
 * and the refused size is known. The planned scratch of a primitive is its scratchpad followed by
 * that memory, which call_pool.c hands out. If a later call asks for more than the first one, it
 * gets memory from the heap. */
#include "base/alignment.h"
#include "engine/backends/cpu/call_pool.h"
#include "engine/backends/cpu/onednn_internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { SCRATCH_ALIGNMENT = 64 };

static bool is_general_product(const_dnnl_primitive_desc_t descriptor)
{
    const char *name = onednn_implementation(descriptor);

    return strncmp(name, "gemm:", 5) == 0 || strstr(name, ":gemm:");
}

/* Generates the code of the general product, several megabytes. Otherwise the first step would
 * generate it, or it would count as memory for packing. */
static void generate_code(void)
{
    enum { SIDE = 64 };
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

    for (int i = 0; i < 4; i++)
        dnnl_sgemm(i & 1 ? 'T' : 'N', i & 2 ? 'T' : 'N', SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0,
                   c, SIDE);
}

/* Adds every argument of the primitive to the call, all of them at `data`. Returns the bytes of the
 * largest argument. */
static size_t add_arguments(struct onednn_call *call, const_dnnl_primitive_desc_t descriptor,
                            void *data)
{
    static const int names[] = {DNNL_ARG_SRC,       DNNL_ARG_WEIGHTS,  DNNL_ARG_BIAS,
                                DNNL_ARG_DST,       DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_WEIGHTS,
                                DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD};
    size_t largest = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const dnnl_memory_desc_t *argument =
            dnnl_primitive_desc_query_md(descriptor, dnnl_query_exec_arg_md, names[i]);
        size_t bytes = argument ? dnnl_memory_desc_get_size(argument) : 0;

        if (!bytes)
            continue;
        largest = bytes > largest ? bytes : largest;
        if (call && onednn_call_add(call, names[i], argument, data))
            return 0;
    }
    return largest;
}

size_t onednn_packing_bytes(struct onednn *onednn, const_dnnl_primitive_desc_t descriptor,
                            const_dnnl_primitive_t primitive)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct onednn_call *call;
    size_t bytes, wanted = 0;
    void *data;

    if (!is_general_product(descriptor))
        return 0;
    pthread_once(&once, generate_code);
    bytes = add_arguments(NULL, descriptor, NULL);
    data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (data == MAP_FAILED)
        return 0;
    call = onednn_call_create(onednn, primitive);
    if (call && add_arguments(call, descriptor, data)) {
        call_pool_refuse();
        dnnl_primitive_execute(primitive, onednn->streams[0], call->count, call->arguments);
        wanted = call_pool_refused();
    }
    onednn_call_free(call);
    munmap(data, bytes);
    return wanted;
}

static size_t scratchpad_bytes(const dnnl_memory_desc_t *scratchpad)
{
    return scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
}

static size_t packing_offset(const dnnl_memory_desc_t *scratchpad)
{
    return align_up(scratchpad_bytes(scratchpad), SCRATCH_ALIGNMENT);
}

size_t onednn_scratch_bytes(const dnnl_memory_desc_t *scratchpad, size_t packing)
{
    return packing ? packing_offset(scratchpad) + packing : scratchpad_bytes(scratchpad);
}

dnnl_status_t onednn_call_add_scratch(struct onednn_call *call,
                                      const dnnl_memory_desc_t *scratchpad, size_t packing,
                                      void *scratch)
{
    if (packing) {
        call->packing = (char *)scratch + packing_offset(scratchpad);
        call->packing_bytes = packing;
    }
    return scratchpad_bytes(scratchpad)
               ? onednn_call_add(call, DNNL_ARG_SCRATCHPAD, scratchpad, scratch)
               : dnnl_success;
}
