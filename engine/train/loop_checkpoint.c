/* loop_checkpoint.c: writes the run's checkpoints and keeps their number. */
#include "engine/train/loop_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

static void delete_removed(const struct loop *loop, const struct training_checkpoint *written)
{
    for (int i = 0; i < written->removed_count; i++) {
        char path[PATH_MAX], name[CHECKPOINT_PATH_MAX];

        checkpoint_file_name(written->removed[i], name);
        snprintf(path, sizeof path, "%s/%s", loop->training->config.checkpoint_directory, name);
        remove(path);
    }
}

int loop_write_checkpoint(struct loop *loop, bool best, struct error *error)
{
    struct training *training = loop->training;
    char path[PATH_MAX], name[CHECKPOINT_PATH_MAX], digest[SAFETENSORS_DIGEST_SIZE];
    struct training_checkpoint written = {.step = loop->state->step,
                                          .epoch = loop_epoch(loop),
                                          .file = name,
                                          .digest = digest,
                                          .best = best,
                                          .values = &loop->result->values};
    int r = loop_read_sums(loop, error);

    if (r < 0 || !training->config.checkpoint_directory)
        return r;
    checkpoint_file_name(loop->state->step, name);
    if (snprintf(path, sizeof path, "%s/%s", training->config.checkpoint_directory, name) >=
        (int)sizeof path)
        return error_set(error, -ENAMETOOLONG, "the checkpoint folder's path is too long");
    loop_mark(loop, false);
    profile_enter(training->profile, PROFILE_CHECKPOINT);
    r = checkpoint_write(training->session, loop->state, loop->texts,
                         training->best_weights.values ? &training->best_weights : NULL, path,
                         digest, &written.bytes, error);
    profile_enter(training->profile, PROFILE_OTHER);
    if (r < 0)
        return r;
    loop->checkpoint_step = loop->state->step;
    loop->checkpoint_epoch = loop->state->epoch;
    loop->pace.next_checkpoint = loop_mark(loop, false) + training->config.checkpoint_every_seconds;
    written.removed_count =
        checkpoint_folder_add(&training->folder, written.step, best, written.removed);
    r = loop->events->checkpoint ? loop->events->checkpoint(loop->events->context, &written, error)
                                 : 0;
    delete_removed(loop, &written);
    return r;
}
