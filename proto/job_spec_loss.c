/* job_spec_loss.c: rules on the loss of a job specification's model, and on its heads, which have
 * losses of their own; see job_spec_value.h. */
#include "proto/job_spec_value.h"

#include <stdio.h>
#include <string.h>

bool job_spec_loss_is_of_values(struct json_object *model)
{
    static const char *const names[] = {"mse",
                                        "mae",
                                        "huber",
                                        "smooth_l1",
                                        "quantile",
                                        "cosine",
                                        "binary_cross_entropy",
                                        "soft_cross_entropy"};
    const char *loss = json_get_string(model, "loss", "");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(loss, names[i]) == 0)
            return true;
    return false;
}

/* Each quantile names a column of the predictions. */
static int check_quantiles(struct job_spec_check *check, struct json_object *quantiles)
{
    size_t count = quantiles ? json_object_array_length(quantiles) : 0;

    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            double quantile = json_object_get_double(json_object_array_get_idx(quantiles, i));

            if (quantile != json_object_get_double(json_object_array_get_idx(quantiles, k)))
                continue;
            job_spec_path_push(check, "", "model.quantiles");
            return job_spec_fail(check, NULL, "model.quantiles has %g twice; leave one out",
                                 quantile);
        }
    return 0;
}

int job_spec_loss_check_keys(struct job_spec_check *check, struct json_object *model)
{
    static const char *const keys[][2] = {
        {"focal_gamma", "focal"},        {"huber_delta", "huber"},
        {"smooth_l1_beta", "smooth_l1"}, {"quantile", "quantile"},
        {"quantiles", "quantile"},       {"pos_weight", "binary_cross_entropy"},
        {"embedding_size", "triplet"},   {"triplet_margin", "triplet"},
        {"triplet_mining", "triplet"}};
    const char *loss = json_get_string(model, "loss", "");
    char path[64];

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!json_get(model, keys[i][0]) || strcmp(keys[i][1], loss) == 0)
            continue;
        snprintf(path, sizeof path, "model.%s", keys[i][0]);
        job_spec_path_push(check, "", path);
        return job_spec_fail(check, NULL, "%s belongs to the loss %s, but model.loss is %s", path,
                             keys[i][1], loss);
    }
    if (json_get(model, "quantile") && json_get(model, "quantiles"))
        return job_spec_fail_at(
            check, "model.quantile",
            "model.quantile is one quantile and model.quantiles are several; leave out one");
    return check_quantiles(check, json_get(model, "quantiles"));
}

/* The name of a head becomes a part of names of metrics. */
static int check_head_name(struct job_spec_check *check, size_t index, const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    if (name[strspn(name, allowed)] == '\0')
        return 0;
    check->path[0] = '\0';
    job_spec_path_push(check, "", "model.output_heads");
    return job_spec_fail(check, NULL,
                         "model.output_heads[%zu].name is \"%s\"; it is part of the names of "
                         "metrics, so it may have letters, digits, _ and - only",
                         index, name);
}

int job_spec_loss_check_heads(struct job_spec_check *check, struct json_object *given,
                              struct json_object *model)
{
    struct json_object *heads = json_get(model, "output_heads");
    size_t count = heads ? json_object_array_length(heads) : 0;

    if (heads && !json_get(given, "loss"))
        json_set_string(model, "loss", "output_heads");
    if (heads && strcmp(json_get_string(model, "loss", ""), "output_heads") != 0)
        return job_spec_fail_at(
            check, "model.loss",
            "model.output_heads have losses of their own; leave model.loss out");
    if (!heads && strcmp(json_get_string(model, "loss", ""), "output_heads") == 0)
        return job_spec_fail_at(
            check, "model.output_heads",
            "model.output_heads is missing; model.loss output_heads is the sum of their losses");
    if (heads && json_get(model, "classes"))
        return job_spec_fail_at(
            check, "model.classes",
            "model.output_heads say the numbers of classes; leave model.classes out");
    for (size_t i = 0; i < count; i++) {
        int r = check_head_name(check, i,
                                json_get_string(json_object_array_get_idx(heads, i), "name", ""));

        if (r < 0)
            return r;
        for (size_t k = 0; k < i; k++)
            if (json_object_equal(json_get(json_object_array_get_idx(heads, i), "name"),
                                  json_get(json_object_array_get_idx(heads, k), "name")))
                return job_spec_fail_at(check, "model.output_heads",
                                        "two of model.output_heads have the same name");
    }
    return 0;
}
