/* hunt.c: runs every plan and every general kernel of our own on random convolutions, to find those
 * that are wrong, that end the process's use of the GPU, or that never end. */
#include "base/philox.h"
#include "tests/cuda/convolutions/convolutions.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A way takes milliseconds; making the plan of one that is compiled takes at most seconds. */
enum { SECONDS_MAX = 15, PLANS_MAX = 16, KERNELS = 7, WAYS_MAX = KERNELS + PLANS_MAX };

static own_kernel *const kernels[KERNELS] = {
    run_direct,          run_narrow,          run_pointwise,    run_implicit_tall,
    run_implicit_square, run_implicit_narrow, run_implicit_wide};

/* What is tried next; shared with the process that tries it. */
struct progress {
    int problem, way; /* `problem` counts types and directions, too */
    int failed, tried, none;
    int right;   /* ways of this problem */
    bool trying; /* one of them */
    char what[256];
};

static int pick(uint64_t *draws, uint64_t seed, int from, int to)
{
    struct philox bits = philox_draw(seed, philox_stream(PHILOX_TEST, 0), (*draws)++);

    return from + (int)(bits.word[0] % (uint32_t)(to - from + 1));
}

static struct convolution_problem random_problem(uint64_t seed, int index)
{
    static const int steps[] = {1, 1, 2, 2, 3, 4, 6};
    static const struct {
        enum tensor_type type;
        bool tf32;
    } types[] = {{TENSOR_FLOAT32, false},
                 {TENSOR_FLOAT32, true},
                 {TENSOR_BFLOAT16, false},
                 {TENSOR_FLOAT16, false}};
    uint64_t draws = (uint64_t)(index / 12) * 64;
    struct convolution_problem p;
    int inside;

    memset(&p, 0, sizeof p);
    p.pass = (enum convolution_pass)(index % 3);
    p.type = p.result = types[index / 3 % 4].type;
    p.tf32 = types[index / 3 % 4].tf32;
    p.groups = pick(&draws, seed, 0, 3) ? 1 : pick(&draws, seed, 2, 4);
    /* our own kernels write the gradient of the weights in float32, cuDNN also in 16 bits */
    if (p.pass == CONVOLUTION_WEIGHTS && pick(&draws, seed, 0, 1))
        p.result = TENSOR_FLOAT32;
    inside = pick(&draws, seed, 0, 1) ? 8 * pick(&draws, seed, 1, 8) : pick(&draws, seed, 1, 40);
    p.x[0] = p.y[0] = pick(&draws, seed, 1, 4);
    p.weight[1] = inside;
    p.x[1] = (int64_t)inside * p.groups;
    p.weight[0] = p.y[1] = (int64_t)p.groups * pick(&draws, seed, 1, 48);
    for (int i = 0; i < 2; i++) {
        int64_t reach;

        p.weight[2 + i] = pick(&draws, seed, 1, 6);
        p.stride[i] = steps[pick(&draws, seed, 0, 6)];
        p.dilation[i] = steps[pick(&draws, seed, 0, 5)];
        p.padding[i] = pick(&draws, seed, 0, 4);
        reach = p.dilation[i] * (p.weight[2 + i] - 1) + 1;
        p.x[2 + i] =
            (reach > 2 * p.padding[i] ? reach - 2 * p.padding[i] : 1) + pick(&draws, seed, 0, 24);
        p.y[2 + i] = (p.x[2 + i] + 2 * p.padding[i] - reach) / p.stride[i] + 1;
    }
    return p;
}

static double limit_of(const struct convolution_problem *p)
{
    return p->type == TENSOR_BFLOAT16  ? 1e-5
           : p->type == TENSOR_FLOAT16 ? 2e-7
           : p->tf32                   ? 1e-6
                                       : 1e-10;
}

static void judge(const struct convolution_problem *p, const struct tensors *tensors,
                  struct progress *progress)
{
    double nmse;

    expect_cuda(cudaDeviceSynchronize(), progress->what);
    nmse = compare(p, tensors);
    progress->tried++;
    if (nmse <= limit_of(p)) {
        progress->right++;
        return;
    }
    progress->failed++;
    printf("WRONG  %s: NMSE %.1e\n", progress->what, nmse);
    fflush(stdout);
}

static void try_kernel(const struct convolution_problem *p, struct tensors *tensors,
                       struct progress *progress)
{
    if (p->pass == CONVOLUTION_WEIGHTS && p->result != TENSOR_FLOAT32)
        return;
    tensors->operands.workspace = allocate_device(PART_BYTES);
    if (kernels[progress->way](p, &tensors->operands, false, NULL) == cudaSuccess)
        judge(p, tensors, progress);
    else
        cudaGetLastError(); /* not for this problem */
    cudaFree(tensors->operands.workspace);
}

static void try_plan(const struct convolution_problem *p, struct convolution_graph *graph,
                     const struct convolution_choice *choice, struct tensors *tensors,
                     struct progress *progress)
{
    struct convolution_plan plan;
    struct error error = {0};

    if (convolution_plan_make(graph, choice, &plan, &error) < 0)
        return;
    tensors->operands.workspace = allocate_device(plan.workspace_bytes);
    if (convolution_plan_run(&plan, &tensors->operands, &error) == 0)
        judge(p, tensors, progress);
    cudaFree(tensors->operands.workspace);
    convolution_plan_free(&plan);
}

static void name_way(struct progress *progress, const struct convolution_problem *p,
                     const struct convolution_choice *choice)
{
    char key[CHOICES_KEY_MAX];

    convolution_search_key(p, key);
    if (choice)
        snprintf(progress->what, sizeof progress->what, "%s: engine %lld%s", key,
                 (long long)choice->engine, choice->compiles ? ", compiled" : "");
    else
        snprintf(progress->what, sizeof progress->what, "%s: own kernel %d", key, progress->way);
}

static void try_problem(const struct cudnn *cudnn, const struct convolution_problem *p,
                        struct progress *progress)
{
    struct convolution_choice choices[PLANS_MAX];
    struct convolution_graph *graph = NULL;
    struct tensors tensors;
    struct error error = {0};
    int plans = 0;

    convolution_search_key(p, progress->what);
    alarm(SECONDS_MAX);
    if (convolution_graph_make(cudnn, p, &graph, &error) == 0)
        plans = convolution_graph_choices(graph, choices, PLANS_MAX);
    make_tensors(p, &tensors);
    progress->trying = true;
    for (; progress->way < KERNELS + plans; progress->way++) {
        bool own = progress->way < KERNELS;

        name_way(progress, p, own ? NULL : &choices[progress->way - KERNELS]);
        alarm(SECONDS_MAX);
        if (own)
            try_kernel(p, &tensors, progress);
        else
            try_plan(p, graph, &choices[progress->way - KERNELS], &tensors, progress);
    }
    alarm(0);
    release_tensors(&tensors);
    convolution_graph_free(graph);
    progress->trying = false;
    if (progress->right == 0) {
        convolution_search_key(p, progress->what);
        printf("NONE   %s\n", progress->what);
        progress->none++;
    }
    progress->way = progress->right = 0;
}

static void try_problems(int count, uint64_t seed, struct progress *progress)
{
    struct cudnn *cudnn = NULL;
    struct error error = {0};

    if (cudaSetDevice(0) != cudaSuccess || cudnn_open(NULL, &cudnn, &error) < 0) {
        puts(error.code ? error.text : "no GPU");
        exit(77);
    }
    for (; progress->problem < count; progress->problem++) {
        struct convolution_problem p = random_problem(seed, progress->problem);

        try_problem(cudnn, &p, progress);
    }
    cudnn_close(cudnn);
    exit(0);
}

int hunt_convolutions(int count, uint64_t seed)
{
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;

    if (progress == MAP_FAILED)
        return 1;
    for (;;) {
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0)
            try_problems(12 * count, seed, progress);
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return 1;
        if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77))
            break;
        printf("%s  %s\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "HANGS" : "BREAKS",
               progress->what);
        progress->failed++;
        progress->way++;
    }
    printf("%d ways tried, %d failed; %d convolutions without any way\n", progress->tried,
           progress->failed, progress->none);
    return WEXITSTATUS(status) ? 77 : progress->failed > 0;
}
