/* matrices_check.c: a product by cooperative matrices whose result is known, before programs take
 * them. Drivers are young here, and a wrong one would spoil models silently. The numbers are small
 * integers, so that the result is exact in every type and order. */
#include "base/log.h"
#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/product.h"

#include <string.h>

enum {
    ROWS = 72, /* more than one tile, and parts of tiles */
    COLUMNS = 56,
    DEPTH = 80,
    GAP = 8, /* numbers behind an operand, which may begin one number later */
    LEFT_NUMBERS = ROWS * DEPTH,
    RIGHT_NUMBERS = DEPTH * COLUMNS,
    RESULT_BYTES = ROWS * COLUMNS * (int)sizeof(float),
    BYTES = RESULT_BYTES + (LEFT_NUMBERS + RIGHT_NUMBERS + 2 * GAP) * (int)sizeof(uint16_t)
};

/* How the operands lie: rows of a and of b along K, or columns. Those that begin one number later
 * are not read by eights. */
struct layout {
    bool rows, left_later, right_later;
};

/* -4 to 4, from the number's place. */
static int number_at(int place)
{
    return (int)((uint32_t)place * 2654435761u >> 16) % 9 - 4;
}

static uint16_t stored_as(enum tensor_type type, int number)
{
    const float value = (float)number;
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (type == TENSOR_BFLOAT16)
        return (uint16_t)(bits >> 16);
    return number == 0
               ? 0
               : (uint16_t)((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13);
}

static VkDeviceSize left_place(const struct layout *layout)
{
    return RESULT_BYTES + layout->left_later * sizeof(uint16_t);
}

static VkDeviceSize right_place(const struct layout *layout)
{
    return RESULT_BYTES + (LEFT_NUMBERS + GAP + layout->right_later) * sizeof(uint16_t);
}

static struct product product_of(VkDeviceAddress at, const struct layout *layout)
{
    return (struct product){.m = ROWS,
                            .n = COLUMNS,
                            .k = DEPTH,
                            .a = {.at = (at + left_place(layout)) | ADDRESS_OF_HALVES,
                                  .row_stride = layout->rows ? 1 : ROWS,
                                  .column_stride = layout->rows ? DEPTH : 1},
                            .b = {.at = (at + right_place(layout)) | ADDRESS_OF_HALVES,
                                  .row_stride = layout->rows ? 1 : DEPTH,
                                  .column_stride = layout->rows ? COLUMNS : 1},
                            .c = at,
                            .c_row_stride = COLUMNS};
}

static bool is_right(const float *result, const struct product *product)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int sum = 0;

            for (int k = 0; k < DEPTH; k++)
                sum += number_at(row * (int)product->a.column_stride +
                                 k * (int)product->a.row_stride) *
                       number_at(LEFT_NUMBERS + k * (int)product->b.column_stride +
                                 column * (int)product->b.row_stride);
            if (result[row * COLUMNS + column] != (float)sum)
                return false;
        }
    return true;
}

static int multiply(struct recorder *recorder, const struct product *product, struct error *error)
{
    struct backend_device *device = recorder->program->device;
    int r = queue_begin(device, false, &recorder->commands, error);

    if (r < 0)
        return r;
    queue_barrier(device, recorder->commands);
    r = record_product(recorder, product, error);
    if (r < 0) {
        queue_discard(device, recorder->commands);
        return r;
    }
    queue_barrier(device, recorder->commands);
    return queue_finish(device, recorder->commands, error);
}

static void write_operands(char *memory, const struct layout *layout, enum tensor_type type)
{
    uint16_t *left = (uint16_t *)(void *)(memory + left_place(layout));
    uint16_t *right = (uint16_t *)(void *)(memory + right_place(layout));

    for (int i = 0; i < LEFT_NUMBERS; i++)
        left[i] = stored_as(type, number_at(i));
    for (int i = 0; i < RIGHT_NUMBERS; i++)
        right[i] = stored_as(type, number_at(LEFT_NUMBERS + i));
}

static int check(struct backend_device *device, const struct vulkan_memory *memory,
                 enum tensor_type type, bool *right, struct error *error)
{
    enum { LAYOUTS = 8 };
    const struct graph graph = {.compute_type = type};
    struct backend_program program = {.device = device, .graph = &graph};
    struct recorder recorder = {.program = &program};
    int r = 0;

    *right = true;
    for (unsigned kind = 0; kind < LAYOUTS && r == 0 && *right; kind++) {
        const struct layout layout = {kind & 1, kind & 2, kind & 4};
        const struct product product = product_of(memory->address, &layout);

        write_operands(memory->mapped, &layout, type);
        r = multiply(&recorder, &product, error);
        *right = r == 0 && is_right((const float *)(const void *)memory->mapped, &product);
    }
    return r;
}

void matrices_check(struct backend_device *device, enum tensor_type type)
{
    struct vulkan_matrices *matrices =
        type == TENSOR_BFLOAT16 ? &device->matrices.bfloat16 : &device->matrices.float16;
    struct vulkan_memory memory = {0};
    struct error error = {0};
    bool right = false;
    int r;

    if ((type != TENSOR_BFLOAT16 && type != TENSOR_FLOAT16) || !matrices->m || matrices->checked)
        return;
    matrices->checked = true;
    r = vulkan_memory_allocate(device, BYTES, true, &memory, &error);
    if (r == 0) {
        r = check(device, &memory, type, &right, &error);
        vulkan_memory_free(device, &memory);
    }
    if (r == 0 && right)
        return;
    matrices->m = 0;
    log_warning("%s: products of %s go without cooperative matrices: %s", device->name,
                tensor_type_to_string(type), r < 0 ? error.text : "the driver's are wrong");
}
