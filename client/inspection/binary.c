/* binary.c: whether a program uses CUDA. One that is linked with a library of CUDA names it among
 * its dynamic strings; one that loads it at run time, as the static CUDA runtime does, names it
 * among its data. Both are found by looking for the names. */
#include "client/inspection/look.h"

#include <string.h>

static const char *const libraries[] = {
    "libcuda.so",       "libcudart.so",        "libcublas.so",     "libcudnn.so",
    "libcufft.so",      "libcusparse.so",      "libcusolver.so",   "libcurand.so",
    "libnccl.so",       "libnvrtc.so",         "libnvinfer.so",    "libtorch.so",
    "libtorch_cuda.so", "libtensorflow_cc.so", "libtensorflow.so",
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

void look_at_binary(struct look *look, const char *path, const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !look_is_over(look); i++)
        if (memmem(text, size, libraries[i], strlen(libraries[i])))
            look_found(look, "%s uses %s", base_name(path), libraries[i]);
    look_found_none(look, "%s uses no library of CUDA", base_name(path));
}
