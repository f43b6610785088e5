/* test_job_environment.c: the variables of commands, by device and booking. The user's own values
 * win. */
#include "daemon/attempts/job_environment.h"
#include "daemon/devices/registry/registry.h"
#include "daemon/work/job_preemption.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect(const struct job_environment *environment, const char *given, const char *json)
{
    JSON_AUTO struct json_object *variables = json_tokener_parse(given);
    JSON_AUTO struct json_object *expected = json_tokener_parse(json);

    assert_non_null(expected);
    job_environment_add(environment, variables);
    if (!json_object_equal(variables, expected))
        assert_string_equal(json_text(variables, NULL), json_text(expected, NULL));
}

static void on_the_cpu(void **state)
{
    struct job_environment_device cpu = {&device_driver_cpu, "cpu", "x", 1 << 30};
    struct job_environment environment = {
        .attempt = 1, .cores = 4, .memory = 1000, .drivers = device_registry};

    (void)state;
    expect(&environment, "{}",
           "{\"TRAIND_DEVICE\":\"cpu\",\"TRAIND_RESUME\":\"0\",\"TRAIND_MEMORY\":\"1000\","
           "\"OMP_NUM_THREADS\":\"4\",\"MKL_NUM_THREADS\":\"4\",\"OPENBLAS_NUM_THREADS\":\"4\","
           "\"CUDA_VISIBLE_DEVICES\":\"\"}");
    environment.devices = &cpu;
    environment.device_count = 1;
    environment.device_memory = 1000; /* the CPU has no such memory */
    environment.attempt = 3;
    environment.checkpoint_directory = "/state/7.checkpoints";
    expect(&environment, "{\"OMP_NUM_THREADS\":\"1\",\"TRAIND_DEVICE\":\"mine\",\"A\":\"b\"}",
           "{\"TRAIND_DEVICE\":\"cpu\",\"TRAIND_RESUME\":\"2\",\"TRAIND_MEMORY\":\"1000\","
           "\"TRAIND_DEVICE_MEMORY\":\"1000\",\"OMP_NUM_THREADS\":\"1\",\"MKL_NUM_THREADS\":\"4\","
           "\"OPENBLAS_NUM_THREADS\":\"4\",\"CUDA_VISIBLE_DEVICES\":\"\",\"A\":\"b\","
           "\"TRAIND_CHECKPOINT_DIRECTORY\":\"/state/7.checkpoints\"}");
}

#define COMMON                                                                     \
    "\"TRAIND_RESUME\":\"0\",\"OMP_NUM_THREADS\":\"2\",\"MKL_NUM_THREADS\":\"2\"," \
    "\"OPENBLAS_NUM_THREADS\":\"2\",\"CUDA_DEVICE_ORDER\":\"PCI_BUS_ID\","         \
    "\"XLA_PYTHON_CLIENT_PREALLOCATE\":\"false\",\"TF_FORCE_GPU_ALLOW_GROWTH\":\"true\""
#define BOOKED                                                            \
    "\"PYTORCH_CUDA_ALLOC_CONF\":\"garbage_collection_threshold:0.250\"," \
    "\"PYTORCH_ALLOC_CONF\":\"garbage_collection_threshold:0.250\","      \
    "\"PYTORCH_MPS_HIGH_WATERMARK_RATIO\":\"0.250\","                     \
    "\"PYTORCH_MPS_LOW_WATERMARK_RATIO\":\"0.250\",\"TRAIND_DEVICE_MEMORY\":\"2048\""

static void on_gpus(void **state)
{
    struct job_environment_device gpus[] = {{&device_driver_nvidia, "cuda:0", "GPU-a", 8192},
                                            {&device_driver_nvidia, "cuda:2", "GPU-c", 8192}};
    struct job_environment environment = {
        .attempt = 1, .cores = 2, .drivers = device_registry, .devices = gpus, .device_count = 1};

    (void)state;
    expect(&environment, "{}",
           "{" COMMON ",\"TRAIND_DEVICE\":\"cuda:0\",\"CUDA_VISIBLE_DEVICES\":\"GPU-a\"}");
    environment.device_count = 2;
    environment.device_memory = 2048; /* a learnt booking: JAX is not limited to it */
    expect(&environment, "{}",
           "{" COMMON "," BOOKED ",\"TRAIND_DEVICE\":\"cuda:0,cuda:2\","
           "\"CUDA_VISIBLE_DEVICES\":\"GPU-a,GPU-c\"}");
    environment.device_memory_declared = true;
    expect(&environment, "{\"CUDA_VISIBLE_DEVICES\":\"1\"}",
           "{" COMMON "," BOOKED ",\"TRAIND_DEVICE\":\"cuda:0,cuda:2\","
           "\"TRAIND_DEVICE_MEMORY_PART\":\"0.250\",\"XLA_PYTHON_CLIENT_MEM_FRACTION\":\"0.250\","
           "\"CUDA_VISIBLE_DEVICES\":\"1\"}");
    /* JAX reads one of its two names, not both */
    expect(&environment, "{\"XLA_CLIENT_MEM_FRACTION\":\"0.5\"}",
           "{" COMMON "," BOOKED ",\"TRAIND_DEVICE\":\"cuda:0,cuda:2\","
           "\"TRAIND_DEVICE_MEMORY_PART\":\"0.250\",\"XLA_CLIENT_MEM_FRACTION\":\"0.5\","
           "\"CUDA_VISIBLE_DEVICES\":\"GPU-a,GPU-c\"}");
}

static void on_a_simulated_device(void **state)
{
    struct job_environment_device sim = {&device_driver_simulated, "sim0", "sim0", 4096};
    struct job_environment environment = {.attempt = 1,
                                          .cores = 1,
                                          .drivers = device_registry,
                                          .device_memory = 9999,
                                          .devices = &sim,
                                          .device_count = 1};

    (void)state;
    expect(&environment, "{}",
           "{\"TRAIND_DEVICE\":\"sim0\",\"TRAIND_RESUME\":\"0\",\"TRAIND_DEVICE_MEMORY\":\"9999\","
           "\"OMP_NUM_THREADS\":\"1\",\"MKL_NUM_THREADS\":\"1\",\"OPENBLAS_NUM_THREADS\":\"1\","
           "\"CUDA_VISIBLE_DEVICES\":\"\",\"PYTORCH_MPS_HIGH_WATERMARK_RATIO\":\"0.990\","
           "\"PYTORCH_MPS_LOW_WATERMARK_RATIO\":\"0.990\"}");
}

static void preemption(void **state)
{
    static const struct {
        const char *spec;
        enum job_kind kind;
        bool possible;
        int signal;
        double grace;
    } cases[] = {
        {"{}", JOB_NATIVE, true, 0, -1},
        {"{\"preemptible\":false,\"checkpoint_signal\":\"SIGTERM\"}", JOB_COMMAND, false, SIGTERM,
         -1},
        {"{\"preemptible\":true,\"checkpoint_signal\":\"SIGUSR1\",\"checkpoint_grace\":2.5}",
         JOB_COMMAND, true, SIGUSR1, 2.5},
        {"{\"preemptible\":true,\"checkpoint_signal\":\"SIGHUP\"}", JOB_COMMAND, true, SIGHUP, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *spec = json_tokener_parse(cases[i].spec);
        struct job_preemption read = job_preemption_read(spec, cases[i].kind);

        assert_int_equal(read.possible, cases[i].possible);
        assert_int_equal(read.signal, cases[i].signal);
        assert_true(read.grace_seconds == cases[i].grace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_gpus),
        cmocka_unit_test(on_a_simulated_device),
        cmocka_unit_test(preemption),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
