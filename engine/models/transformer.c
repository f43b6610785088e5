/* transformer.c: see transformer.h. */
#include "engine/models/transformer.h"

#include "engine/graph/forward.h"

#include <errno.h>
#include <math.h>

int transformer_check(const struct model_config *config, struct error *error)
{
    if (config->embedding < 1 || config->heads < 1 || config->depth < 1)
        return error_set(error, -EINVAL,
                         "the model has an embedding of %lld, %d heads and a depth of %d; each "
                         "must be at least 1",
                         (long long)config->embedding, config->heads, config->depth);
    if (config->embedding % config->heads)
        return error_set(error, -EINVAL,
                         "model.heads is %d, which does not divide model.embedding, %lld",
                         config->heads, (long long)config->embedding);
    if (config->positions == POSITIONS_ROTARY && config->embedding / config->heads % 2)
        return error_set(error, -EINVAL,
                         "rotary positions turn pairs of numbers, but %lld / %d is odd: choose "
                         "another model.embedding or model.heads, or learned positions",
                         (long long)config->embedding, config->heads);
    return 0;
}

int64_t transformer_features(const struct model_config *config)
{
    int64_t features = llround((double)config->embedding * config->mlp_ratio);

    return features < 1 ? 1 : features;
}

int32_t transformer_norm(struct graph *graph, int32_t x, int32_t *residual, const char *name,
                         float epsilon)
{
    if (*residual >= 0)
        return graph_add_layer_norm(graph, x, *residual, name, epsilon, true, residual);
    *residual = x;
    return graph_layer_norm(graph, x, name, epsilon, true);
}

int32_t transformer_network(struct graph *graph, int32_t x, const struct model_config *config,
                            const char *first, const char *second, bool drops_hidden)
{
    x = graph_linear(graph, x, first, transformer_features(config), true);
    x = graph_activation(graph, x, layer_name("%s.gelu", first).text, ACTIVATION_GELU);
    if (drops_hidden)
        x = graph_dropout(graph, x, layer_name("%s.dropout", first).text, config->dropout);
    x = graph_linear(graph, x, second, config->embedding, true);
    return graph_dropout(graph, x, layer_name("%s.dropout", second).text, config->dropout);
}
