/* class_balance.c: see class_balance.h. */
#include "engine/data/class_balance.h"

#include "base/cleanup.h"
#include "base/philox.h"
#include "engine/data/gather.h"
#include "engine/data/sampler.h"

#include <errno.h>
#include <stdlib.h>

static int classes_read(const struct dataset_view *view, int32_t *classes, int64_t *sizes,
                        struct error *error)
{
    for (int64_t i = 0; i < view->count; i++) {
        int64_t index = dataset_view_index(view, i);
        const uint8_t *raw = gather_sample(view->dataset, index, error);

        if (!raw)
            return error->code;
        classes[i] = gather_label(view->dataset, index, raw);
        sizes[classes[i]]++;
    }
    return 0;
}

/* `sizes` of all classes become the number of each among those that have samples. */
static void classes_number(struct class_balance *balance, int64_t *sizes, int32_t classes)
{
    for (int32_t class = 0; class < classes; class ++) {
        int64_t size = sizes[class];

        if (size == 0)
            continue;
        balance->first[balance->classes + 1] = balance->first[balance->classes] + size;
        sizes[class] = balance->classes++;
    }
}

int class_balance_create(const struct dataset_view *view, struct class_balance **balance,
                         struct error *error)
{
    int32_t limit = view->dataset->classes;
    AUTO_FREE int32_t *classes = calloc((size_t)view->count + 1, sizeof *classes);
    AUTO_FREE int64_t *numbers = calloc((size_t)limit + 1, sizeof *numbers);
    AUTO_FREE int64_t *filled = calloc((size_t)limit + 1, sizeof *filled);
    struct class_balance *made = calloc(1, sizeof *made);
    int r = -ENOMEM;

    if (made) {
        made->first = calloc((size_t)limit + 1, sizeof *made->first);
        made->places = calloc((size_t)view->count + 1, sizeof *made->places);
    }
    if (classes && numbers && filled && made && made->first && made->places)
        r = classes_read(view, classes, numbers, error);
    else
        error_set(error, -ENOMEM, "not enough memory to balance %lld samples",
                  (long long)view->count);
    if (r < 0) {
        class_balance_free(made);
        return r;
    }
    classes_number(made, numbers, limit);
    for (int64_t i = 0; i < view->count; i++) {
        int64_t number = numbers[classes[i]];

        made->places[made->first[number] + filled[number]++] = (uint32_t)i;
    }
    *balance = made;
    return 0;
}

void class_balance_free(struct class_balance *balance)
{
    if (!balance)
        return;
    free(balance->first);
    free(balance->places);
    free(balance);
}

size_t class_balance_bytes(const struct class_balance *balance, int64_t count)
{
    return sizeof *balance + ((size_t)balance->classes + 1) * sizeof *balance->first +
           (size_t)count * sizeof *balance->places;
}

void class_balance_draw(const struct class_balance *balance, uint64_t seed, uint32_t epoch,
                        uint32_t *order, int64_t count)
{
    uint64_t stream = philox_stream(PHILOX_BALANCE, epoch);

    for (int64_t i = 0; i < count; i++) {
        struct philox words = philox_draw(seed, stream, (uint64_t)i);
        uint32_t class = sampler_draw_below(words.word, (uint32_t)balance->classes);
        int64_t first = balance->first[class];
        uint32_t size = (uint32_t)(balance->first[class + 1] - first);

        order[i] = balance->places[first + sampler_draw_below(words.word + 2, size)];
    }
}

int32_t class_balance_unused(const struct dataset *dataset, int32_t *first)
{
    int32_t left = dataset->classes;
    AUTO_FREE bool *used = calloc((size_t)left + 1, sizeof *used);
    struct error ignored = {0};

    for (int64_t i = 0; used && left && i < dataset->count; i++) {
        const uint8_t *raw = gather_sample(dataset, i, &ignored);
        int32_t class = raw ? gather_label(dataset, i, raw) : 0;

        if (!raw)
            return 0;
        left -= !used[class];
        used[class] = true;
    }
    for (*first = 0; used && *first < dataset->classes && used[*first];)
        ++*first;
    return used ? left : 0;
}
