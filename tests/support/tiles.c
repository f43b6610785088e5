/* tiles.c: see tiles.h. */
#include "tests/support/tiles.h"

#include "engine/backends/cpu/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t random_state;

void tiles_seed(uint32_t seed)
{
    random_state = seed;
}

float tiles_draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 25) * 0x1p-6f - 1.0f;
}

void *tiles_allocate(size_t bytes)
{
    return memset(aligned_alloc(64, (bytes + 63) / 64 * 64 + 64), 0, bytes);
}

bool tiles_have_amx(void)
{
    static int answer = -1;

    if (answer < 0) {
        struct backend_device_config config = {.threads = 1};
        struct backend_device *device;
        struct error error = {0};

        if (backend_cpu()->device_open(&config, &device, &error))
            fail_msg("%s", error.text);
        answer = device->amx;
        backend_cpu()->device_close(device);
        if (!answer)
            print_message("no AMX here: tiles are multiplied by plain loops alone\n");
    }
    return answer;
}
