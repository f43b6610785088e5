/* frozen.c: parameters that a training leaves as they are. graph_append_tensor() marks them, the
 * rules of differentiation give them no gradient, and so no update follows. See graph.h. */
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>

bool graph_name_matches(const char *pattern, const char *name)
{
    char below[GRAPH_NAME_MAX + sizeof ".*"];

    if (fnmatch(pattern, name, 0) == 0)
        return true;
    return snprintf(below, sizeof below, "%s.*", pattern) < (int)sizeof below &&
           fnmatch(below, name, 0) == 0;
}

bool graph_name_matches_any(const char *const *patterns, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (graph_name_matches(patterns[i], name))
            return true;
    return false;
}

const char *graph_list_parameters(const struct graph *graph, char *output, size_t size)
{
    static const char cut[] = "…";
    size_t used = 0;

    *output = '\0';
    for (int32_t i = 0; i < graph->tensor_count && used < size; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER)
            used += (size_t)snprintf(output + used, size - used, "%s%s", used ? ", " : "",
                                     graph->tensors[i].name);
    if (used >= size)
        snprintf(output + size - sizeof cut, sizeof cut, "%s", cut);
    return output;
}

static bool matches_parameter(const struct graph *graph, const char *pattern)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER &&
            graph_name_matches(pattern, graph->tensors[i].name))
            return true;
    return false;
}

int graph_check_patterns(const struct graph *graph, const char *what, const char *const *patterns,
                         int count, struct error *error)
{
    char names[256];

    for (int i = 0; i < count; i++)
        if (!matches_parameter(graph, patterns[i]))
            return error_set(error, -EINVAL,
                             "%s \"%s\" matches no parameter of the model, which has %s", what,
                             patterns[i], graph_list_parameters(graph, names, sizeof names));
    return 0;
}

int graph_check_frozen(const struct graph *graph, struct error *error)
{
    bool learns = !graph->frozen_count;

    for (int32_t i = 0; i < graph->tensor_count; i++)
        learns |= graph->tensors[i].role == TENSOR_PARAMETER && !graph->tensors[i].frozen;
    if (!learns)
        return error_set(error, -EINVAL,
                         "train.frozen matches all parameters of the model, so nothing is left "
                         "to train; leave out the patterns of its last layers");
    return graph_check_patterns(graph, "train.frozen", graph->frozen, graph->frozen_count, error);
}
