/* gpu_packages.c: see gpu_packages.h. Packages that use a GPU only on request, such as xgboost and
 * onnxruntime, are not among them. */
#include "client/inspection/gpu_packages.h"

#include <stddef.h>
#include <string.h>

static const char *const frameworks[] = {"torch", "jax", "jaxlib", "tensorflow", "cupy"};

static const char *const built_upon[] = {
    "accelerate",
    "apex",
    "bitsandbytes",
    "botorch",
    "cudf",
    "cugraph",
    "cuml",
    "deepspeed",
    "detectron2",
    "dgl",
    "diffusers",
    "equinox",
    "fairseq",
    "fastai",
    "flash_attn",
    "flax",
    "gpytorch",
    "haiku",
    "keras",
    "kornia",
    "lightning",
    "mmcv",
    "mmdet",
    "mmengine",
    "monai",
    "mxnet",
    "numba.cuda",
    "numpyro",
    "open_clip",
    "optax",
    "paddle",
    "peft",
    "pycuda",
    "pyro",
    "pytorch_lightning",
    "ray.train.torch",
    "sentence_transformers",
    "skorch",
    "stable_baselines3",
    "tensorrt",
    "tf_keras",
    "timm",
    "torch_geometric",
    "torchaudio",
    "torchmetrics",
    "torchtext",
    "torchtune",
    "torchvision",
    "transformers",
    "triton",
    "trl",
    "ultralytics",
    "unsloth",
    "vllm",
    "whisper",
    "xformers",
};

static int is_among(const char *module, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);

        if (strncmp(module, names[i], length) == 0 && (!module[length] || module[length] == '.'))
            return 1;
    }
    return 0;
}

int gpu_package_rank(const char *module)
{
    if (is_among(module, frameworks, sizeof frameworks / sizeof *frameworks))
        return 2;
    return is_among(module, built_upon, sizeof built_upon / sizeof *built_upon);
}
