/* test_calibration_chains.c: speeds measured with chains of operators, here on the CPU, and a guess
 * from a device's description. */
#include "engine/train/calibration_chains.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_every_speed_is_measured(void **state)
{
    const struct backend *backend = backend_cpu();
    const struct calibration_sizes sizes = {
        .product = 64, .images = 4, .channels = 16, .side = 8, .activation = 4096};
    struct backend_device_config config = {.threads = 1, .emulate_precision = true};
    struct calibration calibration = {0};
    struct backend_device *device;
    struct error error = {0};

    (void)state;
    assert_int_equal(backend->device_open(&config, &device, &error), 0);
    assert_int_equal(calibration_measure_chains(backend, device,
                                                1u << TENSOR_FLOAT32 | 1u << TENSOR_BFLOAT16,
                                                &sizes, &calibration, &error),
                     0);
    assert_true(calibration.flops_per_second[TENSOR_FLOAT32] > 0);
    assert_true(calibration.flops_per_second[TENSOR_BFLOAT16] > 0);
    assert_true(calibration.flops_per_second[TENSOR_FLOAT16] == 0);
    assert_true(calibration.convolution_flops_per_second[TENSOR_FLOAT32] > 0);
    assert_true(calibration.kernel_seconds > 0);
    for (int i = 0; i < CALIBRATION_BANDWIDTHS; i++) {
        double numbers = 64.0 * 4096 / pow(8, CALIBRATION_BANDWIDTHS - 1 - i);

        assert_float_equal(calibration.bandwidths[i].bytes, 8 * numbers, 0.5);
        assert_true(calibration.bandwidths[i].bytes_per_second > 0);
    }
    calibration_release(&calibration);
    backend->device_close(device);
}

static void test_guess(void **state)
{
    struct backend_device_info info = {.peak_bytes_per_second = 4.8e12,
                                       .peak_flops[TENSOR_FLOAT32] = 67e12,
                                       .peak_flops[TENSOR_BFLOAT16] = 989e12};
    struct calibration calibration;

    (void)state;
    assert_true(calibration_guess(&info, &calibration));
    assert_true(calibration_bandwidth(&calibration, 1e9) > 2.4e12);
    assert_true(calibration_bandwidth(&calibration, 1e9) < 4.8e12);
    assert_true(calibration_flops(&calibration, TENSOR_BFLOAT16) >
                10 * calibration_flops(&calibration, TENSOR_FLOAT32));
    calibration_release(&calibration);
    info.peak_bytes_per_second = 0;
    assert_false(calibration_guess(&info, &calibration));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_speed_is_measured),
                                       cmocka_unit_test(test_guess)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
