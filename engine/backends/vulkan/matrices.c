/* matrices.c: see matrices.h. The declarations are those of the registry of Vulkan 1.4
 * (vulkan_core.h): structs, numbers and the function, without the headers that have them. */
#include "engine/backends/vulkan/matrices.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAVES_MAX = 8, /* of a workgroup */
    SHARED_BYTES_MIN =
        32 << 10, /* for the pieces of the largest tiles, and a matrix of each wave */
    PROPERTIES_MAX = 64
};

#define MATRICES_EXTENSION "VK_KHR_cooperative_matrix"
#define BFLOAT16_EXTENSION "VK_KHR_shader_bfloat16"

/* VkStructureType */
static const VkStructureType features_type = (VkStructureType)1000506000;
static const VkStructureType properties_type = (VkStructureType)1000506001;
static const VkStructureType bfloat16_type = (VkStructureType)1000141000;
/* VkComponentTypeKHR, VkScopeKHR */
enum { COMPONENT_FLOAT16 = 0, COMPONENT_FLOAT32 = 1, COMPONENT_BFLOAT16 = 1000141000 };
enum { SCOPE_SUBGROUP = 3 };

/* VkCooperativeMatrixPropertiesKHR */
struct matrix_properties {
    VkStructureType type;
    void *next;
    uint32_t m, n, k;
    int32_t a, b, c, result;
    VkBool32 saturating;
    int32_t scope;
};
typedef VkResult VKAPI_CALL matrix_lister(VkPhysicalDevice device, uint32_t *count,
                                          struct matrix_properties *properties);

/* ---- which there are ------------------------------------------------------------------------- */

/* Tiles have 16 rows at least, and pieces of 16 numbers along K. */
static bool fits(const struct matrix_properties *matrix, int32_t component)
{
    return matrix->a == component && matrix->b == component && matrix->c == COMPONENT_FLOAT32 &&
           matrix->result == COMPONENT_FLOAT32 && !matrix->saturating &&
           matrix->scope == SCOPE_SUBGROUP && matrix->m && 16 % matrix->m == 0 && matrix->n &&
           16 % matrix->n == 0 && matrix->k && 16 % matrix->k == 0;
}

/* The largest that fit. */
static struct vulkan_matrices choose(const struct matrix_properties *list, uint32_t count,
                                     int32_t component, uint32_t subgroup)
{
    struct vulkan_matrices best = {0};

    for (uint32_t i = 0; i < count; i++)
        if (fits(&list[i], component) &&
            list[i].m * list[i].n * list[i].k > best.m * best.n * best.k)
            best = (struct vulkan_matrices){
                .m = list[i].m, .n = list[i].n, .k = list[i].k, .subgroup = subgroup};
    return best;
}

static void list_matrices_of(struct backend_device *device, uint32_t subgroup, bool bfloat16)
{
    matrix_lister *list = (matrix_lister *)device->library.GetInstanceProcAddr(
        device->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    struct matrix_properties found[PROPERTIES_MAX];
    uint32_t count = PROPERTIES_MAX;

    for (int i = 0; i < PROPERTIES_MAX; i++)
        found[i] = (struct matrix_properties){.type = properties_type};
    if (!subgroup || !list || list(device->physical, &count, found) < 0)
        return;
    device->matrices.float16 = choose(found, count, COMPONENT_FLOAT16, subgroup);
    if (bfloat16)
        device->matrices.bfloat16 = choose(found, count, COMPONENT_BFLOAT16, subgroup);
}

/* Links the features before `next`. */
static void *link_features(struct matrices_features *features, void *next, bool bfloat16)
{
    features->cooperative.type = features_type;
    features->cooperative.next = next;
    features->subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    features->subgroups.pNext = &features->cooperative;
    if (!bfloat16)
        return &features->subgroups;
    features->bfloat16.type = bfloat16_type;
    features->bfloat16.next = &features->subgroups;
    return &features->bfloat16;
}

/* The size of subgroups, which pipelines ask for; 0: they cannot. */
static uint32_t find_subgroup(struct backend_device *device)
{
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroups = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &sizes};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &subgroups};

    device->library.GetPhysicalDeviceProperties2(device->physical, &properties);
    return sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT ? subgroups.subgroupSize
                                                                          : 0;
}

void matrices_find(struct backend_device *device)
{
    const bool bfloat16 = vulkan_device_has_extension(device, BFLOAT16_EXTENSION);
    struct matrices_features features = {0};
    VkPhysicalDeviceVulkan12Features needed = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = link_features(&features, NULL, bfloat16)};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &needed};
    const char *wanted = getenv("TRAIND_VULKAN_MATRICES");

    if ((wanted && strcmp(wanted, "no") == 0) || !device->stores_halves ||
        device->properties.limits.maxComputeSharedMemorySize < SHARED_BYTES_MIN ||
        !vulkan_device_has_extension(device, MATRICES_EXTENSION) ||
        !vulkan_device_has_extension(device, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        return;
    device->library.GetPhysicalDeviceFeatures2(device->physical, &all);
    if (features.cooperative.matrices && features.subgroups.subgroupSizeControl &&
        features.subgroups.computeFullSubgroups && needed.shaderFloat16 &&
        needed.vulkanMemoryModel && needed.vulkanMemoryModelDeviceScope && all.features.shaderInt16)
        list_matrices_of(device, find_subgroup(device),
                         features.bfloat16.numbers && features.bfloat16.matrices);
}

bool matrices_are_used(const struct backend_device *device)
{
    return device->matrices.float16.m || device->matrices.bfloat16.m;
}

uint32_t matrices_enable(const struct backend_device *device, struct matrices_features *features,
                         void **next, const char **extensions, uint32_t count)
{
    const bool bfloat16 = device->matrices.bfloat16.m;

    if (!matrices_are_used(device))
        return count;
    *features = (struct matrices_features){
        .cooperative = {.matrices = VK_TRUE},
        .bfloat16 = {.numbers = VK_TRUE, .matrices = VK_TRUE},
        .subgroups = {.subgroupSizeControl = VK_TRUE, .computeFullSubgroups = VK_TRUE}};
    *next = link_features(features, *next, bfloat16);
    extensions[count++] = MATRICES_EXTENSION;
    extensions[count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (bfloat16)
        extensions[count++] = BFLOAT16_EXTENSION;
    return count;
}

/* ---- how products take them ------------------------------------------------------------------ */

const struct vulkan_matrices *matrices_of_program(const struct backend_program *program)
{
    const struct backend_device *device = program->device;
    const struct vulkan_matrices *matrices = program->graph->compute_type == TENSOR_BFLOAT16
                                                 ? &device->matrices.bfloat16
                                                 : &device->matrices.float16;

    return matrices->m ? matrices : NULL;
}

const struct vulkan_matrices *matrices_of(const struct recorder *recorder, VkDeviceAddress a,
                                          VkDeviceAddress b)
{
    return (a | b) & ADDRESS_OF_HALVES ? matrices_of_program(recorder->program) : NULL;
}

bool matrices_take_eights(const struct vulkan_matrices *matrices)
{
    return matrices && (matrices->m | matrices->n | matrices->k) % 8 == 0;
}

uint32_t matrices_columns_max(const struct vulkan_matrices *matrices)
{
    return WAVES_MAX * matrices->subgroup;
}

uint32_t matrices_divide(const struct vulkan_matrices *matrices, uint32_t tile_m, uint32_t tile_n,
                         uint32_t waves[2])
{
    const uint32_t along_m = tile_m / matrices->m, along_n = tile_n / matrices->n;
    uint32_t most = 0, least = UINT32_MAX;

    for (uint32_t m = 1; m <= WAVES_MAX && along_m % m == 0; m *= 2)
        for (uint32_t n = 1; m * n <= WAVES_MAX && along_n % n == 0; n *= 2) {
            const uint32_t sides = along_m / m + along_n / n; /* matrices that a wave loads */

            if (m * n > most || (m * n == most && sides < least)) {
                most = m * n;
                least = sides;
                waves[0] = m;
                waves[1] = n;
            }
        }
    return most * matrices->subgroup;
}
