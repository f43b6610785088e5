/* worker_sample.c: `traind-worker sample` writes text. It draws each symbol from the model's
 * distribution given the previous symbols, and writes it at once. It needs no data, because the
 * checkpoint has the vocabulary. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/philox.h"
#include "worker/trainee/worker_precision.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The text so far, as far as the model sees it, and what the next symbol is drawn from. A model
 * that tells one symbol sees a whole context. One that tells the symbol after each position sees
 * the text from its beginning, until the context is full. One that carries state reads each symbol
 * once: its context is the latest symbol. */
struct sampler {
    const struct dataset_vocabulary *vocabulary;
    struct session *session;
    struct session_batch batch;
    FILE *output;     /* that symbols are written to, each at once */
    int32_t *context; /* the session's; its length, and how much of it is text */
    int64_t length, filled;
    int64_t positions;      /* that have an output: 1, or all */
    bool carries;           /* state */
    float *logits, *sorted; /* owned: [positions][vocabulary], [vocabulary] */
    double *weights;        /* owned: [vocabulary] */
    double temperature;     /* 0: the likeliest symbol */
    int64_t top_k;          /* 0: all symbols */
};

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x < y) - (x > y);
}

/* The least logit that may be drawn. */
static float least_logit(struct sampler *sampler, const float *logits)
{
    int64_t count = sampler->vocabulary->count;

    if (sampler->top_k == 0 || sampler->top_k >= count)
        return -INFINITY;
    memcpy(sampler->sorted, logits, (size_t)count * sizeof *logits);
    qsort(sampler->sorted, (size_t)count, sizeof *logits, descending);
    return sampler->sorted[sampler->top_k - 1];
}

/* Draws from softmax(logits / temperature); `uniform` in [0, 1). */
static int32_t draw_symbol(struct sampler *sampler, const float *logits, double uniform)
{
    int64_t largest = 0, count = sampler->vocabulary->count;
    float least = least_logit(sampler, logits);
    double sum = 0, reached = 0;

    for (int64_t i = 1; i < count; i++)
        largest = logits[i] > logits[largest] ? i : largest;
    if (sampler->temperature <= 0)
        return (int32_t)largest;
    for (int64_t i = 0; i < count; i++) {
        double exponent = ((double)logits[i] - (double)logits[largest]) / sampler->temperature;

        sampler->weights[i] = logits[i] >= least ? exp(exponent) : 0;
        sum += sampler->weights[i];
    }
    for (int64_t i = 0; i < count; i++) {
        reached += sampler->weights[i];
        if (uniform * sum < reached)
            return (int32_t)i;
    }
    return (int32_t)largest;
}

/* Appends a symbol to the context; the oldest one leaves a full one. */
static void push(struct sampler *sampler, int32_t symbol)
{
    if (sampler->filled < sampler->length) {
        sampler->context[sampler->filled++] = symbol;
        return;
    }
    memmove(sampler->context, sampler->context + 1,
            (size_t)(sampler->length - 1) * sizeof *sampler->context);
    sampler->context[sampler->length - 1] = symbol;
}

static void write_symbol(const struct sampler *sampler, int32_t symbol)
{
    char bytes[4];

    fwrite(bytes, 1, (size_t)dataset_vocabulary_decode(sampler->vocabulary, symbol, bytes),
           sampler->output);
    fflush(sampler->output);
}

/* What comes before the first symbol: line ends, if the vocabulary has them, then the prompt. */
static int begin_text(struct sampler *sampler, const char *prompt, struct error *error)
{
    size_t capacity = strlen(prompt) + 1, count = 0;
    AUTO_FREE int32_t *symbols = calloc(capacity, sizeof *symbols);
    int32_t line_end = 0;
    int r;

    if (!symbols)
        return error_set_errno(error, -ENOMEM, "cannot sample");
    if (dataset_vocabulary_encode(sampler->vocabulary, "\n", &line_end, 1, &count, NULL) < 0)
        line_end = 0;
    r = dataset_vocabulary_encode(sampler->vocabulary, prompt, symbols, capacity, &count, error);
    if (r < 0)
        return error_prefix(error, "--prompt must be of characters that the model knows");
    while (!sampler->carries && sampler->positions == 1 && sampler->filled < sampler->length)
        push(sampler, line_end);
    if (count == 0 && sampler->filled == 0)
        push(sampler, line_end);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (sampler->carries && i > 0)
            r = session_evaluate(sampler->session, &sampler->batch, error);
        push(sampler, symbols[i]);
        write_symbol(sampler, symbols[i]);
    }
    return r;
}

static int write_text(struct sampler *sampler, int64_t length, uint64_t seed, struct error *error)
{
    for (int64_t i = 0; i < length && !ferror(sampler->output); i++) {
        struct philox draw = philox_draw(seed, philox_stream(PHILOX_SAMPLING, 0), (uint64_t)i);
        int64_t row = sampler->positions == 1 ? 0 : sampler->filled - 1;
        int r = session_evaluate(sampler->session, &sampler->batch, error);
        int32_t symbol;

        if (r == 0)
            r = session_read_output(sampler->session, sampler->logits, error);
        if (r < 0)
            return r;
        symbol = draw_symbol(sampler, sampler->logits + row * sampler->vocabulary->count,
                             (double)philox_uniform(draw.word[0]));
        write_symbol(sampler, symbol);
        push(sampler, symbol);
    }
    return ferror(sampler->output)
               ? error_set_errno(error, errno ? -errno : -EIO, "the text cannot be written")
               : 0;
}

/* The text may have zeros. */
static void print_json(const char *prompt, const char *text, size_t size)
{
    JSON_AUTO struct json_object *json = json_object_new_object();

    json_set_string(json, "prompt", prompt);
    json_set(json, "text", json_object_new_string_len(text, (int)size));
    json_print(json, stdout);
}

/* Writes prompt and text, to standard output or as one JSON object. */
static int write_all(struct sampler *sampler, const struct worker_options *options, uint64_t seed,
                     struct error *error)
{
    const char *prompt = options->prompt ? options->prompt : "";
    AUTO_FREE char *text = NULL;
    size_t size;
    int r;

    sampler->output = options->json ? open_memstream(&text, &size) : stdout;
    if (!sampler->output)
        return error_set_errno(error, -ENOMEM, "cannot hold the text");
    r = begin_text(sampler, prompt, error);
    if (r == 0)
        r = write_text(sampler, options->length, seed, error);
    if (options->json)
        fclose(sampler->output);
    if (r == 0 && options->json)
        print_json(prompt, text, size);
    else if (r == 0)
        putchar('\n');
    return r;
}

/* Bytes of the context in staging memory. As many again hold the targets, which are not read. */
static size_t context_bytes(const struct worker_setup *setup)
{
    return align_up((size_t)setup->model_data.sample_shape[0] * sizeof(int32_t), MEMORY_ALIGNMENT);
}

static int run(const struct worker_options *options, const struct worker_setup *setup,
               struct session *session, struct error *error)
{
    const struct graph *graph = session_graph_for(session, false, 1, 0);
    size_t count = (size_t)setup->vocabulary.count;
    int64_t outputs = graph_shape_elements(&graph->tensors[graph->output].shape);
    AUTO_FREE float *logits = calloc((size_t)outputs, sizeof *logits);
    AUTO_FREE float *sorted = calloc(count, sizeof *sorted);
    AUTO_FREE double *weights = calloc(count, sizeof *weights);
    struct sampler sampler = {.vocabulary = &setup->vocabulary,
                              .session = session,
                              .context = session_staging(session),
                              .length = setup->model_data.sample_shape[0],
                              .positions = outputs / setup->vocabulary.count,
                              .carries = setup->spec.model.carry_state,
                              .logits = logits,
                              .sorted = sorted,
                              .weights = weights,
                              .temperature = options->temperature,
                              .top_k = options->top_k};

    if (!logits || !sorted || !weights)
        return error_set_errno(error, -ENOMEM, "cannot sample");
    sampler.batch =
        (struct session_batch){.count = 1,
                               .samples = sampler.context,
                               .targets = (uint8_t *)sampler.context + context_bytes(setup)};
    return write_all(&sampler, options,
                     options->seed_given ? options->seed : setup->spec.training.seed, error);
}

static int prepare(struct worker_setup *setup, const char *quantization, struct session **session,
                   struct error *error)
{
    struct session_config config = {.backend = setup->backend,
                                    .device = setup->device,
                                    .build = worker_setup_build,
                                    .build_context = setup,
                                    .compute_type = setup->precision.type,
                                    .quantization = quantization,
                                    .evaluation_batches = {1},
                                    .staging_bytes = 2 * context_bytes(setup)};

    return session_prepare(&config, session, error);
}

/* Makes the session for one symbol at a time where the model can carry its state, however it was
 * trained, and the device can; else for the whole context. */
static int prepare_session(struct worker_setup *setup, const char *quantization,
                           struct session **session, struct error *error)
{
    int64_t context = setup->model_data.sample_shape[0];
    int r = -ERROR_UNSUPPORTED;

    setup->spec.model.carry_state = model_traits(setup->spec.model.kind) & MODEL_CARRIES_STATE;
    if (setup->spec.model.carry_state) {
        setup->model_data.sample_shape[0] = 1;
        r = prepare(setup, quantization, session, error);
    }
    if (r != -ERROR_UNSUPPORTED)
        return r;
    setup->spec.model.carry_state = false;
    setup->model_data.sample_shape[0] = context;
    return prepare(setup, quantization, session, error);
}

static int sample(const struct worker_options *options, struct worker_setup *setup,
                  struct error *error)
{
    struct checkpoint checkpoint;
    struct session *session = NULL;
    int r = checkpoint_open(options->checkpoint, &checkpoint, error);

    if (r < 0)
        return r;
    r = worker_setup_open_text(options, checkpoint.texts.vocabulary, setup, error);
    if (r == 0) {
        worker_precision_adopt(&checkpoint.state, true, setup);
        r = prepare_session(setup, checkpoint.texts.quantization, &session, error);
    }
    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0)
        r = checkpoint_restore(&checkpoint, session, false, NULL, error);
    if (r == 0)
        r = run(options, setup, session, error);
    session_free(session);
    checkpoint_close(&checkpoint);
    return r;
}

int worker_sample(const struct worker_options *options)
{
    struct worker_setup setup = {.stage = WORKER_STAGE_CHECKPOINT};
    struct error error = {0};
    int r = sample(options, &setup, &error);

    worker_setup_release(&setup);
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
