/* instructions.c: see instructions.h. */
#include "engine/backends/cpu/instructions.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool cpu_request_amx(void)
{
#if defined(__x86_64__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

#if defined(__x86_64__)
/* By its number, because not every compiler's own test knows the name (clang 14). */
static bool has_amx_int8(void)
{
    enum { FEATURES = 7, AMX_INT8 = 1 << 25 };
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid_count(FEATURES, 0, &eax, &ebx, &ecx, &edx) && edx & AMX_INT8;
}
#endif

enum int8_instructions cpu_int8_instructions(const struct kernels *kernels)
{
#if defined(__x86_64__)
    if (strcmp(kernels->level, "v4") == 0 && __builtin_cpu_supports("avx512vnni"))
        return has_amx_int8() && cpu_request_amx() ? INT8_AMX : INT8_VNNI;
#endif
    (void)kernels;
    return INT8_WORDS;
}
