/* binary.c: whether a program uses CUDA. One that is linked with a library of CUDA names it among
 * its dynamic strings; one that loads it at run time, as the static CUDA runtime does, names it
 * among its data. Both are found by looking for the names. */
#include "client/inspection/look.h"

#include <string.h>

/* Without "lib" and ".so": with them, this program would seem to use CUDA. */
static const char *const libraries[] = {
    "cuda", "cudart", "cublas",  "cudnn", "cufft",      "cusparse",      "cusolver",   "curand",
    "nccl", "nvrtc",  "nvinfer", "torch", "torch_cuda", "tensorflow_cc", "tensorflow",
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* The library whose file name begins at `at`; NULL: none of them. */
static const char *library_at(const char *at, const char *end)
{
    static const char suffix[] = ".so";

    at += strlen("lib");
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        size_t length = strlen(libraries[i]), whole = length + strlen(suffix);

        if ((size_t)(end - at) >= whole && memcmp(at, libraries[i], length) == 0 &&
            memcmp(at + length, suffix, strlen(suffix)) == 0)
            return libraries[i];
    }
    return NULL;
}

void look_at_binary(struct look *look, const char *path, const char *text, size_t size)
{
    const char *end = text + size;

    for (const char *at = text; (at = memmem(at, (size_t)(end - at), "lib", 3)); at++) {
        const char *library = library_at(at, end);

        if (!library)
            continue;
        look_found(look, "%s uses lib%s.so", base_name(path), library);
        return;
    }
    look_found_none(look, "%s uses no library of CUDA", base_name(path));
}
