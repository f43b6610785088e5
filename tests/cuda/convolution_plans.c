/* convolution_plans: checks the results of cuDNN's plans, or measures their times.
 * `convolution_plans [PLUGIN]` compares every plan that may be chosen, for small convolutions in
 * every type and direction, with sums in double on the host. Exit status 0: all agree; 1: not; 77:
 * there is no GPU, or no cuDNN. `convolution_plans --own` checks only our own kernels.
 * `convolution_plans --time SECONDS [variants]` measures the best plans for the convolutions of
 * ResNet-18 (CIFAR-10), and with `variants` those with fused neighbours and other results.
 * `convolution_plans --hunt COUNT SEED` tries all ways of random convolutions, those that crash or
 * hang included. */
#include "engine/backends/cuda/convolution_padded.h"
#include "tests/cuda/convolutions/convolutions.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest error of all plans; -1: there are none. */
static double check_plans(const struct cudnn *cudnn, const struct convolution_problem *problem,
                          struct tensors *tensors, double limit, int *plans)
{
    enum { CHOICES_MAX = 6 };
    struct convolution_choice choices[CHOICES_MAX];
    struct convolution_graph *graph = NULL;
    struct error error = {0};
    double worst = -1;
    int count;

    *plans = 0;
    if (convolution_graph_make(cudnn, problem, &graph, &error) < 0)
        return -1;
    count = convolution_graph_choices(graph, choices, CHOICES_MAX);
    for (int i = 0; i < count; i++) {
        struct convolution_plan plan;
        double nmse;

        if (choices[i].compiles && *plans > 0)
            continue;
        if (convolution_plan_make(graph, &choices[i], &plan, &error) < 0)
            continue;
        tensors->operands.workspace = allocate_device(plan.workspace_bytes);
        if (convolution_plan_run(&plan, &tensors->operands, &error) < 0)
            printf("    %s\n", error.text);
        else {
            expect_cuda(cudaDeviceSynchronize(), "plan");
            nmse = compare(problem, tensors);
            ++*plans;
            if (!(nmse <= worst))
                worst = nmse;
            if (!(nmse <= limit)) {
                printf("    NMSE %.1e: ", nmse);
                print_choice(&choices[i]);
                printf("\n");
            }
        }
        cudaFree(tensors->operands.workspace);
        convolution_plan_free(&plan);
    }
    convolution_graph_free(graph);
    return worst;
}

static const struct precision {
    const char *name;
    enum tensor_type type;
    bool tf32;
    /* for float32 it is that of the operators; otherwise some multiple of the error that rounding
     * operands and result to the nearest gives */
    double limit;
} precisions[] = {{"float32", TENSOR_FLOAT32, false, 1e-10},
                  {"tf32", TENSOR_FLOAT32, true, 1e-6},
                  {"bfloat16", TENSOR_BFLOAT16, false, 1e-5},
                  {"float16", TENSOR_FLOAT16, false, 2e-7}};

static const struct own_case {
    enum convolution_pass pass;
    bool bias, accumulate;
    const char *name;
} own_cases[] = {{CONVOLUTION_FORWARD, false, false, "forward"},
                 {CONVOLUTION_FORWARD, true, false, "with bias"},
                 {CONVOLUTION_DATA, false, false, "data"},
                 {CONVOLUTION_WEIGHTS, false, false, "weights"},
                 {CONVOLUTION_WEIGHTS, false, true, "accumulated"}};

/* Twice where it accumulates. */
static double check_own_case(const struct layer *layer, int64_t batch,
                             const struct precision *precision, const struct own_case *own,
                             own_kernel *run)
{
    struct convolution_problem problem = problem_of(layer, batch, own->pass, precision->type);
    struct tensors tensors;
    double nmse;

    problem.bias = own->bias;
    problem.tf32 = precision->tf32;
    if (own->pass == CONVOLUTION_WEIGHTS)
        problem.result = TENSOR_FLOAT32;
    make_tensors(&problem, &tensors);
    tensors.operands.workspace = allocate_device(PART_BYTES);
    expect_cuda(run(&problem, &tensors.operands, false, NULL), "own kernel");
    if (own->accumulate) {
        expect_cuda(run(&problem, &tensors.operands, true, NULL), "own kernel");
        for (int64_t i = 0; i < elements(problem.weight); i++)
            tensors.want[1][i] *= 2;
    }
    expect_cuda(cudaDeviceSynchronize(), "own kernel");
    nmse = compare(&problem, &tensors);
    cudaFree(tensors.operands.workspace);
    release_tensors(&tensors);
    return nmse;
}

/* An operand consists of the NaN that the GPU itself makes, with all bits of exponent and mantissa
 * set. If rounding carried into the sign, the result would not be NaN. */
static bool check_nan(const struct layer *layer, int64_t batch, const struct precision *precision,
                      enum convolution_pass pass, own_kernel *run)
{
    struct convolution_problem problem = problem_of(layer, batch, pass, precision->type);
    size_t bytes = type_bytes(precision->type);
    struct tensors tensors;
    unsigned char *nan;
    void *operand;
    int64_t count;
    bool seen;

    problem.tf32 = precision->tf32;
    if (pass == CONVOLUTION_WEIGHTS)
        problem.result = TENSOR_FLOAT32;
    make_tensors(&problem, &tensors);
    operand = pass == CONVOLUTION_FORWARD ? tensors.operands.x : tensors.operands.y;
    count = elements(pass == CONVOLUTION_FORWARD ? problem.x : problem.y);
    nan = malloc((size_t)count * bytes);
    memset(nan, 0xff, (size_t)count * bytes);
    for (int64_t i = 1; i <= count; i++) /* the sign, in the last byte of each */
        nan[(size_t)i * bytes - 1] = 0x7f;
    expect_cuda(cudaMemcpy(operand, nan, (size_t)count * bytes, cudaMemcpyHostToDevice), "NaN");
    free(nan);
    tensors.operands.workspace = allocate_device(PART_BYTES);
    expect_cuda(run(&problem, &tensors.operands, false, NULL), "own kernel");
    expect_cuda(cudaDeviceSynchronize(), "own kernel");
    seen = isnan(compare(&problem, &tensors));
    cudaFree(tensors.operands.workspace);
    release_tensors(&tensors);
    return seen;
}

/* All tiles of the products of gathered operands give the same. */
#define IMPLICIT(name, run)                                                              \
    {                                                                                    \
        name, run, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3,                                    \
            1 << CONVOLUTION_FORWARD | 1 << CONVOLUTION_DATA | 1 << CONVOLUTION_WEIGHTS, \
        {                                                                                \
            {16, 9, 24, 3, 1, 1, 1, 1, 1}, {3, 12, 16, 3, 1, 1, 1, 1, 1},                \
                {1, 16, 129, 7, 2, 0, 1, 1, 1}, {129, 5, 50, 3, 2, 3, 3, 1, 1},          \
                {56, 12, 64, 3, 2, 0, 3, 1, 1}, {40, 13, 72, 5, 3, 2, 1, 1, 1},          \
                {32, 8, 16, 5, 2, 4, 2, 1, 1}, {64, 4, 112, 3, 2, 0, 1, 4, 1},           \
                {33, 7, 66, 3, 1, 1, 1, 3, 1}, {128, 6, 128, 5, 1, 0, 1, 1, 1},          \
                {20, 11, 70, 1, 2, 0, 1, 1, 1}, {5, 30, 7, 4, 4, 1, 1, 1, 1},            \
        }                                                                                \
    }
enum { OWN_LAYERS = 16 };
/* A kernel of our own, its purpose, and the layers with which it is tested. */
static const struct own {
    const char *name;
    own_kernel *run;
    unsigned precisions, passes; /* a bit for each, in their order */
    struct layer layers[OWN_LAYERS];
} owns[] = {{"depthwise",
             run_depthwise,
             1 << 0 | 1 << 2 | 1 << 3,
             1 << CONVOLUTION_FORWARD | 1 << CONVOLUTION_DATA | 1 << CONVOLUTION_WEIGHTS,
             {{24, 9, 24, 3, 1, 1, 1, 24, 1},
              {40, 8, 40, 3, 2, 1, 1, 40, 1},
              {8, 7, 8, 3, 2, 1, 1, 8, 1},
              {96, 11, 96, 5, 1, 2, 1, 96, 1},
              {16, 13, 16, 5, 2, 2, 1, 16, 1},
              {264, 5, 264, 3, 1, 1, 1, 264, 1}}},
            {"stem",
             run_stem,
             1 << 2 | 1 << 3,
             1 << CONVOLUTION_FORWARD | 1 << CONVOLUTION_WEIGHTS,
             {{3, 32, 64, 3, 1, 1, 1, 1, 1},
              {3, 11, 32, 3, 1, 1, 1, 1, 1},
              {3, 15, 96, 3, 2, 1, 1, 1, 1},
              {1, 28, 64, 3, 1, 1, 1, 1, 1},
              {1, 9, 32, 3, 2, 1, 1, 1, 1},
              {3, 40, 128, 3, 2, 1, 1, 1, 1},
              {3, 34, 160, 3, 1, 0, 1, 1, 1},
              {3, 13, 64, 3, 2, 0, 1, 1, 1},
              {1, 10, 32, 3, 1, 3, 1, 1, 1}}},
            {"weights in tf32",
             run_weights_tf32,
             1 << 1,
             1 << CONVOLUTION_WEIGHTS,
             {{64, 32, 64, 3, 1, 1, 1, 1, 1},
              {64, 32, 128, 3, 1, 1, 1, 1, 1},
              {128, 32, 64, 3, 1, 1, 1, 1, 1}}},
            {"direct",
             run_direct,
             1 << 0 | 1 << 2 | 1 << 3,
             1 << CONVOLUTION_FORWARD | 1 << CONVOLUTION_DATA | 1 << CONVOLUTION_WEIGHTS,
             {{3, 11, 3, 7, 1, 3, 1, 3, 1},
              {3, 12, 15, 3, 1, 1, 1, 3, 1},
              {56, 9, 56, 7, 1, 3, 1, 56, 1},
              {37, 13, 37, 5, 2, 2, 1, 37, 1},
              {100, 10, 100, 3, 1, 2, 2, 100, 1},
              {12, 9, 42, 3, 1, 0, 2, 6, 1},
              {24, 8, 16, 1, 1, 0, 1, 8, 1},
              {6, 17, 9, 9, 3, 4, 1, 3, 1},
              {112, 1, 112, 1, 2, 0, 1, 112, 1},
              {8, 16, 8, 5, 1, 4, 2, 8, 1},
              {10, 14, 20, 3, 2, 2, 2, 10, 1},
              {6, 23, 12, 7, 1, 9, 3, 6, 1},
              {4, 9, 4, 3, 1, 7, 7, 4, 1},
              {9, 19, 9, 3, 2, 4, 4, 9, 1},
              {1, 16, 40, 1, 2, 0, 1, 1, 1},
              {3, 12, 16, 5, 1, 0, 1, 1, 1}}},
            {"narrow",
             run_narrow,
             1 << 0 | 1 << 2 | 1 << 3,
             1 << CONVOLUTION_DATA,
             {{1, 16, 224, 3, 2, 0, 2, 1, 1},
              {1, 9, 31, 5, 1, 2, 1, 1, 1},
              {2, 12, 40, 3, 1, 1, 1, 1, 1},
              {3, 11, 40, 7, 2, 3, 1, 1, 1},
              {1, 60, 48, 3, 1, 1, 1, 1, 1},
              {4, 10, 129, 3, 3, 1, 2, 1, 1},
              {4, 7, 3, 1, 1, 0, 1, 1, 1},
              {3, 32, 152, 5, 1, 0, 3, 1, 1}, /* too large for all taps at once */
              {4, 13, 130, 7, 2, 3, 2, 1, 1}}},
            {"pointwise",
             run_pointwise,
             1 << 0 | 1 << 2 | 1 << 3,
             1 << CONVOLUTION_FORWARD | 1 << CONVOLUTION_DATA | 1 << CONVOLUTION_WEIGHTS,
             {{32, 70, 32, 1, 1, 0, 1, 1, 1}, /* more pixels than blocks take at once */
              {16, 32, 16, 1, 1, 0, 1, 1, 1},
              {4, 17, 16, 1, 1, 0, 1, 1, 1},
              {8, 9, 24, 1, 1, 0, 1, 1, 1},
              {32, 11, 32, 1, 1, 0, 1, 1, 1},
              {3, 13, 30, 1, 1, 0, 1, 1, 1},
              {31, 8, 1, 1, 1, 0, 1, 1, 1},
              {1, 7, 15, 1, 1, 0, 1, 1, 1},
              {17, 5, 9, 1, 1, 0, 1, 1, 1}}},
            IMPLICIT("implicit 128x64", run_implicit_tall),
            IMPLICIT("implicit 64x64", run_implicit_square),
            IMPLICIT("implicit 128x32", run_implicit_narrow),
            IMPLICIT("implicit wide", run_implicit_wide)};

static int check_own(const struct own *own, const struct layer *layer, int64_t batch)
{
    int failed = 0;

    printf("%s %lldx%dx%dx%d -> %d, %dx%d, stride %d\n", own->name, (long long)batch,
           layer->channels, layer->size, layer->size, layer->outputs, layer->kernel, layer->kernel,
           layer->stride);
    for (int t = 0; t < 4; t++) {
        if (!(own->precisions & 1u << t))
            continue;
        printf("  %-8s", precisions[t].name);
        for (size_t i = 0; i < sizeof own_cases / sizeof *own_cases; i++) {
            double nmse;

            if (!(own->passes & 1u << own_cases[i].pass))
                continue;
            nmse = check_own_case(layer, batch, &precisions[t], &own_cases[i], own->run);
            printf("  %s %.1e", own_cases[i].name, nmse);
            failed += !(nmse <= precisions[t].limit);
        }
        for (int pass = 0; pass < CONVOLUTION_PASSES; pass++)
            if (own->passes & 1u << pass &&
                !check_nan(layer, batch, &precisions[t], (enum convolution_pass)pass, own->run)) {
                printf("  %s loses NaN", pass_text[pass]);
                failed++;
            }
        printf("\n");
    }
    return failed;
}

static int check_all_own(void)
{
    int failed = 0;

    for (size_t k = 0; k < sizeof owns / sizeof *owns; k++)
        for (size_t i = 0; i < OWN_LAYERS && owns[k].layers[i].channels; i++)
            failed += check_own(&owns[k], &owns[k].layers[i], 3);
    return failed;
}

/* The normalised mean squared error of a plan for more channels; twice where it accumulates; -1:
 * there is no such plan. */
static double check_padded_pass(struct convolution_search *search,
                                const struct convolution_problem *asked,
                                enum convolution_filling filling, bool accumulate,
                                cudaStream_t stream)
{
    struct convolution_problem problem = *asked;
    struct convolution_padded padded;
    struct tensors tensors;
    struct error error = {0};
    struct cuda_array result = {.type = problem.type};
    double nmse = NAN;

    if (convolution_padded_prepare(search, &problem, filling, &padded, &error) < 0)
        return -1;
    if (problem.pass == CONVOLUTION_WEIGHTS)
        problem.result = result.type = TENSOR_FLOAT32;
    make_tensors(&problem, &tensors);
    tensors.operands.workspace = allocate_device(padded.bytes);
    result.at = problem.pass == CONVOLUTION_FORWARD ? tensors.operands.y
                : problem.pass == CONVOLUTION_DATA  ? tensors.operands.x
                                                    : tensors.operands.weight;
    for (int time = 0; time < (accumulate ? 2 : 1); time++)
        if (convolution_padded_run(&padded, &tensors.operands, result, time > 0, stream, &error) <
            0)
            printf("    %s\n", error.text);
    for (int64_t i = 0; accumulate && i < elements(problem.weight); i++)
        tensors.want[1][i] *= 2;
    expect_cuda(cudaDeviceSynchronize(), "padded");
    if (!error.code)
        nmse = compare(&problem, &tensors);
    cudaFree(tensors.operands.workspace);
    release_tensors(&tensors);
    convolution_padded_free(&padded);
    return nmse;
}

/* In all passes, and with the gradient of the weights accumulated. */
static int check_padded_layer(struct convolution_search *search, const struct layer *layer,
                              const struct precision *precision, enum convolution_filling filling,
                              cudaStream_t stream)
{
    int failed = 0;

    printf("padded %s, %d -> %d, %d groups, %-8s",
           filling == FILL_CHUNKS ? "to chunks" : "to powers", layer->channels, layer->outputs,
           layer->groups, precision->name);
    for (int way = 0; way <= CONVOLUTION_PASSES; way++) {
        const bool accumulate = way == CONVOLUTION_PASSES;
        enum convolution_pass pass = accumulate ? CONVOLUTION_WEIGHTS : (enum convolution_pass)way;
        struct convolution_problem problem = problem_of(layer, 4, pass, precision->type);
        double nmse;

        problem.tf32 = precision->tf32;
        if (!convolution_padded_is_possible(&problem, filling))
            break;
        nmse = check_padded_pass(search, &problem, filling, accumulate, stream);
        printf("  %s%s %.1e", pass_text[pass], accumulate ? " accumulated" : "", nmse);
        failed += nmse < 0 ? filling == FILL_CHUNKS : !(nmse <= precision->limit);
    }
    printf("\n");
    return failed;
}

static int check_padded(const struct cudnn *cudnn, cudaStream_t stream)
{
    static const struct layer layers[] = {
        {20, 9, 12, 3, 1, 1, 1, 4, 1}, {44, 8, 64, 3, 1, 1, 1, 2, 1}, {3, 12, 17, 5, 2, 2, 1, 1, 1},
        {7, 10, 9, 1, 1, 0, 1, 1, 1},  {24, 7, 9, 3, 1, 2, 2, 3, 1},  {96, 8, 48, 3, 1, 1, 1, 2, 1},
    };
    struct convolution_search *search = NULL;
    struct error error = {0};
    int failed = 0;

    if (convolution_search_open(cudnn, stream, NULL, &search, &error) < 0) {
        puts(error.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int t = 1; t < 4; t++) /* not float32 */
            for (int filling = 0; filling < CONVOLUTION_FILLINGS; filling++)
                failed += check_padded_layer(search, &layers[i], &precisions[t],
                                             (enum convolution_filling)filling, stream);
    convolution_search_close(search);
    return failed;
}

static int check_case(const struct cudnn *cudnn, const struct layer *layer, int64_t batch)
{
    int failed = 0;

    printf("%3lldx%dx%dx%d -> %d, %dx%d, stride %d, padding %d, dilation %d, groups %d\n",
           (long long)batch, layer->channels, layer->size, layer->size, layer->outputs,
           layer->kernel, layer->kernel, layer->stride, layer->padding, layer->dilation,
           layer->groups);
    for (int t = 0; t < 4; t++) {
        printf("  %-8s", precisions[t].name);
        for (int way = 0; way < 5; way++) { /* and float32 from 16 bits; with bias */
            enum convolution_pass pass = way < 3    ? (enum convolution_pass)way
                                         : way == 3 ? CONVOLUTION_WEIGHTS
                                                    : CONVOLUTION_FORWARD;
            struct convolution_problem problem = problem_of(layer, batch, pass, precisions[t].type);
            struct tensors tensors;
            double worst;
            int plans;

            if ((way == 3 && (t < 2 || layer->channels != 16 || layer->groups > 1)) ||
                (way == 4 && layer->channels != 16))
                continue;
            problem.tf32 = precisions[t].tf32;
            problem.bias = way == 4;
            if (way == 3)
                problem.result = TENSOR_FLOAT32;
            make_tensors(&problem, &tensors);
            worst = check_plans(cudnn, &problem, &tensors, precisions[t].limit, &plans);
            printf("  %s%s %.1e (%d)", pass_text[pass],
                   way == 3   ? " to float32"
                   : way == 4 ? " with bias"
                              : "",
                   worst, plans);
            failed += worst < 0 ? way < 3 : !(worst <= precisions[t].limit);
            release_tensors(&tensors);
        }
        printf("\n");
    }
    return failed;
}

static int check_all(const struct cudnn *cudnn)
{
    static const struct layer layers[] = {
        {16, 9, 24, 3, 1, 1, 1, 1, 1}, {3, 12, 16, 3, 1, 1, 1, 1, 1},
        {8, 10, 16, 3, 2, 1, 1, 1, 1}, {16, 8, 32, 1, 2, 0, 1, 1, 1},
        {5, 11, 7, 3, 1, 0, 1, 1, 1},  {32, 12, 16, 3, 1, 2, 2, 1, 1},
        {16, 9, 32, 3, 1, 1, 1, 4, 1}, {24, 9, 24, 3, 2, 1, 1, 24, 1},
        {8, 14, 8, 5, 1, 2, 1, 8, 1},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        failed += check_case(cudnn, &layers[i], 4);
    return failed;
}

int main(int argc, char **argv)
{
    cudaStream_t stream; /* that can be captured */
    struct cudnn *cudnn = NULL;
    struct error error = {0};
    char version[64];
    int failed = 0;

    if (argc > 3 && !strcmp(argv[1], "--hunt"))
        return hunt_convolutions(atoi(argv[2]), strtoull(argv[3], NULL, 10));
    if (cudaSetDevice(0) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess ||
        cudnn_open(stream, &cudnn, &error) == -ENOENT) {
        puts(error.code ? error.text : "no GPU");
        return 77;
    }
    if (error.code) {
        puts(error.text);
        return 1;
    }
    cudnn_describe(version, sizeof version);
    puts(version);
    if (argc > 2 && !strcmp(argv[1], "--time"))
        time_convolutions(atof(argv[2]), argc > 3);
    else
        failed = check_all_own();
    if (argc < 2 || strncmp(argv[1], "--", 2) != 0)
        failed += check_padded(cudnn, stream) + check_all(cudnn);
    printf("%d failed\n", failed);
    cudnn_close(cudnn);
    return failed > 0;
}
