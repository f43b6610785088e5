/* matrices.h: cooperative matrices (VK_KHR_cooperative_matrix): small matrices of 16 bits that the
 * invocations of a subgroup multiply together, on the units that GPUs have for that. Their sums are
 * float32. Products on tiles take them where an operand is stored in 16 bits; the other one is
 * rounded then. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* Features to enable; those of VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16 are younger
 * than Debian 12's headers. */
struct matrices_features {
    struct {
        VkStructureType type;
        void *next;
        VkBool32 matrices, robust;
    } cooperative;
    struct {
        VkStructureType type;
        void *next;
        VkBool32 numbers, dot_products, matrices;
    } bfloat16;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroups;
};

enum { MATRICES_EXTENSIONS_MAX = 3 };

/* Finds which matrices the device multiplies: device->matrices. */
void matrices_find(struct backend_device *device);
/* Whether the device multiplies some. */
bool matrices_are_used(const struct backend_device *device);
/* For a device that is being made: puts what the matrices need before *next, a list of features,
 * and behind `count` names of extensions. Returns how many there are then. */
uint32_t matrices_enable(const struct backend_device *device, struct matrices_features *features,
                         void **next, const char **extensions, uint32_t count);

/* Multiplies by those of the type once; if the result is wrong, the device has none any more. */
void matrices_check(struct backend_device *device, enum tensor_type type);

/* Those of a program's type; NULL: none. */
const struct vulkan_matrices *matrices_of_program(const struct backend_program *program);
/* What a product of two operands takes; NULL: none. */
const struct vulkan_matrices *matrices_of(const struct recorder *recorder, VkDeviceAddress a,
                                          VkDeviceAddress b);
/* Whether pieces can be stored by eight numbers at once: no matrix begins between these. */
bool matrices_take_eights(const struct vulkan_matrices *matrices);
/* The most columns of a tile that has a column for each invocation. */
uint32_t matrices_columns_max(const struct vulkan_matrices *matrices);
/* Divides a tile into parts, one for each wave of a workgroup: so many along its rows and along its
 * columns. There are as many as possible, and they are as square as can be. Returns how many
 * invocations the workgroup has. */
uint32_t matrices_divide(const struct vulkan_matrices *matrices, uint32_t tile_m, uint32_t tile_n,
                         uint32_t waves[2]);
