/* loop_checkpoint.c: writes the run's checkpoints, and removes old ones. */
#include "engine/train/loop_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static void delete_removed(const struct loop *loop, const struct training_checkpoint *written)
{
    for (int i = 0; i < written->removed_count; i++) {
        char path[PATH_MAX], name[CHECKPOINT_PATH_MAX];

        checkpoint_file_name(&written->removed[i], name);
        snprintf(path, sizeof path, "%s/%s", loop->training->config.checkpoint_directory, name);
        remove(path);
    }
}

/* Whether the weights are the best ones, of which there is a checkpoint. Within an accumulation
 * they are not: batch norm's statistics have changed. */
static bool holds_best(const struct loop *loop)
{
    const struct checkpoint_state *state = loop->state;

    return state->best.metric[0] && !isnan(state->best.best) &&
           state->best.best_step == state->step && state->micro_step == 0;
}

int loop_write_checkpoint(struct loop *loop, bool best, struct error *error)
{
    struct training *training = loop->training;
    char path[PATH_MAX], name[CHECKPOINT_PATH_MAX], digest[SAFETENSORS_DIGEST_SIZE];
    struct checkpoint_entry entry =
        checkpoint_folder_next(&training->folder, loop->state->step, best || holds_best(loop));
    struct training_checkpoint written = {.step = loop->state->step,
                                          .epoch = loop_epoch(loop),
                                          .file = name,
                                          .digest = digest,
                                          .best = entry.best,
                                          .values = &loop->result->values};
    int r = loop_read_sums(loop, error);

    if (r < 0 || !training->config.checkpoint_directory)
        return r;
    checkpoint_file_name(&entry, name);
    if (snprintf(path, sizeof path, "%s/%s", training->config.checkpoint_directory, name) >=
        (int)sizeof path)
        return error_set(error, -ENAMETOOLONG, "the checkpoint folder's path is too long");
    loop_mark(loop, false);
    profile_enter(training->profile, PROFILE_CHECKPOINT);
    r = checkpoint_write(training->session, loop->state, loop->texts,
                         training->best_weights.values ? &training->best_weights : NULL, path,
                         digest, &written.bytes, error);
    if (r < 0) {
        profile_enter(training->profile, PROFILE_OTHER);
        return r;
    }
    loop->checkpoint_step = loop->state->step;
    loop->checkpoint_epoch = loop->state->epoch;
    loop->pace.next_checkpoint = loop_mark(loop, false) + training->config.checkpoint_every_seconds;
    written.removed_count = checkpoint_folder_add(&training->folder, &entry, written.removed);
    r = entry.best ? loop_keep_best(loop, path, error) : 0;
    if (r == 0 && loop->events->checkpoint)
        r = loop->events->checkpoint(loop->events->context, &written, error);
    delete_removed(loop, &written);
    profile_enter(training->profile, PROFILE_OTHER);
    return r;
}

/* ---- the best weights ---- */

int loop_keep_best(struct loop *loop, const char *path, struct error *error)
{
    if (loop->best_file >= 0)
        close(loop->best_file);
    loop->best_file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (path && loop->best_file < 0)
        return error_set_errno(error, -errno, "cannot open the best checkpoint %s", path);
    return 0;
}

/* Whether the best weights are only in the copy that early stopping keeps. */
static bool best_is_early(const struct loop *loop)
{
    return loop->best_file < 0 && loop->training->best_weights.filled;
}

int64_t loop_best_step(const struct loop *loop)
{
    const struct tracker *best = best_is_early(loop) ? &loop->state->early : &loop->state->best;

    return best->metric[0] && !isnan(best->best) ? best->best_step : -1;
}

bool loop_has_better_weights(const struct loop *loop)
{
    int64_t step = loop_best_step(loop);

    return step >= 0 && step != loop->state->step &&
           (loop->best_file >= 0 || loop->training->best_weights.filled);
}

/* Restores the best weights from the open file, which may have lost its name. */
static int restore_from_file(struct loop *loop, struct error *error)
{
    struct checkpoint checkpoint;
    char path[64];
    int r;

    snprintf(path, sizeof path, "/proc/self/fd/%d", loop->best_file);
    r = checkpoint_open(path, &checkpoint, error);
    if (r < 0)
        return r;
    if (checkpoint.state.step == loop_best_step(loop))
        r = checkpoint_restore(&checkpoint, loop->training->session, false, NULL, error);
    else
        r = error_set(error, -EINVAL,
                      "the file of the best checkpoint is that of step %lld, not of step %lld",
                      (long long)checkpoint.state.step, (long long)loop_best_step(loop));
    checkpoint_close(&checkpoint);
    return r;
}

int loop_restore_best(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    int r;

    loop->restored = true;
    profile_enter(training->profile, PROFILE_CHECKPOINT);
    r = loop->best_file >= 0
            ? restore_from_file(loop, error)
            : weights_copy_restore(&training->best_weights, training->session, error);
    profile_enter(training->profile, PROFILE_OTHER);
    return r;
}
