/* checkpoint.c: see checkpoint.h. */
#include "engine/train/checkpoint.h"

#include "base/cleanup.h"
#include "engine/train/checkpoint_metadata.h"
#include "engine/train/weight_layouts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = GRAPH_NAME_MAX + 16 };

/* ---- the best weights in host memory ---- */

int weights_copy_init(struct weights_copy *copy, const struct session *session, struct error *error)
{
    struct session_tensor tensor;

    *copy = (struct weights_copy){0};
    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
        copy->bytes += tensor.evaluated ? tensor.bytes : 0;
    copy->values = malloc(copy->bytes + 1);
    return copy->values ? 0
                        : error_set_errno(error, -ENOMEM, "cannot hold a copy of the best weights");
}

void weights_copy_release(struct weights_copy *copy)
{
    free(TAKE_POINTER(copy->values));
}

int weights_copy_save(struct weights_copy *copy, struct session *session, struct error *error)
{
    struct session_tensor tensor;
    uint8_t *to = (uint8_t *)copy->values;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        int r = tensor.evaluated ? session_read(session, i, to, error) : 0;

        if (r < 0)
            return r;
        to += tensor.evaluated ? tensor.bytes : 0;
    }
    copy->filled = true;
    return 0;
}

int weights_copy_restore(const struct weights_copy *copy, struct session *session,
                         struct error *error)
{
    struct session_tensor tensor;
    const uint8_t *from = (const uint8_t *)copy->values;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        int r = tensor.evaluated ? session_write(session, i, from, error) : 0;

        if (r < 0)
            return r;
        from += tensor.evaluated ? tensor.bytes : 0;
    }
    return 0;
}

/* ---- writing ---- */

static const char average_prefix[] = "ema.";

/* Writes the name under which the tensor is stored. */
static void stored_name(const struct session_tensor *tensor, const char *prefix,
                        char name[NAME_MAX_BYTES])
{
    snprintf(name, NAME_MAX_BYTES, "%s%s", prefix, tensor->name);
}

static const char *prefix_of(enum tensor_role role)
{
    switch (role) {
    case TENSOR_OPTIMIZER:
        return "optimizer.";
    case TENSOR_GRADIENT:
        return "gradient.";
    case TENSOR_AVERAGE:
        return average_prefix;
    case TENSOR_STATE:
        return "state.";
    default:
        return "";
    }
}

/* The tensors of a checkpoint file, in order. `index` is the session's; `best` marks the copy of
 * the best weights. */
struct checkpoint_layout {
    struct safetensors_tensor *tensors;
    char (*names)[NAME_MAX_BYTES];
    int *index;
    int count, session_count;
};

static void layout_release(struct checkpoint_layout *layout)
{
    free(layout->tensors);
    free(layout->names);
    free(layout->index);
}

static void layout_add(struct checkpoint_layout *layout, const struct session_tensor *tensor,
                       const char *prefix, int index)
{
    struct safetensors_tensor *to = &layout->tensors[layout->count];

    stored_name(tensor, prefix, layout->names[layout->count]);
    *to = (struct safetensors_tensor){.name = layout->names[layout->count],
                                      .type = tensor->type == TENSOR_INT32  ? SAFETENSORS_INT32
                                              : tensor->type == TENSOR_INT8 ? SAFETENSORS_INT8
                                                                            : SAFETENSORS_FLOAT32,
                                      .rank = tensor->shape.rank};
    memcpy(to->shape, tensor->shape.extent, (size_t)to->rank * sizeof *to->shape);
    layout->index[layout->count++] = index;
}

static int layout_make(struct checkpoint_layout *layout, const struct session *session,
                       bool gradients, bool best, struct error *error)
{
    struct session_tensor tensor;
    int count = 0;

    *layout = (struct checkpoint_layout){0};
    while (session_tensor(session, count, &tensor) == 0)
        count++;
    layout->tensors = calloc(2 * (size_t)count + 1, sizeof *layout->tensors);
    layout->names = calloc(2 * (size_t)count + 1, sizeof *layout->names);
    layout->index = calloc(2 * (size_t)count + 1, sizeof *layout->index);
    if (!layout->tensors || !layout->names || !layout->index)
        return error_set_errno(error, -ENOMEM, "cannot list the checkpoint's tensors");
    /* numbers of one byte come last, so that all are aligned */
    for (int last = 0; last < 2; last++)
        for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
            if ((tensor.type == TENSOR_INT8) == last &&
                (tensor.role != TENSOR_GRADIENT || gradients))
                layout_add(layout, &tensor, prefix_of(tensor.role), i);
    layout->session_count = layout->count;
    for (int i = 0; best && session_tensor(session, i, &tensor) == 0; i++)
        if (tensor.evaluated)
            layout_add(layout, &tensor, "best.", i);
    return 0;
}

static int write_tensors(struct safetensors_writer *writer, struct session *session,
                         const struct checkpoint_layout *layout, const struct weights_copy *best,
                         struct error *error)
{
    void *buffer = session_scratch(session);
    const uint8_t *copied = best ? (const uint8_t *)best->values : NULL;

    for (int i = 0; i < layout->count; i++) {
        const void *data = buffer;
        int r = 0;

        if (i < layout->session_count) {
            r = session_read(session, layout->index[i], buffer, error);
        } else {
            data = copied;
            copied += layout->tensors[i].bytes;
        }
        if (r == 0)
            r = safetensors_writer_add(writer, data, layout->tensors[i].bytes, error);
        if (r < 0)
            return r;
    }
    return 0;
}

int checkpoint_write(struct session *session, const struct checkpoint_state *state,
                     const struct checkpoint_texts *texts, const struct weights_copy *best,
                     const char *path, char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *bytes,
                     struct error *error)
{
    struct checkpoint_metadata metadata;
    struct checkpoint_layout layout;
    struct safetensors_writer *writer = NULL;
    int r;

    if (best && !best->filled)
        best = NULL;
    checkpoint_metadata_format(state, texts, &metadata);
    r = layout_make(&layout, session, state->micro_step > 0, best != NULL, error);
    if (r == 0)
        r = safetensors_writer_open(path, metadata.pairs, metadata.count, layout.tensors,
                                    layout.count, &writer, error);
    if (r == 0)
        r = write_tensors(writer, session, &layout, best, error);
    if (r == 0)
        r = safetensors_writer_finish(TAKE_POINTER(writer), digest, bytes, error);
    safetensors_writer_abort(writer);
    layout_release(&layout);
    return r;
}

/* ---- reading ---- */

static int open_file(const char *path, bool exports, struct checkpoint *checkpoint,
                     struct error *error)
{
    int r;

    *checkpoint = (struct checkpoint){0};
    r = safetensors_open(path, &checkpoint->file, error);
    if (r < 0)
        return r;
    r = exports && checkpoint_metadata_is_export(&checkpoint->file)
            ? checkpoint_metadata_parse_export(&checkpoint->file, &checkpoint->state,
                                               &checkpoint->texts, error)
            : checkpoint_metadata_parse(&checkpoint->file, &checkpoint->state, &checkpoint->texts,
                                        error);
    if (r == 0 && exports && checkpoint->texts.layouts)
        r = weight_layouts_gather(checkpoint->texts.layouts, "", &checkpoint->file, error);
    if (r < 0) {
        error_prefix(error, "%s", path);
        checkpoint_close(checkpoint);
    }
    return r;
}

int checkpoint_open(const char *path, struct checkpoint *checkpoint, struct error *error)
{
    return open_file(path, false, checkpoint, error);
}

int checkpoint_open_model(const char *path, struct checkpoint *checkpoint, struct error *error)
{
    return open_file(path, true, checkpoint, error);
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    safetensors_close(&checkpoint->file);
}

/* Moving averages of conv1d were once stored with the extent of 1 that the graph computes with. */
static struct graph_shape without_ones(struct graph_shape shape)
{
    struct graph_shape kept = {0};

    for (int i = 0; i < shape.rank; i++)
        if (shape.extent[i] != 1)
            kept.extent[kept.rank++] = shape.extent[i];
    return kept;
}

static bool has_shape(const char *name, const struct graph_shape *stored,
                      const struct graph_shape *expected)
{
    struct graph_shape one, other;

    if (strncmp(name, average_prefix, strlen(average_prefix)) != 0)
        return graph_shape_equal(stored, expected);
    one = without_ones(*stored);
    other = without_ones(*expected);
    return graph_shape_equal(&one, &other);
}

/* Finds one tensor, and checks its type and shape. */
static int find_tensor(const struct checkpoint *checkpoint, const struct session_tensor *tensor,
                       const char *prefix, const struct safetensors_tensor **found,
                       struct error *error)
{
    char name[NAME_MAX_BYTES], expected[128], stored[128];
    struct graph_shape shape = {0};

    stored_name(tensor, prefix, name);
    *found = safetensors_find(&checkpoint->file, name);
    if (!*found)
        return error_set(
            error, -EINVAL,
            "the checkpoint has no tensor %s: it belongs to another model or optimizer", name);
    if ((*found)->rank <= GRAPH_RANK_MAX) {
        shape.rank = (*found)->rank;
        memcpy(shape.extent, (*found)->shape, (size_t)shape.rank * sizeof *shape.extent);
    }
    if (!has_shape(name, &shape, &tensor->shape) || (*found)->bytes != tensor->bytes)
        return error_set(error, -EINVAL,
                         "tensor %s is %s in the checkpoint, but %s in the model: it belongs to "
                         "another model",
                         name, graph_shape_format(&shape, stored, sizeof stored),
                         graph_shape_format(&tensor->shape, expected, sizeof expected));
    return 0;
}

/* Numbers of the file; of a constant the model's own, because some index memory. */
static void read_numbers(const struct checkpoint *checkpoint,
                         const struct safetensors_tensor *found, const struct session *session,
                         int index, void *values)
{
    struct session_tensor tensor;

    if (session_tensor(session, index, &tensor) == 0 && tensor.constant)
        session_draw_constant(session, index, values);
    else
        safetensors_read(&checkpoint->file, found, values);
}

static int restore_best(const struct checkpoint *checkpoint, struct session *session,
                        struct weights_copy *best, struct error *error)
{
    struct session_tensor tensor;
    uint8_t *to = (uint8_t *)best->values;
    const struct safetensors_tensor *found;

    best->filled = false;
    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        int r;

        if (!tensor.evaluated)
            continue;
        r = find_tensor(checkpoint, &tensor, "best.", &found, error);
        if (r < 0)
            return r;
        read_numbers(checkpoint, found, session, i, to);
        to += tensor.bytes;
    }
    best->filled = true;
    return 0;
}

static bool has_averages(const struct checkpoint *checkpoint)
{
    for (int i = 0; i < checkpoint->file.tensor_count; i++)
        if (strncmp(checkpoint->file.tensors[i].name, average_prefix, strlen(average_prefix)) == 0)
            return true;
    return false;
}

int checkpoint_restore(const struct checkpoint *checkpoint, struct session *session, bool training,
                       struct weights_copy *best, struct error *error)
{
    struct session_tensor tensor;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        const struct safetensors_tensor *found;
        int r;

        if (!training && !tensor.evaluated)
            continue; /* such a run with moving averages stores the weights themselves */
        if (tensor.role == TENSOR_GRADIENT && checkpoint->state.micro_step == 0)
            continue;
        r = find_tensor(checkpoint, &tensor,
                        !training && has_averages(checkpoint) ? average_prefix
                                                              : prefix_of(tensor.role),
                        &found, error);
        if (r < 0)
            return r;
        /* piece by piece, because pages of the file would count on top of the run's own memory */
        read_numbers(checkpoint, found, session, i, session_scratch(session));
        r = session_write(session, i, session_scratch(session), error);
        if (r < 0)
            return r;
    }
    if (training && best && !isnan(checkpoint->state.early.best))
        return restore_best(checkpoint, session, best, error);
    return 0;
}

int checkpoint_read_weight(const struct checkpoint *checkpoint, const struct session_tensor *tensor,
                           float *values, struct error *error)
{
    const struct safetensors_tensor *found;
    struct session_tensor wanted = *tensor;
    int r;

    wanted.type = TENSOR_FLOAT32;
    wanted.bytes = (size_t)graph_shape_elements(&tensor->shape) * sizeof(float);
    r = find_tensor(checkpoint, &wanted, has_averages(checkpoint) ? average_prefix : "", &found,
                    error);
    if (r == 0)
        safetensors_read(&checkpoint->file, found, values);
    return r;
}

static bool is_training_state(const char *name)
{
    static const char *const prefixes[] = {"optimizer.", "gradient.",    "best.",
                                           "state.",     average_prefix, GRAPH_RANGE_PREFIX};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

/* The tensor to export under the weight's name: its average, if there is one and it is wanted. */
static struct safetensors_tensor exported(const struct safetensors *file,
                                          const struct safetensors_tensor *weight,
                                          enum checkpoint_weights weights)
{
    char name[NAME_MAX_BYTES];
    const struct safetensors_tensor *average;
    struct safetensors_tensor tensor = *weight;

    snprintf(name, sizeof name, "%s%s", average_prefix, weight->name);
    average = weights == CHECKPOINT_EVALUATED ? safetensors_find(file, name) : NULL;
    if (average)
        tensor.data = average->data;
    return tensor;
}

int checkpoint_export(const char *path, const char *output, enum checkpoint_weights weights,
                      char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *bytes, struct error *error)
{
    struct checkpoint checkpoint;
    struct safetensors_writer *writer = NULL;
    struct safetensors_pair pairs[CHECKPOINT_EXPORT_PAIRS];
    struct safetensors_tensor *tensors;
    int count = 0, pair_count, r = checkpoint_open(path, &checkpoint, error);

    if (r < 0)
        return r;
    tensors = calloc((size_t)checkpoint.file.tensor_count + 1, sizeof *tensors);
    if (!tensors) {
        checkpoint_close(&checkpoint);
        return error_set_errno(error, -ENOMEM, "cannot list the tensors of %s", path);
    }
    for (int i = 0; i < checkpoint.file.tensor_count; i++) {
        if (!is_training_state(checkpoint.file.tensors[i].name))
            tensors[count++] = exported(&checkpoint.file, &checkpoint.file.tensors[i], weights);
    }
    if (checkpoint.texts.layouts)
        r = weight_layouts_scatter(checkpoint.texts.layouts, &tensors, &count, error);
    pair_count = checkpoint_metadata_export(&checkpoint.file, pairs);
    if (r == 0)
        r = safetensors_writer_open(output, pairs, pair_count, tensors, count, &writer, error);
    for (int i = 0; r == 0 && i < count; i++)
        r = safetensors_writer_add(writer, tensors[i].data, tensors[i].bytes, error);
    if (r == 0)
        r = safetensors_writer_finish(TAKE_POINTER(writer), digest, bytes, error);
    safetensors_writer_abort(writer);
    weight_layouts_free(tensors, count);
    checkpoint_close(&checkpoint);
    return r;
}

/* ---- retention ---- */

int checkpoint_folder_init(struct checkpoint_folder *folder, int keep, struct error *error)
{
    *folder = (struct checkpoint_folder){.keep = keep < 1 ? 1 : keep};
    folder->entries = calloc((size_t)folder->keep + 2, sizeof *folder->entries);
    return folder->entries ? 0
                           : error_set_errno(error, -ENOMEM, "cannot keep track of checkpoints");
}

void checkpoint_folder_release(struct checkpoint_folder *folder)
{
    free(TAKE_POINTER(folder->entries));
}

void checkpoint_file_name(const struct checkpoint_entry *entry, char name[CHECKPOINT_PATH_MAX])
{
    if (entry->number > 1)
        snprintf(name, CHECKPOINT_PATH_MAX, "step-%lld-%d.safetensors", (long long)entry->step,
                 entry->number);
    else
        snprintf(name, CHECKPOINT_PATH_MAX, "step-%lld.safetensors", (long long)entry->step);
}

struct checkpoint_entry checkpoint_folder_next(const struct checkpoint_folder *folder, int64_t step,
                                               bool best)
{
    struct checkpoint_entry next = {.step = step, .number = 1, .best = best};

    for (int i = 0; i < folder->count; i++) /* the latest checkpoint is always among them */
        if (folder->entries[i].step == step && folder->entries[i].number >= next.number)
            next.number = folder->entries[i].number + 1;
    return next;
}

static void folder_drop(struct checkpoint_folder *folder, int index)
{
    folder->count--;
    memmove(&folder->entries[index], &folder->entries[index + 1],
            (size_t)(folder->count - index) * sizeof *folder->entries);
}

int checkpoint_folder_add(struct checkpoint_folder *folder, const struct checkpoint_entry *written,
                          struct checkpoint_entry removed[CHECKPOINT_REMOVED_MAX])
{
    int count = 0;

    for (int i = 0; i < folder->count; i++) {
        struct checkpoint_entry *entry = &folder->entries[i];
        bool again = entry->step == written->step;

        if (again && (written->best || !entry->best)) {
            removed[count++] = *entry;
            folder_drop(folder, i--);
        } else if (written->best) {
            entry->best = false;
        }
    }
    folder->entries[folder->count++] = *written;
    for (int i = 0; i < folder->count - folder->keep;) {
        if (folder->entries[i].best) {
            i++;
            continue;
        }
        removed[count++] = folder->entries[i];
        folder_drop(folder, i);
    }
    return count;
}
