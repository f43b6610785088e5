/* augmentation_images.c: see augmentation_images.h. The distributions are those of torchvision's
 * v2.RandomResizedCrop, RandAugment, ColorJitter, RandomRotation, RandomErasing and CutMix. */
#include "engine/data/augmentation_images.h"

#include "base/philox.h"
#include "engine/data/image_operations.h"

#include <math.h>
#include <string.h>

/* The purpose of a draw: the high half of its index. */
enum draw_purpose {
    DRAW_CROP, /* and those behind it: one for each try */
    DRAW_CROP_PLACE = DRAW_CROP + 10,
    DRAW_RAND_AUGMENT, /* one for each of two operations */
    DRAW_JITTER = DRAW_RAND_AUGMENT + 2,
    DRAW_JITTER_ORDER,
    DRAW_ROTATION,
    DRAW_ERASING,     /* whether */
    DRAW_ERASING_BOX, /* one for each try */
    DRAW_CUTMIX = DRAW_ERASING_BOX + 10
};

enum { TRIES = 10 };

/* The draws of one sample or batch. */
struct draws {
    const struct augmentation *augmentation;
    uint32_t epoch;
    int64_t place;
};

static struct philox draw(const struct draws *draws, uint64_t purpose)
{
    return philox_draw(draws->augmentation->seed, philox_stream(PHILOX_IMAGES, draws->epoch),
                       purpose << 32 | (uint32_t)draws->place);
}

/* Uniform between two numbers, from one word. */
static double between(uint32_t word, double from, double to)
{
    return from + (to - from) * ldexp((double)word, -32);
}

static int64_t below(uint32_t word, int64_t bound)
{
    return (int64_t)((uint64_t)word * (uint64_t)bound >> 32);
}

/* ---- what is asked for ---- */

static bool jitters(const struct augmentation *augmentation)
{
    return augmentation->brightness > 0 || augmentation->contrast > 0 ||
           augmentation->saturation > 0 || augmentation->hue > 0;
}

bool augmentation_changes_bytes(const struct augmentation *augmentation)
{
    return augmentation->crop_scale > 0 || augmentation->rand_augment > 0 ||
           jitters(augmentation) || augmentation->rotation > 0;
}

const char *augmentation_images_name(const struct augmentation *augmentation)
{
    return augmentation->crop_scale > 0     ? "random_resized_crop"
           : augmentation->rand_augment > 0 ? "rand_augment"
           : augmentation->brightness > 0   ? "brightness"
           : augmentation->contrast > 0     ? "contrast"
           : augmentation->saturation > 0   ? "saturation"
           : augmentation->hue > 0          ? "hue"
           : augmentation->rotation > 0     ? "rotation"
                                            : NULL;
}

size_t augmentation_images_scratch(const struct augmentation *augmentation,
                                   const struct dataset *dataset)
{
    if (!augmentation_changes_bytes(augmentation) || dataset->rank != 3)
        return 0;
    return (size_t)dataset->sample_elements +
           image_operation_scratch((int)dataset->shape[0], dataset->shape[1], dataset->shape[2]);
}

/* ---- random_resized_crop ---- */

/* Share crop_scale to 1 of the area, width to height 3/4 to 4/3 on a logarithmic scale. */
static void crop(const struct draws *draws, struct image_planes *image, uint8_t *scratch)
{
    const double least = log(3.0 / 4), most = log(4.0 / 3);
    const double ratio = (double)image->width / (double)image->height;
    int64_t height = image->height, width = image->width, top, left;
    struct philox words;

    for (int i = 0; i < TRIES; i++) {
        words = draw(draws, DRAW_CROP + (uint64_t)i);
        double area =
            (double)(height * width) * between(words.word[0], draws->augmentation->crop_scale, 1);
        double aspect = exp(between(words.word[1], least, most));
        int64_t tried_width = llrint(sqrt(area * aspect));
        int64_t tried_height = llrint(sqrt(area / aspect));

        if (tried_width > 0 && tried_width <= width && tried_height > 0 && tried_height <= height) {
            top = below(words.word[2], height - tried_height + 1);
            left = below(words.word[3], width - tried_width + 1);
            image_crop_resize(image, top, left, tried_height, tried_width, scratch);
            return;
        }
    }
    if (ratio < 3.0 / 4)
        height = llrint((double)width / (3.0 / 4));
    else if (ratio > 4.0 / 3)
        width = llrint((double)height * (4.0 / 3));
    top = (image->height - height) / 2;
    left = (image->width - width) / 2;
    image_crop_resize(image, top, left, height, width, scratch);
}

/* ---- rand_augment ---- */

enum { RAND_BINS = 30, RAND_OPERATIONS = 2 };
enum rand_operation {
    RAND_IDENTITY,
    RAND_SHEAR_X,
    RAND_SHEAR_Y,
    RAND_SHIFT_X,
    RAND_SHIFT_Y,
    RAND_ROTATE,
    RAND_BRIGHTNESS,
    RAND_SATURATION,
    RAND_CONTRAST,
    RAND_SHARPNESS,
    RAND_POSTERIZE,
    RAND_SOLARIZE,
    RAND_AUTOCONTRAST,
    RAND_EQUALIZE,
    RAND_KINDS
};

/* What v2.RandAugment(magnitude) does with the operation; `sign` is 1 or -1. */
static void rand_apply(struct image_planes *image, enum rand_operation operation, double magnitude,
                       double sign, uint8_t *scratch)
{
    double share = magnitude / RAND_BINS, shear = sign * 0.3 * share, change = sign * 0.9 * share;
    double across = trunc(sign * 150.0 / 331.0 * (double)image->width * share);
    double down = trunc(sign * 150.0 / 331.0 * (double)image->height * share);

    switch (operation) {
    case RAND_SHEAR_X:
        image_transform(image, (const double[]){1, shear, 0, 0, 1, 0}, scratch);
        break;
    case RAND_SHEAR_Y:
        image_transform(image, (const double[]){1, 0, 0, shear, 1, 0}, scratch);
        break;
    case RAND_SHIFT_X:
        image_transform(image, (const double[]){1, 0, -across, 0, 1, 0}, scratch);
        break;
    case RAND_SHIFT_Y:
        image_transform(image, (const double[]){1, 0, 0, 0, 1, -down}, scratch);
        break;
    case RAND_ROTATE:
        image_rotate(image, sign * 30 * share, scratch);
        break;
    case RAND_BRIGHTNESS:
        image_brightness(image, (float)(1 + change));
        break;
    case RAND_SATURATION:
        image_saturation(image, (float)(1 + change));
        break;
    case RAND_CONTRAST:
        image_contrast(image, (float)(1 + change));
        break;
    case RAND_SHARPNESS:
        image_sharpness(image, (float)(1 + change), scratch);
        break;
    case RAND_POSTERIZE:
        image_posterize(image, 8 - (int)lrint(magnitude / (RAND_BINS / 4.0)));
        break;
    case RAND_SOLARIZE:
        image_solarize(image, 255 * (1 - share));
        break;
    case RAND_AUTOCONTRAST:
        image_autocontrast(image);
        break;
    case RAND_EQUALIZE:
        image_equalize(image);
        break;
    default:
        break;
    }
}

static void rand_augment(const struct draws *draws, struct image_planes *image, uint8_t *scratch)
{
    for (int i = 0; i < RAND_OPERATIONS; i++) {
        struct philox words = draw(draws, DRAW_RAND_AUGMENT + (uint64_t)i);

        rand_apply(image, (enum rand_operation)below(words.word[0], RAND_KINDS),
                   draws->augmentation->rand_augment, words.word[1] >> 31 ? -1 : 1, scratch);
    }
}

/* ---- colours and rotation ---- */

/* The factors are drawn from 1 - x to 1 + x, not below 0; the order of the four is random. */
static void jitter(const struct draws *draws, struct image_planes *image)
{
    const struct augmentation *augmentation = draws->augmentation;
    const double strength[] = {augmentation->brightness, augmentation->contrast,
                               augmentation->saturation, augmentation->hue};
    struct philox words = draw(draws, DRAW_JITTER);
    int64_t order = below(draw(draws, DRAW_JITTER_ORDER).word[0], 24);
    int left[] = {0, 1, 2, 3};

    for (int count = 4; count > 0; count--) {
        int place = (int)(order % count), which = left[place];
        double x = strength[which];
        float factor = (float)between(words.word[which], x < 1 ? 1 - x : 0, 1 + x);

        order /= count;
        memmove(left + place, left + place + 1, (size_t)(3 - place) * sizeof *left);
        if (!(x > 0))
            continue;
        if (which == 0)
            image_brightness(image, factor);
        else if (which == 1)
            image_contrast(image, factor);
        else if (which == 2)
            image_saturation(image, factor);
        else
            image_hue(image, between(words.word[which], -x, x));
    }
}

const uint8_t *augmentation_change_bytes(const struct augmentation *augmentation,
                                         const struct dataset *dataset, uint32_t epoch,
                                         int64_t index, const uint8_t *raw, uint8_t *scratch)
{
    const struct draws draws = {augmentation, epoch, index};
    struct image_planes image = {scratch, (int)dataset->shape[0], dataset->shape[1],
                                 dataset->shape[2]};
    uint8_t *room = scratch + dataset->sample_elements;

    memcpy(scratch, raw, (size_t)dataset->sample_elements);
    if (augmentation->crop_scale > 0)
        crop(&draws, &image, room);
    if (augmentation->rand_augment > 0)
        rand_augment(&draws, &image, room);
    if (jitters(augmentation))
        jitter(&draws, &image);
    if (augmentation->rotation > 0)
        image_rotate(&image,
                     between(draw(&draws, DRAW_ROTATION).word[0], -augmentation->rotation,
                             augmentation->rotation),
                     room);
    return scratch;
}

/* ---- boxes ---- */

struct augmentation_box augmentation_erased_box(const struct augmentation *augmentation,
                                                const struct dataset *dataset, uint32_t epoch,
                                                int64_t index)
{
    const struct draws draws = {augmentation, epoch, index};
    const int64_t height = dataset->shape[1], width = dataset->shape[2];

    if (between(draw(&draws, DRAW_ERASING).word[0], 0, 1) >= augmentation->erasing)
        return (struct augmentation_box){0};
    for (int i = 0; i < TRIES; i++) {
        struct philox words = draw(&draws, DRAW_ERASING_BOX + (uint64_t)i);
        double area = (double)(height * width) * between(words.word[0], 0.02, 0.33);
        double aspect = exp(between(words.word[1], log(0.3), log(3.3)));
        int64_t tall = llrint(sqrt(area * aspect)), wide = llrint(sqrt(area / aspect));

        if (tall < height && wide < width) {
            int64_t top = below(words.word[2], height - tall + 1);
            int64_t left = below(words.word[3], width - wide + 1);

            return (struct augmentation_box){top, top + tall, left, left + wide};
        }
    }
    return (struct augmentation_box){0};
}

bool augmentation_cuts(const struct augmentation *augmentation, uint32_t epoch, int64_t position)
{
    const struct draws draws = {augmentation, epoch, position};

    return augmentation->cutmix_alpha > 0 &&
           (!(augmentation->mixup_alpha > 0) || draw(&draws, DRAW_CUTMIX).word[2] >> 31);
}

static int64_t clip(int64_t value, int64_t high)
{
    return value < 0 ? 0 : value > high ? high : value;
}

struct augmentation_box augmentation_cutmix_box(const struct augmentation *augmentation,
                                                const struct dataset *dataset, uint32_t epoch,
                                                int64_t position, float *share)
{
    const struct draws draws = {augmentation, epoch, position};
    const int64_t height = dataset->shape[1], width = dataset->shape[2];
    struct philox words = draw(&draws, DRAW_CUTMIX);
    int64_t x = below(words.word[0], width), y = below(words.word[1], height);
    double half = 0.5 * sqrt(1 - (double)*share);
    int64_t across = (int64_t)(half * (double)width), down = (int64_t)(half * (double)height);
    struct augmentation_box box = {clip(y - down, height), clip(y + down, height),
                                   clip(x - across, width), clip(x + across, width)};

    *share = (float)(1 - (double)((box.bottom - box.top) * (box.right - box.left)) /
                             (double)(height * width));
    return box;
}
