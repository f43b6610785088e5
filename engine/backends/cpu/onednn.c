/* onednn.c: loads the library and calls it; see onednn.h. It uses the C interface of oneDNN 2.x: an
 * operation descriptor with attributes gives a primitive descriptor, which gives a primitive, which
 * runs on memory objects. */
#include "engine/backends/cpu/call_pool.h"
#include "engine/backends/cpu/onednn_internal.h"

#include <errno.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *status_text(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented";
    default:
        return "run-time failure";
    }
}

int onednn_fail(struct error *error, dnnl_status_t status, const char *what)
{
    int code = status == dnnl_out_of_memory   ? -ENOMEM
               : status == dnnl_unimplemented ? -ERROR_UNSUPPORTED
                                              : -EIO;

    return error_set(error, code, "oneDNN: %s: %s", what, status_text(status));
}

/* Unless the environment asks for a profiler, the library need not search for VTune's: that opens
 * some forty files that hardly any machine has. */
static void leave_profilers_out(void)
{
    if (!getenv("DNNL_JIT_PROFILE") && !getenv("ONEDNN_JIT_PROFILE"))
        dnnl_set_jit_profiling_flags(DNNL_JIT_PROFILE_NONE);
}

int onednn_open(int threads, struct onednn **onednn, struct error *error)
{
    struct onednn *library = calloc(1, sizeof(*library));
    dnnl_status_t status;

    if (!library || !(library->streams = calloc((size_t)threads, sizeof(*library->streams)))) {
        onednn_close(library);
        return error_no_memory(error, "oneDNN's streams");
    }
    leave_profilers_out();
    status = dnnl_engine_create(&library->engine, dnnl_cpu, 0);
    while (!status && library->thread_count < threads) {
        status = dnnl_stream_create(&library->streams[library->thread_count], library->engine,
                                    dnnl_stream_default_flags);
        library->thread_count += !status;
    }
    if (status) {
        onednn_close(library);
        return onednn_fail(error, status, "cannot create an engine");
    }
    *onednn = library;
    return 0;
}

void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    for (int i = 0; i < onednn->thread_count; i++)
        dnnl_stream_destroy(onednn->streams[i]);
    free(onednn->streams);
    if (onednn->engine)
        dnnl_engine_destroy(onednn->engine);
    free(onednn);
}

void onednn_thread_begin(void)
{
    omp_set_num_threads(1);
}

void onednn_trim(void)
{
    int capacity;

    if (dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success) {
        dnnl_set_primitive_cache_capacity(0);
        dnnl_set_primitive_cache_capacity(capacity);
    }
}

void onednn_version(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();

    snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

const char *onednn_implementation(const_dnnl_primitive_desc_t descriptor)
{
    const char *name = "";

    dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &name);
    return name;
}

/* oneDNN 2.6 writes behind the result with these: 480 bytes where a sample of 6x6 and 240 channels
 * becomes one of 40, in int8. They also take 30 µs for the smallest image. */
static bool is_avoided(const_dnnl_primitive_desc_t descriptor)
{
    static const char avoided[] = "jit_1x1:avx512_core_amx";

    return strncmp(onednn_implementation(descriptor), avoided, sizeof avoided - 1) == 0;
}

dnnl_status_t onednn_descriptor_create(struct onednn *onednn,
                                       const dnnl_convolution_desc_t *operation,
                                       const_dnnl_primitive_attr_t attributes,
                                       const_dnnl_primitive_desc_t hint,
                                       dnnl_primitive_desc_t *descriptor)
{
    dnnl_primitive_desc_iterator_t iterator = NULL;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(
        &iterator, (const_dnnl_op_desc_t)operation, attributes, onednn->engine, hint);

    *descriptor = NULL;
    while (!status) {
        *descriptor = dnnl_primitive_desc_iterator_fetch(iterator);
        if (!*descriptor || !is_avoided(*descriptor))
            break;
        dnnl_primitive_desc_destroy(*descriptor);
        *descriptor = NULL;
        if (dnnl_primitive_desc_iterator_next(iterator))
            status = dnnl_unimplemented;
    }
    if (iterator)
        dnnl_primitive_desc_iterator_destroy(iterator);
    return status ? status : *descriptor ? dnnl_success : dnnl_out_of_memory;
}

bool onednn_has_instructions(dnnl_cpu_isa_t wanted)
{
    return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

enum onednn_bfloat16 onednn_bfloat16(void)
{
    return onednn_has_instructions(dnnl_cpu_isa_avx512_core_bf16) ? ONEDNN_BFLOAT16_FAST
           : onednn_has_instructions(dnnl_cpu_isa_avx512_core)    ? ONEDNN_BFLOAT16_SLOW
                                                                  : ONEDNN_BFLOAT16_NONE;
}

const char *onednn_bfloat16_features(void)
{
    return onednn_has_instructions(dnnl_cpu_isa_avx512_core_amx)    ? "avx512_bf16 amx_bf16"
           : onednn_has_instructions(dnnl_cpu_isa_avx512_core_bf16) ? "avx512_bf16"
                                                                    : "";
}

dnnl_status_t onednn_attributes_create(bool sum, bool relu, dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t operations = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);

    if (!status)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (status || (!sum && !relu))
        return status;
    status = dnnl_post_ops_create(&operations);
    if (!status && sum)
        status = dnnl_post_ops_append_sum(operations, 1);
    if (!status && relu)
        status = dnnl_post_ops_append_eltwise(operations, 1, dnnl_eltwise_relu, 0, 0);
    if (!status)
        status = dnnl_primitive_attr_set_post_ops(*attributes, operations);
    if (operations)
        dnnl_post_ops_destroy(operations);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

dnnl_status_t onednn_call_add(struct onednn_call *call, int name,
                              const dnnl_memory_desc_t *descriptor, const void *data)
{
    dnnl_exec_arg_t *argument = &call->arguments[call->count];
    dnnl_status_t status =
        dnnl_memory_create(&argument->memory, descriptor, call->onednn->engine, (void *)data);

    if (!status) {
        argument->arg = name;
        call->count++;
    }
    return status;
}

struct onednn_call *onednn_call_create(struct onednn *onednn, const_dnnl_primitive_t primitive)
{
    struct onednn_call *call = calloc(1, sizeof(*call));

    if (call) {
        call->onednn = onednn;
        call->primitive = primitive;
        call->source = -1;
    }
    return call;
}

void onednn_call_set_source(struct onednn_call *call, const void *source)
{
    dnnl_memory_set_data_handle(call->arguments[call->source].memory, (void *)source);
}

int onednn_call_run(const struct onednn_call *call, int thread)
{
    dnnl_status_t status;

    call_pool_enter(thread, call->packing, call->packing_bytes);
    status = dnnl_primitive_execute(call->primitive, call->onednn->streams[thread], call->count,
                                    call->arguments);
    call_pool_leave();
    return status == dnnl_success ? 0 : -EIO;
}

void onednn_call_free(struct onednn_call *call)
{
    if (!call)
        return;
    for (int i = 0; i < call->count; i++)
        dnnl_memory_destroy(call->arguments[i].memory);
    free(call);
}
