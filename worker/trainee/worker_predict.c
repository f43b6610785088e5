/* worker_predict.c: `traind-worker predict` writes what a trained model says of new data. Tables
 * and images are read in pieces, so that they may be of any number, and so that a service may keep
 * the program open and be answered row by row; other data are mapped. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/data/image_reader.h"
#include "engine/data/row_reader.h"
#include "engine/train/evaluation.h"
#include "proto/json.h"
#include "worker/trainee/prediction_writer.h"
#include "worker/trainee/worker_model.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Batches of a table read in pieces: the rows that are left are filled up to the next of these. */
enum { SIZES = 3, BATCH_USUAL = 256, BATCH_MOST = 1024, PIECE_ROWS = 4096 };
static const int64_t batch_sizes[SIZES] = {1, 16, BATCH_USUAL};
/* Samples whose tensors take fewer bytes fill batches of BATCH_MOST: beginning and ending a run
 * then costs more than the caches of the cores save. */
enum { SMALL_SAMPLE_BYTES = 16 * 1024 };
/* A batch of fewer bytes takes less time than to share it among threads. */
enum { SHARED_BYTES = 64 * 1024 };

struct predictor {
    const struct worker_options *options;
    struct worker_setup setup;
    struct checkpoint checkpoint;
    struct dataset_config config; /* of the new data */
    struct dataset_events events;
    const char *path; /* of the new data, for messages */
    bool pipe;
    struct image_reader *images; /* of the piece that is predicted; NULL: it is of others */
    struct session *session;
    struct byte_normalisation bytes; /* of the samples, for the session */
    bool has_bytes;                  /* they are bytes */
    struct prediction_writer *writer;
    int64_t sizes[SIZES]; /* of batches, the smallest first; 0: unused */
    int64_t most;         /* the largest of these */
    float *outputs;       /* of one batch; owned */
    int64_t rows, bad_rows;
    struct worker_warnings warnings;
};

/* ---- what is asked for ---- */

static bool is_standard_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

static int check_data(struct predictor *predictor, struct error *error)
{
    const struct dataset *train = predictor->setup.train;
    if (dataset_format_is_text(train->format))
        return error_set(error, -EINVAL,
                         "the model goes on with a text: let `traind-worker sample` write one");
    if (train->format == DATASET_TIME_SERIES)
        return error_set(
            error, -EINVAL,
            "the model forecasts a time series, which predict does not read: export it "
            "and call forecast() of its Python module");
    if (predictor->pipe && !row_reader_reads(train->format, true))
        return error_set(error, -EINVAL,
                         "only tables are read from standard input, and the model was trained on "
                         "%s: name a file",
                         dataset_format_to_string(train->format));
    return worker_model_check_lengths(&predictor->setup, predictor->options, error);
}

static void on_warning(void *context, const char *text)
{
    struct predictor *predictor = context;

    if (predictor->warnings.count >= WORKER_WARNINGS_MAX)
        return; /* of a table's many pieces the first ones tell */
    predictor->warnings.count++;
    log_warning("%s", text);
}

static int prediction_format(const struct worker_options *options, enum prediction_format *format,
                             struct error *error)
{
    const char *dot = options->output ? strrchr(options->output, '.') : NULL;
    const char *usual = options->json ? "jsonl" : "csv";
    const char *name = options->format ? options->format : dot ? dot + 1 : usual;
    int found = prediction_format_from_string(name);

    if (found < 0 && options->format)
        return error_set(error, -EINVAL, "--format must be csv, jsonl or npy, not \"%s\"", name);
    if (found < 0 && dot && !options->format)
        return error_set(error, -EINVAL,
                         "%s ends in none of .csv, .jsonl and .npy: say the --format",
                         options->output);
    *format = found < 0 ? PREDICTION_CSV : (enum prediction_format)found;
    return 0;
}

/* The file of predictions is neither the model nor the data. */
static int check_output(const struct worker_options *options, struct error *error)
{
    int r;

    if (!options->output || strcmp(options->output, "-") == 0)
        return 0;
    r = file_check_result(options->output, options->input, error);
    return r < 0 ? r : file_check_result(options->output, options->data, error);
}

/* ---- batches ---- */

static size_t staging_bytes(const struct dataset *train, int64_t batch)
{
    size_t count = (size_t)batch;

    return align_up(count * dataset_sample_bytes(train), MEMORY_ALIGNMENT) +
           align_up(count * dataset_target_bytes(train), MEMORY_ALIGNMENT) +
           align_up(count * sizeof(int32_t), MEMORY_ALIGNMENT);
}

/* How samples that are bytes are normalised; on the host, the threads that run the model gather
 * them, so that they need not be float32 numbers before. */
static void normalise_bytes(struct predictor *predictor, const struct dataset *data)
{
    const struct worker_setup *setup = &predictor->setup;
    const struct dataset_normalisation *constants = &setup->normalisation;

    predictor->has_bytes = setup->backend->device_share && data->element == DATASET_UINT8 &&
                           !data->lengths && !dataset_format_has_symbols(data->format);
    predictor->bytes =
        (struct byte_normalisation){.mean = constants->mean,
                                    .factor = constants->factor,
                                    .groups = constants->groups,
                                    .interleaved = data->rank == 2 && constants->groups > 1};
}

/* `often`: batches of at least so many samples are run often, so that the backend may spend time on
 * the weights which it saves in each run; 0: none are. */
static int prepare(struct predictor *predictor, const int64_t sizes[SIZES], int64_t often,
                   size_t staging, struct error *error)
{
    struct worker_setup *setup = &predictor->setup;
    struct session_config config = {.backend = setup->backend,
                                    .device = setup->device,
                                    .build = worker_setup_build,
                                    .build_context = setup,
                                    .compute_type = setup->precision.type,
                                    .quantization = predictor->checkpoint.texts.quantization,
                                    .bytes = predictor->has_bytes ? &predictor->bytes : NULL,
                                    .direct_convolutions =
                                        predictor->checkpoint.state.direct_convolutions,
                                    .constant_weights_from = often,
                                    .staging_bytes = staging};
    int r;

    for (int i = 0; i < SIZES; i++) {
        predictor->sizes[i] = config.evaluation_batches[i] = sizes[i];
        predictor->most = sizes[i] > predictor->most ? sizes[i] : predictor->most;
    }
    r = session_prepare(&config, &predictor->session, error);
    if (r == 0)
        r = session_allocate(predictor->session, error);
    if (r == 0)
        r = checkpoint_restore(&predictor->checkpoint, predictor->session, false, NULL, error);
    if (r < 0)
        return r;
    predictor->outputs =
        calloc((size_t)(predictor->most * setup->model_data.outputs), sizeof *predictor->outputs);
    return predictor->outputs ? 0 : error_no_memory(error, "the model's outputs");
}

/* The paths of images of the present piece, for the writer. */
static int paths_find(const struct predictor *predictor, int64_t first, int64_t count,
                      char *paths[BATCH_MOST], struct error *error)
{
    for (int64_t i = 0; predictor->images && i < count; i++) {
        paths[i] = image_reader_path(predictor->images, first + i);
        if (!paths[i])
            return error_no_memory(error, "the paths of %s", predictor->path);
    }
    return 0;
}

struct range {
    int64_t first, end;
};

static struct range part_of(int64_t count, int part, int parts)
{
    return (struct range){count * part / parts, count * (part + 1) / parts};
}

/* Parts of a batch that are printed at once. */
enum { PRINTED_MOST = 64 };

/* A batch of samples: those from `first` on, of which the last fills the batch up. Count 0: there
 * is none. */
struct batch {
    struct predictor *predictor;
    const struct dataset *data;
    int64_t first, count, size;
    uint8_t *samples, *targets;
    char *paths[BATCH_MOST]; /* of images; owned */
    struct predictions printed[PRINTED_MOST];
};

/* What the threads do at once between two runs of the model: they print what it said of one batch,
 * and gather the next one. Either may be NULL. */
struct turn {
    struct batch *print, *gather;
    atomic_flag failed;
    struct error error; /* of the first part that failed */
};

static void note_failure(struct turn *turn, const struct error *error)
{
    if (!atomic_flag_test_and_set(&turn->failed))
        turn->error = *error;
}

static int gather_part(const struct batch *batch, int part, int parts, struct error *error)
{
    const struct dataset *data = batch->data;
    struct range range = part_of(batch->size, part, parts);
    uint32_t indices[BATCH_MOST];

    for (int64_t i = range.first; i < range.end; i++)
        indices[i] = (uint32_t)(batch->first + (i < batch->count ? i : batch->count - 1));
    if (session_reads_bytes(batch->predictor->session))
        return dataset_gather_bytes(data, indices + range.first, range.end - range.first,
                                    batch->samples + range.first * data->sample_elements, error);
    return dataset_gather(data, &batch->predictor->setup.normalisation, indices + range.first,
                          range.end - range.first,
                          batch->samples + (size_t)range.first * dataset_sample_bytes(data),
                          batch->targets + (size_t)range.first * dataset_target_bytes(data), error);
}

static int print_part(struct batch *batch, int part, int parts, struct error *error)
{
    const struct predictor *predictor = batch->predictor;
    int printed = parts < PRINTED_MOST ? parts : PRINTED_MOST;
    struct range range = part_of(batch->count, part, printed);

    if (part >= printed || range.first == range.end)
        return 0;
    return prediction_writer_print(
        predictor->writer, predictor->outputs + range.first * predictor->setup.model_data.outputs,
        predictor->images ? batch->paths + range.first : NULL, range.end - range.first,
        &batch->printed[part], error);
}

static void turn_part(void *context, int part, int parts)
{
    struct turn *turn = context;
    struct error error;

    if (turn->print && print_part(turn->print, part, parts, &error) < 0)
        note_failure(turn, &error);
    if (turn->gather && gather_part(turn->gather, part, parts, &error) < 0)
        note_failure(turn, &error);
}

/* Shares the work among the threads that wait for the next run anyway. */
static int share(struct turn *turn, struct error *error)
{
    const struct batch *batch = turn->gather ? turn->gather : turn->print;
    const struct worker_setup *setup = &batch->predictor->setup;
    size_t bytes = (size_t)batch->size * dataset_sample_bytes(batch->data);

    if (setup->backend->device_share && bytes >= SHARED_BYTES)
        setup->backend->device_share(setup->device, turn_part, turn);
    else
        turn_part(turn, 0, 1);
    if (turn->error.code < 0)
        *error = turn->error;
    return turn->error.code;
}

/* Prints the batch `before`, if it has samples, and gathers `batch`, if it is not NULL. */
static int take_turn(struct batch *before, struct batch *batch, struct error *error)
{
    struct turn turn = {
        .print = before->count ? before : NULL, .gather = batch, .failed = ATOMIC_FLAG_INIT};
    struct predictor *predictor = before->predictor;
    int r = paths_find(predictor, before->first, before->count, before->paths, error);

    if (r == 0 && (turn.print || turn.gather))
        r = share(&turn, error);
    for (int p = 0; p < PRINTED_MOST; p++) {
        if (r == 0 && before->printed[p].count)
            r = prediction_writer_add(predictor->writer, &before->printed[p], error);
        free(before->printed[p].text);
    }
    for (int64_t i = 0; i < before->count; i++)
        free(before->paths[i]);
    predictor->rows += r == 0 ? before->count : 0;
    return r;
}

static void batch_choose(struct batch *batch, struct predictor *predictor,
                         const struct dataset *data, int64_t first)
{
    *batch = (struct batch){.predictor = predictor,
                            .data = data,
                            .first = first,
                            .count = data->count - first < predictor->most ? data->count - first
                                                                           : predictor->most,
                            .samples = session_staging(predictor->session)};
    for (int i = 0; i < SIZES && batch->size < batch->count; i++)
        batch->size = predictor->sizes[i];
    batch->targets = batch->samples +
                     align_up((size_t)batch->size * dataset_sample_bytes(data), MEMORY_ALIGNMENT);
}

static int predict_piece(struct predictor *predictor, const struct dataset *data,
                         struct error *error)
{
    struct batch batches[2] = {{.predictor = predictor}, {.predictor = predictor}};
    struct batch *before = &batches[0];
    int r = 0;

    for (int64_t first = 0; r == 0 && first < data->count; first += predictor->most) {
        struct batch *batch = before == batches ? batches + 1 : batches;

        batch_choose(batch, predictor, data, first);
        r = take_turn(before, batch, error);
        if (r == 0)
            r = session_evaluate(predictor->session,
                                 &(struct session_batch){.count = batch->size,
                                                         .samples = batch->samples,
                                                         .targets = batch->targets},
                                 error);
        if (r == 0)
            r = session_read_output(predictor->session, predictor->outputs, error);
        before = batch;
    }
    if (r == 0)
        r = take_turn(before, NULL, error);
    if (r == 0 && predictor->pipe)
        r = prediction_writer_flush(predictor->writer, error);
    return r;
}

/* ---- tables, piece by piece ---- */

/* What to do after rows that cannot be read: they end the program, but as JSON lines of a pipe each
 * has an answer of its own. */
static int answer_bad_rows(struct predictor *predictor, struct row_reader *reader, int code,
                           int64_t *careful, struct error *error)
{
    if (!predictor->pipe || code != -EINVAL || !row_reader_count(reader) ||
        !prediction_writer_answers_errors(predictor->writer))
        return code;
    if (row_reader_count(reader) > 1) {
        *careful = row_reader_count(reader);
        row_reader_retry(reader);
        return 0;
    }
    predictor->bad_rows++;
    prediction_writer_add_error(predictor->writer, error->text);
    return prediction_writer_flush(predictor->writer, error);
}

static int predict_rows(struct predictor *predictor, struct error *error)
{
    struct row_reader *reader = NULL;
    int64_t careful = 0; /* rows that are to be read one by one */
    int r = row_reader_open(&predictor->config, predictor->setup.train,
                            predictor->pipe ? STDIN_FILENO : -1, &reader, error);

    if (r == 0)
        r = prepare(predictor, batch_sizes, BATCH_USUAL,
                    staging_bytes(predictor->setup.train, BATCH_USUAL), error);
    if (r == 0 && predictor->pipe) /* the names of the columns, before any row comes */
        r = prediction_writer_flush(predictor->writer, error);
    while (r == 0) {
        struct dataset *data = NULL;

        r = row_reader_next(reader, careful ? 1 : PIECE_ROWS, &data, error);
        careful -= careful > 0;
        if (r < 0) {
            r = answer_bad_rows(predictor, reader, r, &careful, error);
            continue;
        }
        if (!data)
            break;
        r = predict_piece(predictor, data, error);
        dataset_close(data);
    }
    row_reader_close(reader);
    return r;
}

/* ---- images, piece by piece ---- */

static int predict_images(struct predictor *predictor, struct error *error)
{
    struct dataset *data;
    int r =
        image_reader_open(&predictor->config, predictor->setup.train, &predictor->images, error);

    normalise_bytes(predictor, predictor->setup.train);
    if (r == 0)
        r = prepare(predictor, batch_sizes, BATCH_USUAL,
                    staging_bytes(predictor->setup.train, BATCH_USUAL), error);
    while (r == 0) {
        r = image_reader_next(predictor->images, BATCH_USUAL, &data, error);
        if (r < 0 || !data)
            break;
        r = predict_piece(predictor, data, error);
        dataset_close(data);
    }
    image_reader_close(TAKE_POINTER(predictor->images));
    return r;
}

/* ---- other data, as a whole ---- */

static int take_batch(void *context, struct session *session, const struct loader_batch *batch,
                      struct error *error)
{
    struct predictor *predictor = context;
    struct predictions printed = {0};
    int r = session_read_output(session, predictor->outputs, error);

    if (r < 0)
        return r;
    predictor->rows += batch->count;
    r = prediction_writer_print(predictor->writer, predictor->outputs, NULL, batch->count, &printed,
                                error);
    if (r == 0)
        r = prediction_writer_add(predictor->writer, &printed, error);
    free(printed.text);
    return r;
}

/* What a backend makes of weights takes as long as it saves in some thousand rows. */
enum { MANY_ROWS = 4096 };

/* The least batch that is run often. The last batch, which has fewer samples, is run once. */
static int64_t often_run(const struct dataset *data, const int64_t sizes[SIZES])
{
    return data->count >= MANY_ROWS ? sizes[1] : 0;
}

/* While a device without threads of the host computes, a thread of the loader's may gather; and the
 * loader knows the lengths of sequences. */
static int predict_loaded(struct predictor *predictor, const struct dataset *data,
                          const int64_t sizes[SIZES], struct error *error)
{
    struct worker_setup *setup = &predictor->setup;
    int64_t batch = sizes[1] ? sizes[1] : sizes[0];
    struct loader_config loader = {
        .view = dataset_view_all(data),
        .batch = batch,
        .normalisation = dataset_format_has_symbols(data->format) ? NULL : &setup->normalisation,
        .threads = worker_setup_loader_threads(setup, batch)};
    struct feed *feed = NULL;
    struct step_metrics ignored;
    int r = prepare(predictor, sizes, often_run(data, sizes), loader_memory_bytes(&loader), error);

    if (r == 0)
        r = feed_create(&(struct feed_config){.session = predictor->session,
                                              .loader = loader,
                                              .memory = session_staging(predictor->session),
                                              .data = -1},
                        &feed, error);
    if (r == 0)
        r = evaluation_run(predictor->session, feed, 1, take_batch, predictor, NULL, &ignored,
                           error);
    feed_free(feed);
    return r;
}

static int predict_shared(struct predictor *predictor, const struct dataset *data,
                          const int64_t sizes[SIZES], struct error *error)
{
    int r = dataset_check_files(data, error);

    normalise_bytes(predictor, data);
    if (r == 0)
        r = prepare(predictor, sizes, often_run(data, sizes),
                    staging_bytes(data, sizes[1] ? sizes[1] : sizes[0]), error);
    return r < 0 ? r : predict_piece(predictor, data, error);
}

/* The largest batch that is worth its memory: the more, the less each sample takes. */
static int64_t largest_batch(struct worker_setup *setup)
{
    double bytes = (double)dataset_sample_bytes(setup->train);
    struct error ignored;
    struct graph graph;
    bool built;

    graph_init(&graph, 1, false);
    built = worker_setup_build(setup, &graph, &ignored) == 0;
    for (int32_t i = 0; built && i < graph.tensor_count; i++)
        if (graph.tensors[i].role == TENSOR_ACTIVATION)
            bytes += (double)graph_shape_elements(&graph.tensors[i].shape) *
                     (double)tensor_type_bytes(graph.tensors[i].type);
    graph_release(&graph);
    return built && bytes < SMALL_SAMPLE_BYTES ? BATCH_MOST : BATCH_USUAL;
}

static int predict_whole(struct predictor *predictor, struct error *error)
{
    struct dataset *data = NULL;
    int r = dataset_open(&predictor->config, predictor->setup.train, &data, error);

    if (r == 0) {
        int64_t most = largest_batch(&predictor->setup);
        bool many = data->count >= most;
        const int64_t sizes[SIZES] = {data->count % most, many ? most : 0};

        r = predictor->setup.backend->device_share && !data->lengths
                ? predict_shared(predictor, data, sizes, error)
                : predict_loaded(predictor, data, sizes, error);
    }
    dataset_close(data);
    return r;
}

/* ---- the command ---- */

static int predict(struct predictor *predictor, struct error *error)
{
    const struct worker_options *options = predictor->options;
    struct worker_setup *setup = &predictor->setup;
    struct prediction_writer_config writer = {.setup = setup,
                                              .path = options->output,
                                              .top = options->top_k,
                                              .probabilities = options->probabilities};
    int r = prediction_format(options, &writer.format, error);

    if (r == 0)
        r = check_output(options, error);
    if (r == 0)
        r = worker_model_open(options, options->input, &predictor->checkpoint, setup, error);
    if (r == 0)
        r = check_data(predictor, error);
    /* Nobody reads the loss of predictions. A GPU computes it beside what the host does. */
    setup->model_data.no_loss = r == 0 && setup->backend->device_share;
    writer.paths = r == 0 && image_reader_reads(setup->train, options->data);
    if (r == 0)
        r = prediction_writer_open(&writer, &predictor->writer, error);
    if (r < 0)
        return r;
    predictor->path = predictor->pipe ? "standard input" : options->data;
    predictor->config = worker_model_data(setup, &predictor->path);
    predictor->config.unlabelled = true;
    predictor->config.lengths_path = options->lengths;
    predictor->events = (struct dataset_events){.context = predictor, .warning = on_warning};
    predictor->config.events = &predictor->events;
    if (writer.paths)
        r = predict_images(predictor, error);
    else if (row_reader_reads(predictor->config.format, predictor->pipe))
        r = predict_rows(predictor, error);
    else
        r = predict_whole(predictor, error);
    if (r < 0)
        return r;
    if (prediction_writer_undefined(predictor->writer))
        log_warning(
            "the model's answers to %lld of %lld rows are no finite numbers: look for values "
            "there that are far from those of the training data",
            (long long)prediction_writer_undefined(predictor->writer), (long long)predictor->rows);
    return prediction_writer_finish(TAKE_POINTER(predictor->writer), error);
}

/* Says what lies in the file of predictions; on standard output they speak for themselves. */
static void show_result(const struct worker_options *options, int64_t rows)
{
    JSON_AUTO struct json_object *json = NULL;

    if (!options->output || strcmp(options->output, "-") == 0)
        return;
    if (!options->json) {
        printf("%s: %lld rows\n", options->output, (long long)rows);
        return;
    }
    json = json_object_new_object();
    json_set_string(json, "output", options->output);
    json_set_int(json, "rows", rows);
    json_print(json, stdout);
}

int worker_predict(const struct worker_options *options)
{
    struct predictor predictor = {.options = options, .pipe = is_standard_input(options->data)};
    struct error error = {0};
    int r = predict(&predictor, &error);

    prediction_writer_abort(predictor.writer);
    session_free(predictor.session);
    free(predictor.outputs);
    checkpoint_close(&predictor.checkpoint);
    worker_setup_release(&predictor.setup);
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    else
        show_result(options, predictor.rows);
    return r < 0 || predictor.bad_rows ? EXIT_FAILURE : EXIT_SUCCESS;
}
