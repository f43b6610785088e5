/* job_spec_schema_train.c: the keys of a specification's `train`; see job_spec_schema.c. */
#include "proto/job_spec.h"
#include "proto/job_spec_schema_table.h"
#include "proto/optimizer_kinds.h"
#include "proto/schedule_kinds.h"

#define NAME(upper, lower, ...) #lower,
#define ROW(upper, lower, ...) VARIANT(#lower, 0, __VA_ARGS__),

static const struct job_spec_key group_keys[] = {
    {"match", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 64, .required = true,
     .help = "Shell patterns of parameter names, such as \"*.bias\" or \"features.*\"; the name "
             "of a module means all parameters below it"},
    {"lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "Their learning rate (when absent: the optimizer's); the schedule scales it, too"},
    {"lr_factor", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "Multiplies their learning rate, such as 0.1"},
    {"weight_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "Their weight decay (when absent: the optimizer's)"},
};
SECTION(group, NULL);

static const struct job_spec_key adamw_keys[] = {
    {"lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true, .fallback = "1e-3",
     .help = "Learning rate; the schedule scales it, too"},
    {"weight_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .fallback = "0.01",
     .help = "Pull of the weights to zero"},
    {"betas", JOB_SPEC_NUMBERS, .from = 0, .to = 1, .below_to = true, .count_minimum = 2,
     .count_maximum = 2, .fallback = "[0.9, 0.999]", .help = "Decay of the running averages"},
    {"eps", JOB_SPEC_NUMBER, .from = 0, .to = 1, .fallback = "1e-8",
     .help = "Added to the root of the second average"},
};
SECTION(adamw, NULL);

static const char *const optimizer_names[] = {OPTIMIZER_KINDS(NAME) NULL};
static const struct job_spec_variant optimizer_variants[] = {OPTIMIZER_KINDS(ROW) VARIANTS_END};
static const struct job_spec_key optimizer_keys[] = {
    {"name", JOB_SPEC_CHOICE, .choices = optimizer_names, .fallback = "\"adam\"",
     .help = "Rule that updates the weights, as in PyTorch"},
    {"lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true, .help = "Learning rate"},
    {"momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1,
     .help = "Share of the previous step that is kept"},
    {"nesterov", JOB_SPEC_BOOLEAN, .help = "Nesterov's momentum; needs momentum and no dampening"},
    {"dampening", JOB_SPEC_NUMBER, .from = 0, .to = 1,
     .help = "Share of the gradient left out of the momentum"},
    {"weight_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help =
         "Pull of the weights to zero; adamw, lion, muon and schedule_free_adamw keep it out of "
         "the gradient"},
    {"decoupled_weight_decay", JOB_SPEC_BOOLEAN,
     .help = "Whether the pull is kept out of the gradient, as in adamw"},
    {"weight_decay_on", JOB_SPEC_CHOICE, .choices = CHOICES("all", "weights"),
     .fallback = "\"all\"",
     .help = "Which parameters weight_decay pulls; weights: all except biases and normalisation's "
             "scale and shift"},
    {"betas", JOB_SPEC_NUMBERS, .from = 0, .to = 1, .below_to = true, .count_minimum = 2,
     .count_maximum = 2, .help = "Decay of the running averages"},
    {"eps", JOB_SPEC_NUMBER, .from = 0, .to = 1,
     .help = "Added to the root of the second average; adadelta: added under the root; adamax: to "
             "the size of the gradient; muon: the least norm of the direction"},
    {"alpha", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .help = "Decay of the squared gradients' average"},
    {"rho", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .help = "Decay of the averages of squared gradients and steps"},
    {"lr_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "Update t has the learning rate divided by 1 + (t - 1) lr_decay"},
    {"initial_accumulator_value", JOB_SPEC_NUMBER, .from = 0, .to = 1e30,
     .help = "Initial value of the sum of squared gradients"},
    {"momentum_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "How fast the momentum rises to the first number of betas"},
    {"ns_steps", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 20,
     .help = "Newton-Schulz iterations that orthogonalise the direction"},
    {"adjust_lr", JOB_SPEC_CHOICE, .choices = CHOICES("original", "match_rms_adamw"),
     .help = "Factor of lr for each matrix. original: the root of rows / columns, at least 1; "
             "match_rms_adamw: makes steps as large as AdamW's"},
    {"adamw", JOB_SPEC_OBJECT, .section = &adamw_section,
     .help =
         "AdamW for what muon does not update; muon updates the weights of linear layers except "
         "the last one"},
    {"layer_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true,
     .help =
         "Multiplies the learning rate once for each depth of the model that lies behind a layer, "
         "so that layers near the input change less; fine-tuning.md says what a depth is"},
    {"groups", JOB_SPEC_OBJECTS, .section = &group_section, .count_minimum = 1, .count_maximum = 64,
     .help =
         "Parameters with their own settings; a parameter belongs to the first group that matches"},
};
SECTION_VARIANTS(optimizer, "name");

static const char *const schedule_names[] = {SCHEDULE_KINDS(NAME) NULL};
static const struct job_spec_variant schedule_variants[] = {SCHEDULE_KINDS(ROW) VARIANTS_END};
static const struct job_spec_key schedule_keys[] = {
    {"name", JOB_SPEC_CHOICE, .choices = schedule_names, .fallback = "\"constant\"",
     .help = "How the learning rate changes after the warm-up, as in PyTorch"},
    {"warmup_steps", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000000, .fallback = "0",
     .unit = "steps", .help = "Steps over which the learning rate rises to its value"},
    {"warmup_epochs", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000, .fallback = "0",
     .unit = "epochs", .help = "Length of the warm-up in epochs, instead of warmup_steps"},
    {"min_lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .fallback = "0",
     .help = "Learning rate at the end of the run; plateau: the lowest that a cut gives; "
             "exponential: that of the first step, from which it grows to lr"},
    {"step_epochs", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .fallback = "10",
     .unit = "epochs", .help = "Epochs between two cuts"},
    {"milestones", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 32, .required = true, .unit = "epochs",
     .help = "Epochs, from the end of the warm-up, after which the learning rate is cut"},
    {"gamma", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .fallback = "0.1",
     .help = "Factor of the learning rate at each cut"},
    {"power", JOB_SPEC_NUMBER, .from = 0, .to = 100, .above_from = true, .fallback = "1",
     .help = "The learning rate falls as this power of the share of steps that is left"},
    {"pct_start", JOB_SPEC_NUMBER, .from = 0, .to = 1, .fallback = "0.3",
     .help = "Share of the steps over which the learning rate rises to lr"},
    {"div_factor", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true, .fallback = "25",
     .help = "The learning rate starts at lr divided by this number"},
    {"final_div_factor", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .fallback = "1e4", .help = "The learning rate ends at its start value divided by this number"},
    {"anneal", JOB_SPEC_CHOICE, .choices = CHOICES("cosine", "linear"), .fallback = "\"cosine\"",
     .help = "Shape of the rise and the fall"},
    {"cycle_momentum", JOB_SPEC_BOOLEAN,
     .help =
         "Whether momentum, or the first of betas, falls while the learning rate rises, and then "
         "rises again. When absent: yes, if the optimizer has one"},
    {"base_momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0.85",
     .help = "Momentum at the highest learning rate"},
    {"max_momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0.95",
     .help = "Momentum at the start and the end"},
    {"metric", JOB_SPEC_METRIC, .choices = METRICS, .fallback = "\"validation_loss\"",
     .help = "What has to improve"},
    {"factor", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .below_to = true,
     .fallback = "0.1", .help = "Factor of the learning rate at each cut"},
    {"patience", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000, .fallback = "10",
     .unit = "measurements",
     .help =
         "Number of evaluations in a row without improvement that cause no cut; the next one does"},
    {"threshold", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .fallback = "1e-4",
     .help = "A smaller improvement counts as none"},
    {"threshold_mode", JOB_SPEC_CHOICE, .choices = CHOICES("rel", "abs"), .fallback = "\"rel\"",
     .help = "rel: threshold is a share of the best value"},
    {"cooldown", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000, .fallback = "0",
     .unit = "measurements",
     .help = "Number of evaluations after a cut that do not count towards patience"},
};
SECTION_VARIANTS(schedule, "name");

static const struct job_spec_key ema_keys[] = {
    {"decay", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .below_to = true,
     .fallback = "0.999", .help = "Share of the old average that an update keeps"},
    {"warmup", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Whether update t keeps at most 1 - t^(-2/3) of the average, so that the initial "
             "weights lose influence soon"},
};
SECTION(ema, NULL);

static const struct job_spec_key early_stop_keys[] = {
    {"metric", JOB_SPEC_METRIC, .choices = METRICS, .fallback = "\"validation_loss\"",
     .help = "What has to improve"},
    {"patience", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .fallback = "10",
     .unit = "measurements",
     .help = "Number of evaluations in a row without improvement after which the training ends"},
    {"min_change", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .fallback = "0",
     .help = "A smaller improvement counts as none"},
};
SECTION(early_stop, NULL);

static const char *const metric_names[] = {METRIC_KINDS(NAME) NULL};
static const struct job_spec_key train_keys[] = {
    {"epochs", JOB_SPEC_INTEGER, .minimum = 1, .maximum = JOB_SPEC_EPOCHS_MAX, .fallback = "10",
     .unit = "epochs",
     .help = "Passes over the training set; with max_steps, the default is as many as its steps "
             "take"},
    {"max_steps", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000000000, .unit = "steps",
     .help = "Number of updates after which the training ends, if epochs does not end it earlier"},
    {"batch_size", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .choices = CHOICES("auto"),
     .fallback = "64", .unit = "samples",
     .help = "Samples in one forward and backward pass; auto: as many as fit into memory_limit"},
    {"drop_last", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Whether an epoch leaves out its last batch if that is shorter than the others; which "
             "samples it misses is drawn anew in each epoch"},
    {"sampling", JOB_SPEC_CHOICE, .choices = CHOICES("shuffled", "in_order", "balanced"),
     .fallback = "\"shuffled\"",
     .help = "The samples of an epoch: all in random order; all in the order of the data; or as "
             "many, drawn so that all classes occur equally often"},
    {"accumulate", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .fallback = "1",
     .unit = "batches", .help = "Batches whose gradients are averaged into one update"},
    {"label_smoothing", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0",
     .help = "Share of each training target that is spread over all classes, as in PyTorch"},
    {"class_weights", JOB_SPEC_WEIGHTS, .from = 0, .to = 1e6, .count_minimum = 2,
     .count_maximum = WIDTH_MAX,
     .help = "What each class counts in the loss of training, as in PyTorch's "
             "CrossEntropyLoss(weight=): a number for each class, or for labels by their names, "
             "others count 1; balanced: each class counts as much as any other in all. When "
             "absent: all samples count alike"},
    {"effective_batch_size", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .unit = "samples",
     .help = "Samples in one update. Sets accumulate to this number divided by batch_size, which "
             "must divide it; batch_size auto (then the default) is the largest divisor that fits"},
    {"recompute", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000,
     .choices = CHOICES("none", "selective", "full", "auto"), .fallback = "\"auto\"",
     .unit = "segments",
     .help =
         "Which activations are computed again for the gradients instead of being kept; the "
         "results are the same. selective: those of cheap operators; a number: all except those "
         "at the borders of this many segments of the model; full: those that give the least "
         "memory; auto: none if the batch fits, else those that cost the least work"},
    {"memory_limit", JOB_SPEC_BYTES, .minimum = 1048576, .maximum = INT64_C(1) << 50,
     .unit = "bytes",
     .help = "Memory that the training's process may use, also the limit for batch_size auto and "
             "recompute auto. When absent: the machine's memory"},
    {"seed", JOB_SPEC_INTEGER, .minimum = 0, .maximum = INT64_MAX, .fallback = "42",
     .help =
         "Seed of the initial weights, order of samples, validation split, dropout, augmentation "
         "and label noise"},
    {"optimizer", JOB_SPEC_OBJECT, .section = &optimizer_section, .fallback = "{}",
     .help = "How the weights are updated"},
    {"frozen", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 256,
     .help =
         "Shell patterns of parameters that are not trained, such as \"layer1.*\"; the name of a "
         "module means all parameters below it. A batch norm whose weight and bias are frozen "
         "uses its running statistics and keeps them"},
    {"schedule", JOB_SPEC_OBJECT, .section = &schedule_section, .fallback = "{}",
     .help = "How the learning rate changes"},
    {"evaluate_every", JOB_SPEC_INTERVAL, .counts_only = true, .fallback = "\"1 epoch\"",
     .help = "When the validation set is evaluated, such as \"2 epochs\" or \"500 steps\"; it is "
             "also evaluated at the end of the run"},
    {"metrics", JOB_SPEC_CHOICES, .choices = metric_names, .count_maximum = 64,
     .help = "What the validation and test sets are measured by, beside the loss and what follows "
             "from sums: accuracy, for values mse, for a text bits_per_character and perplexity. "
             "When absent: f1, mcc and auc of two classes; f1 and mcc of more, of the test set "
             "alone; mae of values. metrics.md defines them"},
    {"clip_norm", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .help = "Largest norm of all gradients together; larger gradients are scaled down to it"},
    {"clip_value", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .help = "Largest size of a single gradient, after clip_norm; larger ones are cut to it"},
    {"ema", JOB_SPEC_OBJECT, .section = &ema_section,
     .help = "Keeps a moving average of the weights and of batch norm's statistics; the average is "
             "evaluated and exported"},
    {"early_stop", JOB_SPEC_OBJECT, .section = &early_stop_section,
     .help = "Ends the training when a metric no longer improves"},
    {"precision", JOB_SPEC_CHOICE,
     .choices =
         CHOICES("auto", "float32", "tf32", "bfloat16", "float16", "pure_bfloat16", "pure_float16"),
     .fallback = "\"auto\"",
     .help =
         "Format of the numbers that linear layers and convolutions multiply; all else is "
         "float32. auto: float32, or for classification another format if a step was measured to "
         "be clearly faster in it; tf32 (NVIDIA GPUs, elsewhere float32): rounded to 10 bits; "
         "float16: also scales the loss; pure_: the weights, too, have no more bits than that, so "
         "small updates are lost and the model may end worse (CPU)"},
    {"quantization_aware", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "true: linear layers and convolutions learn with what `trainctl quantize` will round: "
             "weights and what the layers read are rounded to 8 bits and kept float32, by ranges "
             "that follow those of the batches; the gradient goes straight through. With "
             "precision float32, on the CPU; begin with trained weights (weights)"},
    {"deterministic", JOB_SPEC_BOOLEAN, .fallback = "true",
     .help = "true: two runs on one device give the same bits, also if one continues from a "
             "checkpoint; false: a GPU may use faster algorithms that add in any order"},
    {"profile", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000, .unit = "steps",
     .help = "Number of steps, after a warm-up, whose time is recorded in detail for `trainctl "
             "profile`; the results are the same bits"},
};
const struct job_spec_section job_spec_train_section = {
    train_keys, sizeof train_keys / sizeof *train_keys, NULL, NULL};
