/* session_metrics.c: the sums of losses and of right answers that the programs of a session keep.
 * See session.h. */
#include "engine/train/session_internal.h"

void session_reset_metrics(struct session *session, bool training)
{
    for (int i = 0; i < session->program_count; i++) {
        if (session->programs[i].training == training)
            session->config.backend->program_reset_metrics(session->programs[i].program);
    }
}

void session_read_metrics(const struct session *session, bool training,
                          struct step_metrics *metrics)
{
    *metrics = (struct step_metrics){0};
    for (int i = 0; i < session->program_count; i++) {
        const struct session_program *program = &session->programs[i];
        struct step_metrics part;

        if (program->training != training)
            continue;
        session->config.backend->program_read_metrics(program->program, &part);
        metrics->loss_sum += part.loss_sum;
        metrics->samples += part.samples;
        metrics->labels += part.labels;
        metrics->correct += part.correct;
        if (part.nonfinite_step &&
            (!metrics->nonfinite_step || part.nonfinite_step < metrics->nonfinite_step))
            metrics->nonfinite_step = part.nonfinite_step;
        if (program == (training ? session->latest_training : session->latest_evaluation))
            metrics->last_loss = part.last_loss;
    }
}

/* The training programs are the first ones. */
static int training_program_count(const struct session *session)
{
    int count = 0;

    while (count < session->program_count && session->programs[count].training)
        count++;
    return count;
}

void session_read_losses(const struct session *session, struct session_losses *losses)
{
    *losses = (struct session_losses){
        .count = session->config.length_count ? training_program_count(session) : 0};
    for (int i = 0; i < losses->count; i++) {
        struct step_metrics part;

        session->config.backend->program_read_metrics(session->programs[i].program, &part);
        losses->sums[i] = part.loss_sum;
    }
}

void session_restore_metrics(struct session *session, const struct step_metrics *metrics,
                             const struct session_losses *losses)
{
    const struct backend *backend = session->config.backend;
    struct step_metrics first = *metrics;
    bool apart = losses->count && losses->count == training_program_count(session);

    session_reset_metrics(session, true);
    for (int i = 1; apart && i < losses->count; i++)
        backend->program_restore_metrics(session->programs[i].program,
                                         &(struct step_metrics){.loss_sum = losses->sums[i]});
    if (apart)
        first.loss_sum = losses->sums[0];
    backend->program_restore_metrics(session->programs[0].program, &first);
    session->latest_training = &session->programs[0]; /* the program whose last loss counts */
}
