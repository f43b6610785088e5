/* choice.c: see choice.h. */
#include "engine/train/choice.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

/* The recomputations to try, from none to almost another forward pass. With more segments than
 * these, the tensors between segments take more memory than a further segment saves. */
static const struct recompute_config recompute_ladder[] = {
    {.kind = RECOMPUTE_NONE},
    {.kind = RECOMPUTE_SELECTIVE},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 2},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 3},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 4},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 6},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 8},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 12},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 16},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 24},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 32},
};
enum { LADDER_STEPS = sizeof recompute_ladder / sizeof *recompute_ladder };

/* FIRST_GUESS is a usual batch size; the search goes there from the smallest one. */
enum { FIRST_GUESS = 64, BATCH_STEP = 8, SMALL_SIZES_MAX = 4, BATCH_MAX = 1000000 };

struct search {
    const struct training_config *config;
    const struct training_wishes *wishes;
    size_t memory; /* the bytes that a plan may take */
    const struct training_data *data;
    const struct backend *backend;
    struct backend_device *device;
    session_build_function build;
    void *build_context;
    struct training_choice *choice;
    struct error *error;
    int64_t *grid; /* batch sizes to choose from, ascending; owned */
    int64_t grid_size;
    /* what the latest plan was made for; 0: there is no plan yet */
    int64_t planned_batch;
    struct recompute_config planned_recompute;
};

/* The configuration with the given batch size and recomputation. */
static struct training_config configure(const struct search *search, int64_t batch,
                                        const struct recompute_config *recompute)
{
    struct training_config config = *search->config;

    config.recompute = *recompute;
    if (!search->wishes->batch)
        return config;
    config.batch = config.evaluation_batch = batch;
    if (search->wishes->effective_batch)
        config.accumulate = search->wishes->effective_batch / batch;
    return config;
}

/* Frees what the device keeps of the latest plan. */
static void forget_plan(struct search *search)
{
    if (search->planned_batch && search->backend->device_trim)
        search->backend->device_trim(search->device);
    search->planned_batch = 0;
}

/* Whether the latest plan is the chosen one. What the device keeps of it, such as generated code,
 * then serves the run. */
static bool planned_the_choice(const struct search *search)
{
    const struct training_choice *choice = search->choice;

    return search->planned_batch == choice->batch &&
           search->planned_recompute.kind == choice->recompute.kind &&
           search->planned_recompute.segments == choice->recompute.segments;
}

/* Measures the bytes that a plan takes. */
static int measure(struct search *search, int64_t batch, const struct recompute_config *recompute,
                   size_t *bytes)
{
    struct training_config config = configure(search, batch, recompute);
    struct training *training = NULL;
    int r;

    forget_plan(search);
    search->planned_batch = batch;
    search->planned_recompute = *recompute;
    r = training_prepare(&config, search->data, search->backend, search->device, search->build,
                         search->build_context, &training, search->error);
    search->choice->plans++;
    if (r == 0)
        r = training_rehearse(training, search->error);
    if (r == 0)
        *bytes = search->wishes->memory_bytes(search->wishes->context, training);
    training_free(training);
    return r;
}

/* ---- recomputation --------------------------------------------------------------------------- */

/* Finds the first step of the ladder that fits, or the one that needs the least memory. With
 * `least` it is always the latter. */
static int climb_ladder(struct search *search, int64_t batch, bool least,
                        struct recompute_config *recompute, size_t *bytes)
{
    *bytes = SIZE_MAX;
    for (int i = 0; i < LADDER_STEPS; i++) {
        size_t needed;
        int r = measure(search, batch, &recompute_ladder[i], &needed);

        if (r < 0)
            return r;
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): measure() sets it */
        if (needed < *bytes) {
            *bytes = needed;
            *recompute = recompute_ladder[i];
        }
        if (!least && needed <= search->memory)
            return 0;
    }
    return 0;
}

/* ---- batch size ------------------------------------------------------------------------------ */

/* Whether the model can be trained on a single sample. Batch norm may make that impossible. */
static bool takes_single_samples(const struct search *search)
{
    struct error error = {0};
    struct graph graph;
    bool takes;

    graph_init(&graph, 1, true);
    takes = search->build(search->build_context, &graph, &error) == 0;
    graph_release(&graph);
    return takes;
}

/* Lists the batch sizes with which the model can be trained, including the last batch of an
 * epoch. */
static int make_grid(struct search *search)
{
    int64_t effective = search->wishes->effective_batch, count = search->data->train.count;
    int64_t largest = effective && effective < count ? effective : count;
    bool single = takes_single_samples(search), drops = search->config->drop_last;

    largest = largest < BATCH_MAX ? largest : BATCH_MAX;
    search->grid = calloc((size_t)(effective ? largest : largest / BATCH_STEP + SMALL_SIZES_MAX),
                          sizeof *search->grid);
    if (!search->grid)
        return error_set_errno(search->error, -ENOMEM, "cannot list batch sizes");
    for (int64_t batch = 1; batch <= largest; batch++) {
        bool member = effective            ? effective % batch == 0
                      : batch < BATCH_STEP ? (batch & (batch - 1)) == 0
                                           : batch % BATCH_STEP == 0 || batch == count;

        if (member && (single || (batch > 1 && (drops || count % batch != 1))))
            search->grid[search->grid_size++] = batch;
    }
    if (!search->grid_size)
        return error_set(search->error, -EINVAL,
                         "no batch size suits: batches must divide %lld, and the model needs more "
                         "than one sample in each",
                         (long long)effective);
    return 0;
}

/* The index of the largest size of the grid that is at most `batch`; 0: all are larger. */
static int64_t grid_index(const struct search *search, double batch)
{
    int64_t low = 0, high = search->grid_size;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if ((double)search->grid[middle] <= batch)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* What the search for a batch size knows, as indices into the grid. */
struct bounds {
    int64_t low;  /* the largest size known to fit, or -1 */
    int64_t high; /* the smallest size known not to fit, or the grid's size */
    size_t low_bytes, high_bytes;
    double bytes_per_sample; /* between the latest two plans; 0: there are not two yet */
};

/* Guesses by linear interpolation where the memory reaches the limit. Every third guess is the
 * middle, so that the search ends even if the memory does not grow linearly. */
static int64_t guess_index(const struct search *search, const struct bounds *bounds, int probes)
{
    double low = (double)search->grid[bounds->low], wanted = FIRST_GUESS;
    int64_t index, last = bounds->high - 1;

    if (bounds->high < search->grid_size && probes % 3 == 2)
        return bounds->low + (bounds->high - bounds->low) / 2;
    if (bounds->bytes_per_sample > 0)
        wanted = low + (double)(search->memory - bounds->low_bytes) / bounds->bytes_per_sample;
    else if (probes > 0)
        wanted = 2 * low;
    index = grid_index(search, wanted);
    index = index > bounds->low ? index : bounds->low + 1;
    return index < last ? index : last;
}

/* Leaves choice->batch 0 if even the smallest batch does not fit. choice->bytes is then what that
 * takes. */
static int search_batch(struct search *search, const struct recompute_config *recompute)
{
    struct training_choice *choice = search->choice;
    struct bounds bounds = {.low = -1, .high = search->grid_size};
    int64_t index = 0, previous = 0;
    size_t bytes = 0, previous_bytes = 0;

    for (int probes = 0; bounds.high - bounds.low > 1; probes++) {
        int64_t batch = search->grid[index];
        int r = measure(search, batch, recompute, &bytes);

        if (r < 0)
            return r;
        if (probes > 0)
            bounds.bytes_per_sample =
                ((double)bytes - (double)previous_bytes) / (double)(batch - previous);
        previous = batch;
        previous_bytes = bytes;
        if (bytes <= search->memory) {
            bounds.low = index;
            bounds.low_bytes = bytes;
        } else {
            bounds.high = index;
            bounds.high_bytes = bytes;
        }
        if (bounds.low < 0)
            break;
        if (bounds.high - bounds.low > 1)
            index = guess_index(search, &bounds, probes);
    }
    choice->batch = bounds.low < 0 ? 0 : search->grid[bounds.low];
    choice->bytes = bounds.low < 0 ? bytes : bounds.low_bytes;
    choice->recompute = *recompute;
    if (bounds.low >= 0 && bounds.high < search->grid_size) {
        choice->next_batch = search->grid[bounds.high];
        choice->next_bytes = bounds.high_bytes;
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int does_not_fit(struct search *search, int64_t batch, const char *remedy)
{
    char needed[32], limit[32], reserve[32], free_bytes[64] = "";

    if (search->wishes->memory_reserve)
        snprintf(free_bytes, sizeof free_bytes,
                 search->wishes->memory_limit > search->wishes->memory_reserve
                     ? ", of which %s stay free"
                     : ", no more than the %s that stay free",
                 text_format_bytes(search->wishes->memory_reserve, reserve, sizeof reserve));
    return error_set(
        search->error, -ERROR_DEVICE_MEMORY,
        "batches of %lld need %s of memory, and the limit is %s%s; %s", (long long)batch,
        text_format_bytes(search->choice->bytes, needed, sizeof needed),
        text_format_bytes(search->wishes->memory_limit, limit, sizeof limit), free_bytes, remedy);
}

/* Looks for a larger batch than the one that keeps all activations: recomputation may make room for
 * it. Then takes the least recomputation with which that batch fits. */
static int enlarge_batch(struct search *search)
{
    struct training_choice *choice = search->choice, kept = *choice;
    struct recompute_config recompute;
    size_t bytes;
    int r =
        climb_ladder(search, kept.batch ? kept.batch : search->grid[0], true, &recompute, &bytes);

    if (r < 0 || recompute.kind == RECOMPUTE_NONE)
        return r;
    choice->next_batch = 0;
    r = search_batch(search, &recompute);
    if (r < 0 || (!choice->batch && !kept.batch))
        return r;
    if (choice->batch > kept.batch)
        return climb_ladder(search, choice->batch, false, &choice->recompute, &choice->bytes);
    kept.plans = choice->plans;
    *choice = kept;
    return 0;
}

static int choose_batch(struct search *search)
{
    static const struct recompute_config none = {.kind = RECOMPUTE_NONE};
    const struct training_wishes *wishes = search->wishes;
    struct recompute_config recompute =
        wishes->recompute == RECOMPUTE_WISH_GIVEN ? search->config->recompute : none;
    size_t bytes;
    int r = make_grid(search);

    if (r == 0 && wishes->recompute == RECOMPUTE_WISH_FULL)
        r = climb_ladder(search, search->grid[grid_index(search, FIRST_GUESS)], true, &recompute,
                         &bytes);
    if (r == 0)
        r = search_batch(search, &recompute);
    if (r == 0 && wishes->recompute == RECOMPUTE_WISH_AUTO &&
        (!search->choice->batch || search->choice->next_batch))
        r = enlarge_batch(search);
    if (r == 0 && !search->choice->batch)
        r = does_not_fit(search, search->grid[0], "choose a smaller model or a higher limit");
    return r;
}

static int choose_recompute(struct search *search)
{
    const struct training_wishes *wishes = search->wishes;
    struct training_choice *choice = search->choice;
    int64_t batch = search->config->batch;
    int r = 0;

    choice->batch = batch;
    choice->recompute = search->config->recompute;
    if (wishes->recompute == RECOMPUTE_WISH_GIVEN)
        r = measure(search, batch, &choice->recompute, &choice->bytes);
    else
        r = climb_ladder(search, batch, wishes->recompute == RECOMPUTE_WISH_FULL,
                         &choice->recompute, &choice->bytes);
    if (r == 0 && choice->bytes > search->memory)
        r = does_not_fit(search, batch,
                         wishes->recompute == RECOMPUTE_WISH_GIVEN
                             ? "choose smaller batches or \"auto\", let train.recompute be "
                               "\"auto\", or raise the limit"
                             : "choose smaller batches or \"auto\", or raise the limit");
    return r;
}

int training_choose(struct training_config *config, const struct training_wishes *wishes,
                    const struct training_data *data, const struct backend *backend,
                    struct backend_device *device, session_build_function build,
                    void *build_context, struct training_choice *choice, struct error *error)
{
    static const struct recompute_config none = {.kind = RECOMPUTE_NONE};
    struct error own = {0};
    struct search search = {.config = config,
                            .wishes = wishes,
                            .memory = wishes->memory_limit > wishes->memory_reserve
                                          ? wishes->memory_limit - wishes->memory_reserve
                                          : 0,
                            .data = data,
                            .backend = backend,
                            .device = device,
                            .build = build,
                            .build_context = build_context,
                            .choice = choice,
                            .error = &own};
    int r;

    *choice = (struct training_choice){0};
    if (data->train.count < 1)
        return error_set(error, -EINVAL, "the training set has no samples");
    r = wishes->batch ? choose_batch(&search) : choose_recompute(&search);
    choice->kept_bytes = choice->bytes;
    if (r == 0 && choice->recompute.kind != RECOMPUTE_NONE)
        r = measure(&search, choice->batch, &none, &choice->kept_bytes);
    free(search.grid);
    if (r < 0 || !planned_the_choice(&search))
        forget_plan(&search);
    if (r < 0)
        return error_set(error, r, "%s", own.text);
    *config = configure(&search, choice->batch, &choice->recompute);
    choice->accumulate = config->accumulate;
    return 0;
}
