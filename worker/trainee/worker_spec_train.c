/* worker_spec_train.c: see worker_spec_train.h. */
#include "worker/trainee/worker_spec_train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void optimizer_read(struct json_object *json, struct optimizer_config *to)
{
    struct json_object *betas = json_get(json, "betas");

    to->kind = (enum optimizer_kind)optimizer_kind_from_string(json_get_string(json, "name", ""));
    to->momentum = json_get_double(json, "momentum", 0);
    to->nesterov = json_get_bool(json, "nesterov", false);
    to->dampening = json_get_double(json, "dampening", 0);
    to->weight_decay = json_get_double(json, "weight_decay", 0);
    to->decoupled_weight_decay = json_get_bool(json, "decoupled_weight_decay", false);
    to->epsilon = json_get_double(json, "eps", 0);
    to->alpha = json_get_double(json, "alpha", json_get_double(json, "rho", 0));
    to->learning_rate_decay = json_get_double(json, "lr_decay", 0);
    to->initial_square_sum = json_get_double(json, "initial_accumulator_value", 0);
    to->iterations = (int)json_get_int(json, "ns_steps", 0);
    to->match_adamw =
        strcmp(json_get_string(json, "adjust_lr", "original"), "match_rms_adamw") == 0;
    to->momentum_decay = json_get_double(json, "momentum_decay", 0);
    if (betas) {
        to->beta1 = json_object_get_double(json_object_array_get_idx(betas, 0));
        to->beta2 = json_object_get_double(json_object_array_get_idx(betas, 1));
    }
}

/* The specification's rule for updates, before groups change it. */
struct rule {
    struct optimizer_config config;
    enum parameter_kinds kinds;
    double learning_rate;
    bool spares_vectors; /* only weights decay */
};

/* Adds the group to spec->groups with the rule's settings, or its own learning rate and weight
 * decay. If only weights decay, adds one group for weights and one for the rest. */
static void add_group(struct worker_spec *spec, const struct rule *rule, struct json_object *json,
                      const char *const *patterns, int pattern_count)
{
    struct training_config *config = &spec->training;
    double rate =
        json_get_double(json, "lr", rule->learning_rate) * json_get_double(json, "lr_factor", 1);
    struct optimizer_group group = {.config = rule->config,
                                    .kinds = rule->kinds,
                                    .patterns = patterns,
                                    .pattern_count = pattern_count,
                                    .learning_rate_scale = rate / config->schedule.learning_rate};

    group.config.weight_decay = json_get_double(json, "weight_decay", rule->config.weight_decay);
    if (rule->spares_vectors && !json_get(json, "weight_decay") && group.config.weight_decay != 0) {
        group.kinds = PARAMETERS_WEIGHTS;
        spec->groups[config->group_count++] = group;
        group.kinds = PARAMETERS_VECTORS;
        group.config.weight_decay = 0;
    }
    spec->groups[config->group_count++] = group;
}

/* Reads the rules of the optimizer. Muon has a second rule for the parameters that it does not
 * update. */
static int rules_read(const struct worker_spec *spec, struct json_object *optimizer,
                      struct rule rules[2])
{
    const struct training_config *config = &spec->training;
    struct json_object *adamw = json_get(optimizer, "adamw");
    bool spares = strcmp(json_get_string(optimizer, "weight_decay_on", ""), "weights") == 0;

    rules[0] =
        (struct rule){config->optimizer, PARAMETERS_ALL, config->schedule.learning_rate, spares};
    if (!adamw)
        return 1;
    rules[0].kinds = PARAMETERS_HIDDEN;
    rules[0].spares_vectors = false;
    rules[1] = (struct rule){{0}, PARAMETERS_ALL, json_get_double(adamw, "lr", 0), spares};
    optimizer_read(adamw, &rules[1].config);
    rules[1].config.kind = OPTIMIZER_ADAMW;
    return 2;
}

/* Adds train.optimizer.groups in their order, then a group for all other parameters. */
static int groups_read(struct worker_spec *spec, struct json_object *optimizer, struct error *error)
{
    struct json_object *groups = json_get(optimizer, "groups");
    size_t count = groups ? json_object_array_length(groups) : 0, patterns = 0;
    struct rule rules[2];
    int rule_count = rules_read(spec, optimizer, rules);

    for (size_t i = 0; i < count; i++)
        patterns +=
            json_object_array_length(json_get(json_object_array_get_idx(groups, i), "match"));
    spec->groups = calloc(4 * (count + 1), sizeof *spec->groups);
    spec->patterns = calloc(patterns + 1, sizeof *spec->patterns);
    if (!spec->groups || !spec->patterns)
        return error_set_errno(error, -ENOMEM, "cannot read the optimizer's groups");
    spec->training.groups = spec->groups;
    patterns = 0;
    for (size_t i = 0; i < count; i++) {
        struct json_object *json = json_object_array_get_idx(groups, i);
        struct json_object *match = json_get(json, "match");
        const char **names = spec->patterns + patterns;
        int length = (int)json_object_array_length(match);

        for (int k = 0; k < length; k++)
            names[k] = json_object_get_string(json_object_array_get_idx(match, (size_t)k));
        for (int r = 0; r < rule_count; r++)
            add_group(spec, &rules[r], json, names, length);
        patterns += (size_t)length;
    }
    for (int r = 0; r < rule_count; r++)
        add_group(spec, &rules[r], NULL, NULL, 0);
    return 0;
}

/* Whether the optimizer has a momentum or betas that cycle_momentum can change. */
static bool has_momentum(const struct optimizer_config *optimizer)
{
    return optimizer->momentum != 0 || optimizer->beta1 != 0;
}

static void schedule_read(struct json_object *json, double learning_rate,
                          struct training_config *config)
{
    struct json_object *milestones = json_get(json, "milestones");
    struct schedule_config *to = &config->schedule;

    *to = (struct schedule_config){
        .kind = (enum schedule_kind)schedule_kind_from_string(json_get_string(json, "name", "")),
        .learning_rate = learning_rate,
        .warmup_steps = json_get_int(json, "warmup_steps", 0),
        .minimum = json_get_double(json, "min_lr", 0),
        .factor = json_get_double(json, "gamma", 1),
        .power = json_get_double(json, "power", 1),
        .rise = json_get_double(json, "pct_start", 0),
        .start_divisor = json_get_double(json, "div_factor", 1),
        .end_divisor = json_get_double(json, "final_div_factor", 1),
        .anneals_linearly = strcmp(json_get_string(json, "anneal", "cosine"), "linear") == 0,
        .lowest_momentum = json_get_double(json, "base_momentum", 0),
        .highest_momentum = json_get_double(json, "max_momentum", 0),
        .plateau = {.metric = json_get_string(json, "metric", NULL),
                    .factor = json_get_double(json, "factor", 1),
                    .patience = json_get_int(json, "patience", 0),
                    .threshold = json_get_double(json, "threshold", 0),
                    .relative = strcmp(json_get_string(json, "threshold_mode", ""), "rel") == 0,
                    .cooldown = json_get_int(json, "cooldown", 0),
                    .minimum = json_get_double(json, "min_lr", 0)}};
    to->milestone_count = milestones ? (int)json_object_array_length(milestones) : 0;
    for (int i = 0; i < to->milestone_count; i++)
        to->milestones[i] = json_object_get_int64(json_object_array_get_idx(milestones, (size_t)i));
    to->cycle_momentum = schedule_moves_momentum(to->kind) &&
                         json_get_bool(json, "cycle_momentum", has_momentum(&config->optimizer));
    config->milestones_are_epochs = true;
    config->schedule_every_epochs = json_get_int(json, "step_epochs", 0);
    config->schedule_warmup_epochs = json_get_int(json, "warmup_epochs", 0);
}

void worker_spec_read_recompute(struct json_object *recompute, struct worker_spec *spec)
{
    const char *word =
        json_object_is_type(recompute, json_type_string) ? json_object_get_string(recompute) : NULL;
    struct recompute_config *config = &spec->training.recompute;

    spec->recompute = RECOMPUTE_WISH_GIVEN;
    *config = (struct recompute_config){0};
    if (!word) {
        config->kind = RECOMPUTE_SEGMENTS;
        config->segments = json_object_get_int(recompute);
    } else if (strcmp(word, "auto") == 0) {
        spec->recompute = RECOMPUTE_WISH_AUTO;
    } else if (strcmp(word, "full") == 0) {
        spec->recompute = RECOMPUTE_WISH_FULL;
    } else {
        config->kind = (enum recompute_kind)recompute_kind_from_string(word);
    }
}

static void metrics_read(struct json_object *metrics, struct training_config *config)
{
    config->metrics_given = metrics != NULL;
    for (size_t i = 0; metrics && i < json_object_array_length(metrics); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(metrics, i));

        config->metrics |= metric_bit((enum metric_kind)metric_kind_from_string(name));
    }
}

int worker_spec_read_train(struct worker_spec *spec, struct error *error)
{
    struct json_object *train = json_get(spec->normalised, "train");
    struct json_object *optimizer = json_get(train, "optimizer");
    struct json_object *early = json_get(train, "early_stop");
    const char *sampling = json_get_string(train, "sampling", "shuffled");
    struct json_object *frozen = json_get(train, "frozen");
    struct training_config *config = &spec->training;

    config->epochs = json_get_int(train, "epochs", 0);
    config->steps = json_get_int(train, "max_steps", 0);
    config->batch = json_get_int(train, "batch_size", 0);
    config->evaluation_batch = config->batch;
    spec->batch_is_auto = config->batch == 0;
    config->accumulate = json_get_int(train, "accumulate", 1);
    spec->effective_batch = json_get_int(train, "effective_batch_size", 0);
    spec->memory_limit = (uint64_t)json_get_int(train, "memory_limit", 0);
    worker_spec_read_recompute(json_get(train, "recompute"), spec);
    config->shuffle = strcmp(sampling, "in_order") != 0;
    spec->is_balanced = strcmp(sampling, "balanced") == 0;
    config->drop_last = json_get_bool(train, "drop_last", false);
    config->seed = (uint64_t)json_get_int(train, "seed", 0);
    config->profile_steps = json_get_int(train, "profile", 0);
    config->nondeterministic = !json_get_bool(train, "deterministic", true);
    spec->precision = json_get_string(train, "precision", "auto");
    if (strncmp(spec->precision, "pure_", 5) == 0) {
        config->rounds_parameters = true;
        spec->precision += 5;
    }
    spec->quantization_aware = json_get_bool(train, "quantization_aware", false);
    if (spec->quantization_aware)
        spec->precision = "float32";
    config->clip_norm = json_get_double(train, "clip_norm", 0);
    config->clip_value = json_get_double(train, "clip_value", 0);
    optimizer_read(optimizer, &config->optimizer);
    config->layer_decay = json_get_double(optimizer, "layer_decay", 0);
    spec->frozen = worker_spec_texts(frozen, &spec->frozen_count);
    if (frozen && !spec->frozen)
        return error_no_memory(error, "the patterns of train.frozen");
    config->evaluate_every_epochs = json_get_int(json_get(train, "evaluate_every"), "epochs", 0);
    config->evaluate_every_steps = json_get_int(json_get(train, "evaluate_every"), "steps", 0);
    metrics_read(json_get(train, "metrics"), config);
    schedule_read(json_get(train, "schedule"), json_get_double(optimizer, "lr", 0), config);
    if (json_get(train, "ema")) {
        config->average_decay = json_get_double(json_get(train, "ema"), "decay", 0);
        config->average_warmup = json_get_bool(json_get(train, "ema"), "warmup", false);
    }
    if (early) {
        config->early_metric = json_get_string(early, "metric", NULL);
        config->early_patience = json_get_int(early, "patience", 0);
        config->early_minimum_change = json_get_double(early, "min_change", 0);
        config->restore_best = true;
    }
    return groups_read(spec, optimizer, error);
}
