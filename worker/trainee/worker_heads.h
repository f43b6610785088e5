/* worker_heads.h: models with several heads: their labels are checked, and their losses compared
 * with what guessing gives. */
#pragma once

#include "worker/trainee/worker_events.h"
#include "worker/trainee/worker_setup.h"

/* The heads of the specification, which belong to the setup. */
struct metric_heads worker_heads(const struct worker_setup *setup);

/* Fills the outputs of setup->model_data. -EINVAL with a sentence if the heads do not share out the
 * labels of a sample, or a label is none of its head's classes. */
int worker_heads_describe(struct worker_setup *setup, struct error *error);

/* Reports at the start the loss of each head that guessing gives: baseline_NAME_loss. */
int worker_heads_report_baselines(const struct worker_setup *setup,
                                  const struct training_events *callbacks, struct error *error);
/* Warns at the end of each head whose loss is not below that, by the test set or else the
 * validation set. */
int worker_heads_report_losses(const struct worker_setup *setup, struct worker_events *events,
                               const struct training_result *result, struct error *error);
