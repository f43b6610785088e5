/* prediction_writer.c: see prediction_writer.h. */
#include "worker/trainee/prediction_writer.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/data/description.h"
#include "proto/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const prediction_format_names[] = {
    [PREDICTION_CSV] = "csv", [PREDICTION_JSONL] = "jsonl", [PREDICTION_NPY] = "npy"};
DEFINE_STRING_TABLE(prediction_format, enum prediction_format, prediction_format_names)

enum { NPY_HEADER_BYTES = 128 };

/* Classes of a part of the outputs: all of them, or those of a head. */
struct part {
    const char *name; /* of the head; NULL: there is one part */
    int64_t first, classes;
    int top; /* the likeliest to write */
};

struct prediction_writer {
    struct prediction_writer_config config;
    FILE *file;
    char *path, *temporary; /* owned; NULL: standard output */
    bool classifies;
    bool embeds;       /* writes embeddings of samples that have classes */
    int64_t width;     /* of an output */
    int64_t quantiles; /* of each value, side by side; else 1 */
    struct part parts[GRAPH_HEADS_MAX];
    int part_count;
    char **names; /* [width], of classes or values, as the format writes them; owned */
    int64_t count, undefined;
};

/* A sample that is printed. */
struct sample {
    FILE *file;
    double *scores; /* [width]: probabilities, or values in the units of the training data */
    int32_t *order; /* [width]: classes, the likeliest ones of each part first */
    float *row;     /* [width], of an array */
};

/* ---- names ---- */

/* The name as JSON, in which bytes that are no UTF-8 are written as \xe9, as in exports; the caller
 * frees it. NULL: no memory. */
static char *name_quote_json(const char *name)
{
    size_t length = strlen(name), size = 4 * length + 1;
    bool is_text = text_is_utf8(name, length);
    AUTO_FREE char *shown = is_text ? NULL : malloc(size);

    if (!is_text && !shown)
        return NULL;
    JSON_AUTO struct json_object *json =
        json_object_new_string(is_text ? name : text_escape_controls(name, shown, size));

    return strdup(json_text(json, NULL));
}

/* The name in quotes where CSV or JSON needs them; the caller frees it. NULL: no memory. */
static char *name_quote(const char *name, enum prediction_format format)
{
    char *quoted, *to;

    if (format == PREDICTION_JSONL)
        return name_quote_json(name);
    if (!strpbrk(name, ",\"\r\n"))
        return strdup(name);
    to = quoted = malloc(2 * strlen(name) + 3);
    if (!quoted)
        return NULL;
    *to++ = '"';
    for (; *name; name++) {
        if (*name == '"')
            *to++ = '"';
        *to++ = *name;
    }
    *to++ = '"';
    *to = '\0';
    return quoted;
}

/* The name of an output in quotes, with its quantile behind it ("price_q0.9") where there are
 * several. NULL: no memory. */
static char *output_name(const struct prediction_writer *writer, const char *name, int64_t output)
{
    AUTO_FREE char *of_quantile = NULL;
    const float *quantiles = writer->config.setup->spec.loss_numbers;

    if (writer->quantiles == 1)
        return name_quote(name, writer->config.format);
    if (asprintf(&of_quantile, "%s_q%g", name, (double)quantiles[output % writer->quantiles]) < 0) {
        of_quantile = NULL;
        return NULL;
    }
    return name_quote(of_quantile, writer->config.format);
}

static int names_make(struct prediction_writer *writer, struct error *error)
{
    const struct dataset *train = writer->config.setup->train;
    char made[DATASET_CLASS_BYTES];

    writer->names = calloc((size_t)writer->width, sizeof *writer->names);
    for (int p = 0; writer->names && p < writer->part_count; p++) {
        const struct part *part = &writer->parts[p];

        for (int64_t i = 0; i < part->classes; i++) {
            const char *name = NULL;

            if (writer->classifies)
                name = dataset_class_name(train, i, made);
            else if (!writer->embeds)
                name = dataset_target_name(train, (int32_t)(i / writer->quantiles));
            if (!name) {
                snprintf(made, sizeof made, writer->width > writer->quantiles ? "%s%lld" : "%s",
                         writer->embeds ? "embedding" : "prediction",
                         (long long)(i / writer->quantiles));
                name = made;
            }
            writer->names[part->first + i] = output_name(writer, name, i);
            if (!writer->names[part->first + i])
                return error_no_memory(error, "the names of the classes");
        }
    }
    return writer->names ? 0 : error_no_memory(error, "the names of the classes");
}

static void parts_make(struct prediction_writer *writer)
{
    const struct worker_spec *spec = &writer->config.setup->spec;
    int top = writer->config.top ? writer->config.top : 1;

    writer->part_count = spec->head_count ? spec->head_count : 1;
    writer->parts[0] = (struct part){.classes = writer->width, .top = top};
    for (int i = 0, first = 0; i < spec->head_count; i++) {
        writer->parts[i] = (struct part){.name = spec->head_names[i],
                                         .first = first,
                                         .classes = spec->heads[i].classes,
                                         .top = writer->config.top ? top : spec->heads[i].labels};
        first += spec->heads[i].classes;
    }
    for (int i = 0; i < writer->part_count; i++)
        if (writer->parts[i].top > writer->parts[i].classes)
            writer->parts[i].top = (int)writer->parts[i].classes;
}

/* ---- what stands before the predictions ---- */

static void write_csv_header(struct prediction_writer *writer)
{
    const char *comma = writer->config.paths ? "," : "";

    if (writer->config.paths)
        fputs("path", writer->file);
    for (int p = 0; p < writer->part_count; p++) {
        const struct part *part = &writer->parts[p];
        const char *head = part->name ? part->name : "", *mark = part->name ? "_" : "";

        for (int k = 0; writer->classifies && k < part->top; k++) {
            char number[16] = "";

            if (part->top > 1)
                snprintf(number, sizeof number, "_%d", k + 1);
            fprintf(writer->file, "%s%s%slabel%s,%s%sprobability%s", comma, head, mark, number,
                    head, mark, number);
            comma = ",";
        }
        for (int64_t i = 0;
             (!writer->classifies || writer->config.probabilities) && i < part->classes; i++) {
            fprintf(writer->file, "%s%s%s%s", comma, head, mark, writer->names[part->first + i]);
            comma = ",";
        }
    }
    fputc('\n', writer->file);
}

/* Version 1.0 of NumPy's format (numpy.lib.format), padded so that the number of rows fits. */
static void write_npy_header(struct prediction_writer *writer)
{
    char header[NPY_HEADER_BYTES + 1];
    int length =
        snprintf(header, sizeof header,
                 "\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': "
                 "(%lld, %lld), }",
                 0, NPY_HEADER_BYTES - 10, 0, (long long)writer->count, (long long)writer->width);

    memset(header + length, ' ', (size_t)(NPY_HEADER_BYTES - length - 1));
    header[NPY_HEADER_BYTES - 1] = '\n';
    fwrite(header, 1, NPY_HEADER_BYTES, writer->file);
}

/* ---- opening ---- */

static int check_format(const struct prediction_writer *writer, struct error *error)
{
    const struct prediction_writer_config *config = &writer->config;

    if (!writer->classifies && (config->top || config->probabilities))
        return error_set(error, -EINVAL,
                         "the model %s, not classes: leave out --top-k and --probabilities",
                         writer->embeds ? "gives embeddings" : "predicts numbers");
    if (config->format == PREDICTION_NPY && config->top)
        return error_set(error, -EINVAL,
                         "an array of NumPy holds the probabilities of all classes: leave out "
                         "--top-k, or choose csv or jsonl");
    if (config->format == PREDICTION_NPY && !writer->path)
        return error_set(error, -EINVAL,
                         "an array of NumPy cannot be written to standard output, as its beginning "
                         "says how long it is: name a file with --output");
    return 0;
}

static int file_begin(struct prediction_writer *writer, struct error *error)
{
    if (!writer->path) {
        writer->file = stdout;
        return 0;
    }
    if (file_check_replaceable(writer->path, error) < 0)
        return -EINVAL;
    if (asprintf(&writer->temporary, "%s.tmp", writer->path) < 0) {
        writer->temporary = NULL;
        return error_no_memory(error, "%s", writer->path);
    }
    writer->file = fopen(writer->temporary, "we");
    if (writer->file)
        return 0;
    free(TAKE_POINTER(writer->temporary));
    return error_set_errno(error, -errno, "cannot write %s", writer->path);
}

int prediction_writer_open(const struct prediction_writer_config *config,
                           struct prediction_writer **writer, struct error *error)
{
    struct prediction_writer *made = calloc(1, sizeof *made);
    int r = 0;

    if (!made)
        return error_no_memory(error, "the predictions");
    made->config = *config;
    made->embeds = config->setup->spec.loss == LOSS_TRIPLET;
    made->classifies = config->setup->train->target == DATASET_TARGET_CLASS && !made->embeds;
    made->width = config->setup->model_data.outputs;
    made->quantiles = config->setup->spec.loss == LOSS_QUANTILES
                          ? (int64_t)config->setup->spec.loss_number_count
                          : 1;
    if (config->path && strcmp(config->path, "-") != 0 && !(made->path = strdup(config->path)))
        r = error_no_memory(error, "the predictions");
    parts_make(made);
    if (r == 0)
        r = check_format(made, error);
    if (r == 0)
        r = names_make(made, error);
    if (r == 0)
        r = file_begin(made, error);
    if (r < 0) {
        prediction_writer_abort(made);
        return r;
    }
    if (config->format == PREDICTION_CSV)
        write_csv_header(made);
    else if (config->format == PREDICTION_NPY)
        write_npy_header(made);
    *writer = made;
    return 0;
}

/* ---- predictions ---- */

/* Softmax, or of a head whose classes exclude none the sigmoid. */
static void part_score(const struct prediction_writer *writer, const struct part *part,
                       const float *outputs, double *scores)
{
    bool sigmoid = part->name && writer->config.setup->spec.heads[part - writer->parts].binary;
    double largest = -INFINITY, sum = 0;

    outputs += part->first;
    scores += part->first;
    for (int64_t i = 0; i < part->classes; i++)
        largest = fmax(largest, (double)outputs[i]);
    for (int64_t i = 0; i < part->classes; i++) {
        scores[i] =
            sigmoid ? 1 / (1 + exp(-(double)outputs[i])) : exp((double)outputs[i] - largest);
        sum += scores[i];
    }
    for (int64_t i = 0; !sigmoid && i < part->classes; i++)
        scores[i] /= sum;
}

/* Puts the `top` likeliest classes first; of equal ones, the one with the smaller number. */
static void part_sort(const struct sample *sample, const struct part *part)
{
    const double *scores = sample->scores + part->first;
    int32_t *order = sample->order + part->first;
    int count = 0;

    for (int32_t i = 0; i < part->classes; i++) {
        int at = count < part->top ? count++ : part->top;

        while (at > 0 && scores[i] > scores[order[at - 1]]) {
            if (at < part->top)
                order[at] = order[at - 1];
            at--;
        }
        if (at < part->top)
            order[at] = i;
    }
}

static void write_csv_number(FILE *file, double number)
{
    if (isnan(number))
        fputs("nan", file); /* printf may write "-nan" */
    else
        fprintf(file, "%.9g", number);
}

static void write_csv(const struct prediction_writer *writer, const struct sample *sample,
                      const char *path)
{
    const char *comma = path ? "," : "";

    if (path)
        fputs(path, sample->file);
    for (int p = 0; p < writer->part_count; p++) {
        const struct part *part = &writer->parts[p];
        const double *numbers = sample->scores + part->first;
        char *const *names = writer->names + part->first;

        for (int k = 0; writer->classifies && k < part->top; k++) {
            int32_t class = sample->order[part->first + k];

            fprintf(sample->file, "%s%s,", comma, names[class]);
            write_csv_number(sample->file, numbers[class]);
            comma = ",";
        }
        for (int64_t i = 0;
             (!writer->classifies || writer->config.probabilities) && i < part->classes; i++) {
            fputs(comma, sample->file);
            write_csv_number(sample->file, numbers[i]);
            comma = ",";
        }
    }
    fputc('\n', sample->file);
}

static void write_json_number(FILE *file, double number)
{
    if (isfinite(number))
        fprintf(file, "%.9g", number);
    else
        fputs("null", file); /* JSON has no other numbers */
}

static void write_json_class(const struct prediction_writer *writer, const struct sample *sample,
                             const struct part *part, int k)
{
    int64_t class = part->first + sample->order[part->first + k];

    fprintf(sample->file, "\"label\": %s, \"probability\": ", writer->names[class]);
    write_json_number(sample->file, sample->scores[class]);
}

static void write_json_part(const struct prediction_writer *writer, const struct sample *sample,
                            const struct part *part)
{
    FILE *file = sample->file;

    if (writer->classifies) {
        write_json_class(writer, sample, part, 0);
        for (int k = 0; part->top > 1 && k < part->top; k++) {
            fputs(k ? ", {" : ", \"top\": [{", file);
            write_json_class(writer, sample, part, k);
            fputs(k + 1 < part->top ? "}" : "}]", file);
        }
        if (!writer->config.probabilities)
            return;
        fputs(", \"probabilities\": {", file);
    }
    for (int64_t i = part->first; i < part->first + part->classes; i++) {
        fprintf(file, "%s%s: ", i > part->first ? ", " : "", writer->names[i]);
        write_json_number(file, sample->scores[i]);
    }
    if (writer->classifies)
        fputc('}', file);
}

static void write_json(const struct prediction_writer *writer, const struct sample *sample,
                       const char *path)
{
    fputc('{', sample->file);
    if (path)
        fprintf(sample->file, "\"path\": %s, ", path);
    for (int p = 0; p < writer->part_count; p++) {
        const struct part *part = &writer->parts[p];

        if (part->name)
            fprintf(sample->file, "%s\"%s\": {", p ? ", " : "", part->name);
        write_json_part(writer, sample, part);
        if (part->name)
            fputc('}', sample->file);
    }
    fputs("}\n", sample->file);
}

/* The values in the units of the training data; of labels that are 0 or 1, and of classes whose
 * probabilities are learnt, the probabilities. */
static void values_unscale(const struct prediction_writer *writer, const float *outputs,
                           double *scores)
{
    const struct dataset_normalisation *normalisation = &writer->config.setup->normalisation;
    bool labels = writer->config.setup->spec.loss == LOSS_BINARY;

    if (writer->config.setup->spec.loss == LOSS_SOFT) {
        part_score(writer, &writer->parts[0], outputs, scores);
        return;
    }
    for (int64_t i = 0; i < writer->width; i++) {
        double value = (double)outputs[i];

        if (labels)
            value = 1 / (1 + exp(-value));
        if (normalisation->target_groups)
            value = value / (double)normalisation->target_factor[i / writer->quantiles] +
                    (double)normalisation->target_mean[i / writer->quantiles];
        scores[i] = value;
    }
}

static void sample_score(const struct prediction_writer *writer, const float *outputs,
                         const struct sample *sample)
{
    if (!writer->classifies)
        values_unscale(writer, outputs, sample->scores);
    for (int p = 0; writer->classifies && p < writer->part_count; p++) {
        part_score(writer, &writer->parts[p], outputs, sample->scores);
        if (writer->config.format != PREDICTION_NPY)
            part_sort(sample, &writer->parts[p]);
    }
}

static void write_npy(const struct prediction_writer *writer, const struct sample *sample)
{
    for (int64_t i = 0; i < writer->width; i++)
        sample->row[i] = (float)sample->scores[i];
    fwrite(sample->row, sizeof *sample->row, (size_t)writer->width, sample->file);
}

static int print_samples(const struct prediction_writer *writer, const float *outputs,
                         char *const *paths, int64_t count, const struct sample *sample,
                         struct error *error)
{
    for (int64_t n = 0; n < count; n++) {
        AUTO_FREE char *path = paths ? name_quote(paths[n], writer->config.format) : NULL;

        if (paths && !path)
            return error_no_memory(error, "the path %s", paths[n]);
        sample_score(writer, outputs + n * writer->width, sample);
        if (writer->config.format == PREDICTION_CSV)
            write_csv(writer, sample, path);
        else if (writer->config.format == PREDICTION_JSONL)
            write_json(writer, sample, path);
        else
            write_npy(writer, sample);
    }
    return 0;
}

static bool are_finite(const float *outputs, int64_t count)
{
    bool finite = true;

    for (int64_t i = 0; i < count; i++)
        finite &= isfinite(outputs[i]) != 0;
    return finite;
}

int prediction_writer_print(const struct prediction_writer *writer, const float *outputs,
                            char *const *paths, int64_t count, struct predictions *predictions,
                            struct error *error)
{
    size_t width = (size_t)writer->width;
    AUTO_FREE double *scores = calloc(width, sizeof *scores);
    AUTO_FREE int32_t *order = calloc(width, sizeof *order);
    AUTO_FREE float *row = calloc(width, sizeof *row);
    FILE *file = open_memstream(&predictions->text, &predictions->length);
    int r;

    predictions->count = count;
    predictions->undefined = 0;
    for (int64_t n = 0; n < count; n++)
        predictions->undefined += !are_finite(outputs + n * writer->width, writer->width);
    if (!scores || !order || !row || !file)
        r = error_no_memory(error, "the predictions");
    else
        r = print_samples(writer, outputs, paths, count, &(struct sample){file, scores, order, row},
                          error);
    if (file && fclose(file) != 0 && r == 0)
        r = error_no_memory(error, "the predictions");
    return r;
}

static int report_write(const struct prediction_writer *writer, int fault, struct error *error)
{
    return error_set_errno(error, fault ? -fault : -EIO, "cannot write %s",
                           writer->path ? writer->path : "to standard output");
}

int prediction_writer_add(struct prediction_writer *writer, const struct predictions *predictions,
                          struct error *error)
{
    errno = 0;
    fwrite(predictions->text, 1, predictions->length, writer->file);
    writer->count += predictions->count;
    writer->undefined += predictions->undefined;
    return ferror(writer->file) ? report_write(writer, errno, error) : 0;
}

int64_t prediction_writer_undefined(const struct prediction_writer *writer)
{
    return writer->undefined;
}

bool prediction_writer_answers_errors(const struct prediction_writer *writer)
{
    return writer->config.format == PREDICTION_JSONL;
}

void prediction_writer_add_error(struct prediction_writer *writer, const char *sentence)
{
    JSON_AUTO struct json_object *json = json_object_new_object();

    json_set_string(json, "error", sentence);
    json_print(json, writer->file);
}

int prediction_writer_flush(struct prediction_writer *writer, struct error *error)
{
    errno = 0;
    return fflush(writer->file) == 0 ? 0 : report_write(writer, errno, error);
}

int prediction_writer_finish(struct prediction_writer *writer, struct error *error)
{
    int r;

    if (writer->config.format == PREDICTION_NPY && fseek(writer->file, 0, SEEK_SET) == 0)
        write_npy_header(writer);
    r = prediction_writer_flush(writer, error);
    if (r == 0 && writer->temporary &&
        (fsync(fileno(writer->file)) < 0 || rename(writer->temporary, writer->path) < 0))
        r = error_set_errno(error, -errno, "cannot write %s", writer->path);
    if (r == 0)
        free(TAKE_POINTER(writer->temporary));
    prediction_writer_abort(writer);
    return r;
}

void prediction_writer_abort(struct prediction_writer *writer)
{
    if (!writer)
        return;
    if (writer->file && writer->file != stdout)
        fclose(writer->file);
    if (writer->temporary)
        unlink(writer->temporary);
    for (int64_t i = 0; writer->names && i < writer->width; i++)
        free(writer->names[i]);
    free(writer->names);
    free(writer->temporary);
    free(writer->path);
    free(writer);
}
