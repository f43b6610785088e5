/* augmentation.c: see augmentation.h. */
#include "engine/data/augmentation.h"

#include "base/philox.h"
#include "engine/data/augmentation_images.h"
#include "engine/data/gather.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The purpose of a draw. It is the high half of the draw's index; the low half is a sample or a
 * place. */
enum draw_purpose {
    DRAW_GEOMETRY,
    DRAW_CUTOUT,
    DRAW_MIXUP /* and all indices behind it: one for each try */
};

static struct philox draw(const struct augmentation *augmentation, uint32_t epoch, uint64_t purpose,
                          int64_t place)
{
    return philox_draw(augmentation->seed, philox_stream(PHILOX_AUGMENTATION, epoch),
                       purpose << 32 | (uint32_t)place);
}

/* Uniform in [0, bound). The bias, below bound / 2^32, is not corrected. */
static int64_t below(uint32_t word, int64_t bound)
{
    return (int64_t)((uint64_t)word * (uint64_t)bound >> 32);
}

static bool changes_images(const struct augmentation *augmentation)
{
    return augmentation->crop_padding || augmentation->horizontal_flip ||
           augmentation->vertical_flip || augmentation->cutout_side;
}

bool augmentation_mixes(const struct augmentation *augmentation)
{
    return augmentation->mixup_alpha > 0 || augmentation->cutmix_alpha > 0;
}

bool augmentation_needs_host(const struct augmentation *augmentation)
{
    return augmentation_changes_bytes(augmentation) || augmentation->vertical_flip ||
           augmentation->erasing > 0 || augmentation->cutmix_alpha > 0;
}

bool augmentation_is_none(const struct augmentation *augmentation)
{
    return !changes_images(augmentation) && !augmentation_needs_host(augmentation) &&
           !augmentation_is_soft(augmentation) && !(augmentation->label_noise > 0);
}

bool augmentation_is_soft(const struct augmentation *augmentation)
{
    return augmentation_mixes(augmentation) || augmentation->label_smoothing > 0 ||
           augmentation->weights;
}

size_t augmentation_target_bytes(const struct augmentation *augmentation,
                                 const struct dataset *dataset)
{
    return augmentation_is_soft(augmentation) ? (size_t)dataset->classes * sizeof(float)
                                              : dataset_target_bytes(dataset);
}

size_t augmentation_scratch_bytes(const struct augmentation *augmentation,
                                  const struct dataset *dataset)
{
    return (augmentation_mixes(augmentation) ? dataset_sample_bytes(dataset) : 0) +
           augmentation_images_scratch(augmentation, dataset);
}

/* ---- whether it fits the data ---- */

static int check_geometry(const struct augmentation *augmentation, const struct dataset *dataset,
                          struct error *error)
{
    const char *name = augmentation->crop_padding       ? "random_crop"
                       : augmentation->horizontal_flip  ? "horizontal_flip"
                       : augmentation->vertical_flip    ? "vertical_flip"
                       : augmentation->cutout_side      ? "cutout"
                       : augmentation->erasing > 0      ? "random_erasing"
                       : augmentation->cutmix_alpha > 0 ? "cutmix"
                                                        : augmentation_images_name(augmentation);
    const int64_t *shape = dataset->shape;
    char text[128];

    if (!name)
        return 0;
    if (dataset->rank != 3)
        return error_set(error, -EINVAL,
                         "data.augment: %s needs images [channels,height,width], but the samples "
                         "have the shape %s; say the shape, or leave it out",
                         name, reader_format_shape(shape, dataset->rank, text, sizeof text));
    if (augmentation_changes_bytes(augmentation) &&
        (dataset->element != DATASET_UINT8 || (shape[0] != 1 && shape[0] != 3)))
        return error_set(error, -EINVAL,
                         "data.augment: %s needs images of bytes with 1 or 3 channels, but the "
                         "samples are %s of shape %s; save them as uint8, or leave it out",
                         augmentation_images_name(augmentation),
                         dataset->element == DATASET_UINT8 ? "bytes" : "floats",
                         reader_format_shape(shape, dataset->rank, text, sizeof text));
    if (augmentation->crop_padding >= shape[1] || augmentation->crop_padding >= shape[2])
        return error_set(error, -EINVAL,
                         "data.augment: random_crop:%lld pads images of %lld x %lld pixels with as "
                         "much as they have; take a smaller padding",
                         (long long)augmentation->crop_padding, (long long)shape[2],
                         (long long)shape[1]);
    return 0;
}

int augmentation_check(const struct augmentation *augmentation, const struct dataset *dataset,
                       struct error *error)
{
    if (augmentation_mixes(augmentation) && dataset_format_has_symbols(dataset->format))
        return error_set(error, -EINVAL, "data.augment: symbols cannot be mixed");
    if (augmentation_mixes(augmentation) && dataset->lengths)
        return error_set(error, -EINVAL,
                         "data.augment: sequences of different lengths cannot be mixed");
    if (dataset->target != DATASET_TARGET_CLASS &&
        (augmentation_is_soft(augmentation) || augmentation->label_noise > 0))
        return error_set(
            error, -EINVAL,
            "mixup, cutmix, label noise and label smoothing need classes as targets, not "
            "values");
    if (dataset->target_width > 1 && dataset->target == DATASET_TARGET_CLASS &&
        (augmentation_is_soft(augmentation) || augmentation->label_noise > 0))
        return error_set(error, -EINVAL,
                         "mixup, label noise and label smoothing need one label for each sample, "
                         "not %d",
                         dataset->target_width);
    return check_geometry(augmentation, dataset, error);
}

/* ---- images ---- */

struct geometry {
    /* the place of the cut-out part relative to the image: -padding to padding */
    int64_t down, right;
    bool flip, upside_down;
    int64_t hole[4]; /* top, bottom, left, right; top == bottom: there is none */
};

static int64_t clip(int64_t value, int64_t high)
{
    return value < 0 ? 0 : value > high ? high : value;
}

static struct geometry geometry_draw(const struct augmentation *augmentation,
                                     const struct dataset *dataset, uint32_t epoch, int64_t index)
{
    int64_t padding = augmentation->crop_padding, side = augmentation->cutout_side;
    int64_t height = dataset->shape[1], width = dataset->shape[2];
    struct philox words = draw(augmentation, epoch, DRAW_GEOMETRY, index);
    struct geometry geometry = {.flip = augmentation->horizontal_flip && words.word[2] >> 31,
                                .upside_down = augmentation->vertical_flip && words.word[3] >> 31};

    geometry.down = below(words.word[0], 2 * padding + 1) - padding;
    geometry.right = below(words.word[1], 2 * padding + 1) - padding;
    if (side) {
        words = draw(augmentation, epoch, DRAW_CUTOUT, index);
        int64_t top = below(words.word[0], height) - side / 2;
        int64_t left = below(words.word[1], width) - side / 2;

        geometry.hole[0] = clip(top, height);
        geometry.hole[1] = clip(top + side, height);
        geometry.hole[2] = clip(left, width);
        geometry.hole[3] = clip(left + side, width);
    }
    return geometry;
}

static void fill(float *output, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = value;
}

CONVERSION static void reverse(float *row, int64_t count)
{
    for (int64_t i = 0; i < count / 2; i++) {
        float swapped = row[i];

        row[i] = row[count - 1 - i];
        row[count - 1 - i] = swapped;
    }
}

static void write_image(const struct dataset *dataset,
                        const struct dataset_normalisation *normalisation,
                        const struct geometry *geometry, const uint8_t *raw, float *output)
{
    int64_t height = dataset->shape[1], width = dataset->shape[2], shift = geometry->right;
    /* how many columns of padding there are */
    int64_t left = shift < 0 ? -shift : 0, right = shift > 0 ? shift : 0;
    const int64_t *hole = geometry->hole;

    for (int64_t c = 0; c < dataset->shape[0]; c++) {
        int64_t group = normalisation->groups > 1 ? c : 0;
        float mean = normalisation->mean[group], factor = normalisation->factor[group];
        float padding = (0 - mean) * factor;

        for (int64_t y = 0; y < height; y++, output += width) {
            int64_t from = (geometry->upside_down ? height - 1 - y : y) + geometry->down;

            if (from < 0 || from >= height) {
                fill(output, width, padding);
            } else {
                fill(output, left, padding);
                gather_convert(dataset, raw, (c * height + from) * width + right,
                               width - left - right, mean, factor, output + left);
                fill(output + width - right, right, padding);
            }
            if (geometry->flip)
                reverse(output, width);
            if (y >= hole[0] && y < hole[1])
                fill(output + hole[2], hole[3] - hole[2], 0);
        }
    }
}

/* ---- targets ---- */

int32_t augmentation_label(const struct augmentation *augmentation, int32_t classes, int64_t index,
                           int32_t label)
{
    struct philox words;
    int32_t other;

    if (!(augmentation->label_noise > 0) || classes < 2)
        return label;
    words = philox_draw(augmentation->seed, philox_stream(PHILOX_LABEL_NOISE, 0), (uint64_t)index);
    /* 53 bits: the share of changed labels is within 1e-16 of the wanted one */
    if (ldexp((double)((uint64_t)words.word[0] << 21 | words.word[1] >> 11), -53) >=
        augmentation->label_noise)
        return label;
    other = (int32_t)below(words.word[2], classes - 1);
    return other + (other >= label);
}

/* Beta(alpha, alpha) by Jöhnk 1964 (Metrika 8): draws two uniform numbers to the power 1 / alpha
 * until their sum is at most 1, and takes the share of the first. It computes with logarithms,
 * because powers for a small alpha underflow. */
static float share_draw(const struct augmentation *augmentation, double alpha, uint32_t epoch,
                        int64_t position)
{
    for (uint64_t attempt = 0;; attempt++) {
        struct philox words = draw(augmentation, epoch, DRAW_MIXUP + attempt, position);
        /* in (0, 1) */
        double u = ((double)((uint64_t)words.word[0] << 20 | words.word[1] >> 12) + 0.5) * 0x1p-52;
        double v = ((double)((uint64_t)words.word[2] << 20 | words.word[3] >> 12) + 0.5) * 0x1p-52;
        double x = log(u) / alpha, y = log(v) / alpha;
        double larger = x > y ? x : y, sum = larger + log(exp(x - larger) + exp(y - larger));

        if (sum <= 0)
            return (float)exp(x - sum);
    }
}

float augmentation_mixup_share(const struct augmentation *augmentation, uint32_t epoch,
                               int64_t position)
{
    return share_draw(augmentation, augmentation->mixup_alpha, epoch, position);
}

/* Writes `share` for `label` and the rest for `other`, smoothed. */
static void write_probabilities(const struct augmentation *augmentation, int32_t classes,
                                int32_t label, int32_t other, float share, float *row)
{
    double smoothing = augmentation->label_smoothing, kept = 1 - smoothing;

    fill(row, classes, (float)(smoothing / classes));
    row[label] += (float)(kept * (double)share);
    row[other] += (float)(kept * (1 - (double)share));
}

/* into[i] = share * into[i] + (1 - share) * other[i] */
CONVERSION static void mix(float *into, const float *other, float share, int64_t count)
{
    float rest = 1 - share;

    for (int64_t i = 0; i < count; i++)
        into[i] = share * into[i] + rest * other[i];
}

/* Mixes each row with the one before it, and the first with the last. */
static void mix_rows(float *rows, int64_t count, int64_t width, float share, float *scratch)
{
    float *last = rows + (count - 1) * width;

    memcpy(scratch, last, (size_t)width * sizeof *scratch);
    for (float *row = last; row > rows; row -= width)
        mix(row, row - width, share, width);
    mix(rows, scratch, share, width);
}

/* ---- boxes ---- */

static void box_blank(const struct dataset *dataset, const struct augmentation_box *box, float *row)
{
    for (int64_t c = 0; c < dataset->shape[0]; c++, row += dataset->shape[1] * dataset->shape[2])
        for (int64_t y = box->top; y < box->bottom; y++)
            fill(row + y * dataset->shape[2] + box->left, box->right - box->left, 0);
}

static void box_copy(const struct dataset *dataset, const struct augmentation_box *box, float *row,
                     const float *other)
{
    int64_t plane = dataset->shape[1] * dataset->shape[2];

    for (int64_t c = 0; c < dataset->shape[0]; c++, row += plane, other += plane)
        for (int64_t y = box->top; y < box->bottom; y++) {
            int64_t place = y * dataset->shape[2] + box->left;

            memcpy(row + place, other + place, (size_t)(box->right - box->left) * sizeof *row);
        }
}

/* Each row gets the box of the one before it, and the first that of the last. */
static void cut_rows(const struct dataset *dataset, const struct augmentation_box *box, float *rows,
                     int64_t count, float *scratch)
{
    int64_t width = dataset->sample_elements;
    float *last = rows + (count - 1) * width;

    memcpy(scratch, last, (size_t)width * sizeof *scratch);
    for (float *row = last; row > rows; row -= width)
        box_copy(dataset, box, row, row - width);
    box_copy(dataset, box, rows, scratch);
}

/* ---- the batch ---- */

struct batch {
    const struct augmentation *augmentation;
    const struct dataset *dataset;
    const uint32_t *indices;
    int64_t count;
};

static int32_t batch_label(const struct batch *batch, int64_t row)
{
    int64_t index = batch->indices[row];
    const struct dataset *dataset = batch->dataset;

    return augmentation_label(batch->augmentation, dataset->classes, index,
                              gather_label(dataset, index, reader_sample(dataset, index)));
}

static void write_targets(const struct batch *batch, float share, void *targets)
{
    const struct dataset *dataset = batch->dataset;
    int64_t width = dataset->target_width;

    if (dataset->target == DATASET_TARGET_VALUE) {
        for (int64_t i = 0; i < batch->count; i++)
            memcpy((float *)targets + i * width, dataset_targets(dataset, batch->indices[i]),
                   (size_t)width * sizeof(float));
    } else if (augmentation_is_soft(batch->augmentation)) {
        int32_t before = batch_label(batch, batch->count - 1);

        for (int64_t i = 0; i < batch->count; i++) {
            int32_t label = batch_label(batch, i);

            write_probabilities(batch->augmentation, dataset->classes, label, before, share,
                                (float *)targets + i * dataset->classes);
            before = label;
        }
    } else {
        for (int64_t i = 0; i < batch->count; i++)
            ((int32_t *)targets)[i] = batch_label(batch, i);
    }
}

/* Writes one sample, changed alone. `scratch`: of augmentation_images_scratch(). */
static void write_sample(const struct batch *batch,
                         const struct dataset_normalisation *normalisation, uint32_t epoch,
                         int64_t index, const uint8_t *raw, uint8_t *scratch, void *row)
{
    const struct augmentation *augmentation = batch->augmentation;
    const struct dataset *dataset = batch->dataset;

    if (augmentation_changes_bytes(augmentation))
        raw = augmentation_change_bytes(augmentation, dataset, epoch, index, raw, scratch);
    if (changes_images(augmentation)) {
        struct geometry geometry = geometry_draw(augmentation, dataset, epoch, index);

        write_image(dataset, normalisation, &geometry, raw, row);
    } else {
        gather_row(dataset, normalisation, index, raw, row);
    }
    if (augmentation->erasing > 0) {
        struct augmentation_box box = augmentation_erased_box(augmentation, dataset, epoch, index);

        box_blank(dataset, &box, row);
    }
}

int augmentation_gather(const struct augmentation *augmentation, const struct dataset *dataset,
                        const struct dataset_normalisation *normalisation, uint32_t epoch,
                        int64_t position, const uint32_t *indices, int64_t count, void *samples,
                        void *targets, void *scratch, struct error *error)
{
    const struct batch batch = {augmentation, dataset, indices, count};
    size_t row_bytes = dataset_sample_bytes(dataset);
    uint8_t *room = (uint8_t *)scratch + (augmentation_mixes(augmentation) ? row_bytes : 0);
    float share = 1;

    for (int64_t i = 0; i < count; i++) {
        const uint8_t *raw = gather_sample(dataset, indices[i], error);

        if (!raw)
            return -ERANGE;
        write_sample(&batch, normalisation, epoch, indices[i], raw, room,
                     (uint8_t *)samples + (size_t)i * row_bytes);
    }
    if (augmentation_cuts(augmentation, epoch, position)) {
        share = share_draw(augmentation, augmentation->cutmix_alpha, epoch, position);
        struct augmentation_box box =
            augmentation_cutmix_box(augmentation, dataset, epoch, position, &share);

        cut_rows(dataset, &box, samples, count, scratch);
    } else if (augmentation->mixup_alpha > 0) {
        share = augmentation_mixup_share(augmentation, epoch, position);
        mix_rows(samples, count, dataset->sample_elements, share, scratch);
    }
    write_targets(&batch, share, targets);
    return 0;
}
