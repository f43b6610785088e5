/* pytorch_network.c: writes the network, of the description that pytorch_network_description.c
 * makes. See pytorch_network.h. */
#include "worker/trainee/pytorch_network_internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { VALUE_MAX = 32 };

/* ---- templates of modules ---- */

int pytorch_module_part(const char **module, char key[PYTORCH_KEY_MAX])
{
    size_t length = strcspn(*module, "{"), name;

    key[0] = '\0';
    if (!**module)
        return -1;
    *module += length;
    if (**module == '{') {
        name = strcspn(*module, "}") - 1;
        snprintf(key, PYTORCH_KEY_MAX, "%.*s", (int)name, *module + 1);
        *module += name + 2;
    }
    return (int)length;
}

const char *pytorch_usual_of(char *key)
{
    char *sign = strchr(key, '=');

    if (!sign)
        return NULL;
    *sign = '\0';
    return sign + 1;
}

/* ---- lists of layers ---- */

struct chain {
    FILE *file;
    const struct safetensors *weights;
    char name[128]; /* of the present layer, with those of the layers that it lies in */
    int depth;      /* of lists in lists */
    bool flat;      /* the layer's input has no height and width */
};

static int write_list(struct chain *chain, struct json_object *list, struct json_object *outputs,
                      struct error *error);

/* A tensor of the present layer; NULL: the layer does not have it. */
static const struct safetensors_tensor *tensor_of(const struct chain *chain, const char *part)
{
    char name[192];

    snprintf(name, sizeof name, "%s.%s", chain->name, part);
    return safetensors_find(chain->weights, name);
}

/* Prints a value: "3" for a number or a pair of equal numbers, else "(3, 1)"; of a word its small
 * letters. */
static void format_value(struct json_object *value, char text[VALUE_MAX])
{
    int pair[2];

    if (json_object_is_type(value, json_type_array)) {
        for (size_t i = 0; i < 2; i++)
            pair[i] = json_object_get_int(json_object_array_get_idx(value, i));
        if (pair[0] == pair[1])
            snprintf(text, VALUE_MAX, "%d", pair[0]);
        else
            snprintf(text, VALUE_MAX, "(%d, %d)", pair[0], pair[1]);
    } else if (json_object_is_type(value, json_type_string)) {
        const char *word = json_object_get_string(value);

        snprintf(text, VALUE_MAX, "%.*s", (int)strspn(word, "abcdefghijklmnopqrstuvwxyz_"), word);
    } else {
        snprintf(text, VALUE_MAX, "%.7g", json_object_get_double(value));
    }
}

/* Writes the lists of a layer, each as a module, and keeps the layer's name. */
static int write_lists(struct chain *chain, struct json_object *layer, struct error *error)
{
    struct json_object *lists = json_get(layer, "lists");
    size_t count =
        lists && json_object_is_type(lists, json_type_array) ? json_object_array_length(lists) : 0;
    bool residual = strcmp(json_get_string(layer, "type", ""), "residual") == 0;
    bool flat = chain->flat, after = flat;
    size_t length = strlen(chain->name);
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        chain->flat = flat;
        fputs(i ? ", " : "", chain->file);
        if (residual)
            snprintf(chain->name + length, sizeof chain->name - length, "%s",
                     i ? ".projection" : ".layers");
        else
            snprintf(chain->name + length, sizeof chain->name - length, ".branches.%zu", i);
        r = write_list(chain, json_object_array_get_idx(lists, i), NULL, error);
        after |= chain->flat;
        chain->name[length] = '\0';
    }
    chain->flat = after;
    return r;
}

/* Whether the key is "inputs" or "outputs", possibly with a prefix: "fc1.inputs". */
static bool is_extent(const char *key)
{
    const char *dot = strrchr(key, '.'), *name = dot ? dot + 1 : key;

    return strcmp(name, "inputs") == 0 || strcmp(name, "outputs") == 0;
}

/* Writes the extent that the key stands for; -EINVAL: the weights are missing. */
static int write_extent(const struct chain *chain, struct json_object *layer, const char *key,
                        struct error *error)
{
    const char *dot = strrchr(key, '.');
    int prefix = dot ? (int)(dot + 1 - key) : 0, dimension = strcmp(key + prefix, "inputs") == 0;
    const struct safetensors_tensor *weight;
    char part[PYTORCH_KEY_MAX + 8];
    int64_t extent;

    snprintf(part, sizeof part, "%.*sweight", prefix, key);
    weight = tensor_of(chain, part);
    if (!weight || weight->rank <= dimension)
        return error_set(error, -EINVAL, "the checkpoint lacks the weights of its layer %s",
                         chain->name);
    extent = weight->shape[dimension] * (dimension ? json_get_int(layer, "groups", 1) : 1);
    fprintf(chain->file, "%" PRId64, extent);
    return 0;
}

/* Writes what "{key}" stands for (struct model_layer_python). */
static int write_key(struct chain *chain, struct json_object *layer, char *key, struct error *error)
{
    const char *usual = pytorch_usual_of(key);
    char text[VALUE_MAX];

    if (is_extent(key))
        return write_extent(chain, layer, key, error);
    if (strcmp(key, "lists") == 0)
        return write_lists(chain, layer, error);
    if (strcmp(key, "join") == 0) {
        bool concat = strcmp(json_get_string(layer, key, ""), "concat") == 0;

        fprintf(chain->file, "%d", concat ? (int)json_get_int(layer, "axis", 1) : 0);
        return 0;
    }
    if (strcmp(key, "bias") == 0) {
        fputs(tensor_of(chain, "bias") ? "" : ", bias=False", chain->file);
    } else if (strcmp(key, "dimensions") == 0) {
        fputs(chain->flat ? "1d" : "2d", chain->file);
    } else {
        format_value(json_get(layer, key), text);
        if (!usual)
            fputs(text, chain->file);
        else if (strcmp(text, usual) != 0)
            fprintf(chain->file, ", %s=%s", key, text);
    }
    return 0;
}

static int write_layer(struct chain *chain, struct json_object *layer, struct error *error)
{
    int kind = model_layer_kind_from_string(json_get_string(layer, "type", "")), length, r = 0;
    const struct model_layer_python *python;
    const char *module, *at;
    char key[PYTORCH_KEY_MAX];

    if (kind < 0)
        return error_set(error, -EINVAL, "layer %s is of no kind that this program knows",
                         chain->name);
    python = model_layer_python((enum model_layer_kind)kind);
    at = module = python->module;
    while (r == 0 && (length = pytorch_module_part(&at, key)) >= 0) {
        fprintf(chain->file, "%.*s", length, module);
        if (key[0])
            r = write_key(chain, layer, key, error);
        module = at;
    }
    chain->flat |= python->flattens;
    return r;
}

/* Writes a text that may be a node's name. */
static void write_name(FILE *file, const char *name)
{
    fputc('"', file);
    for (const char *at = name; *at; at++)
        if (isalnum((unsigned char)*at) || strchr("_-", *at))
            fputc(*at, file);
    fputc('"', file);
}

static void write_names(FILE *file, struct json_object *names)
{
    size_t count = names ? json_object_array_length(names) : 0;

    fputc('[', file);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", file);
        write_name(file, json_object_get_string(json_object_array_get_idx(names, i)));
    }
    fputc(']', file);
}

/* The layer's name within its list. */
static void layer_name_of(struct json_object *list, size_t index, char name[64])
{
    struct json_object *layer = json_object_array_get_idx(list, index);
    const char *own = json_get_string(layer, "name", NULL);

    if (own)
        snprintf(name, 64, "%s", own);
    else
        snprintf(name, 64, "%zu", index);
}

/* Whether some layer names what it reads, or has a name of its own. */
static bool list_is_graph(struct json_object *list)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *layer = json_object_array_get_idx(list, i);

        if (json_get(layer, "name") || json_get(layer, "inputs"))
            return true;
    }
    return false;
}

static void indent(const struct chain *chain)
{
    fprintf(chain->file, "\n%*s", 4 + 4 * chain->depth, "");
}

/* Writes what stands behind a node of a graph: the names that it reads. */
static void write_inputs(const struct chain *chain, struct json_object *list, size_t index)
{
    struct json_object *inputs = json_get(json_object_array_get_idx(list, index), "inputs");
    char before[64];

    fputs(", ", chain->file);
    if (inputs) {
        write_names(chain->file, inputs);
    } else {
        if (index)
            layer_name_of(list, index - 1, before);
        fputc('[', chain->file);
        write_name(chain->file, index ? before : "input");
        fputc(']', chain->file);
    }
    fputc(')', chain->file);
}

/* Writes a list as nn.Sequential or, where layers have names, as Graph. */
static int write_list(struct chain *chain, struct json_object *list, struct json_object *outputs,
                      struct error *error)
{
    size_t count = json_object_array_length(list), length = strlen(chain->name);
    bool graph = list_is_graph(list);
    char own[64] = "input";
    int r = 0;

    chain->depth++;
    fputs(graph ? "Graph([" : "nn.Sequential(", chain->file);
    for (size_t i = 0; i < count && r == 0; i++) {
        indent(chain);
        layer_name_of(list, i, own);
        snprintf(chain->name + length, sizeof chain->name - length, "%s%s", length ? "." : "", own);
        if (graph) {
            fputc('(', chain->file);
            write_name(chain->file, own);
            fputs(", ", chain->file);
        }
        r = write_layer(chain, json_object_array_get_idx(list, i), error);
        if (graph)
            write_inputs(chain, list, i);
        fputs(i + 1 < count ? "," : "", chain->file);
        chain->name[length] = '\0';
    }
    if (graph) {
        fputs("], ", chain->file);
        if (outputs)
            write_names(chain->file, outputs);
        else {
            fputc('[', chain->file);
            write_name(chain->file, own);
            fputc(']', chain->file);
        }
    }
    fputc(')', chain->file);
    chain->depth--;
    return r;
}

static int write_chain(FILE *file, struct json_object *network, const struct safetensors *weights,
                       struct error *error)
{
    struct json_object *outputs = json_get(network, "outputs");
    struct chain chain = {
        .file = file, .weights = weights, .flat = json_get_int(network, "rank", 1) != 3};
    int r;

    fputs("    return ", file);
    r = write_list(&chain, json_get(network, "layers"),
                   json_object_is_type(outputs, json_type_array) ? outputs : NULL, error);
    fputc('\n', file);
    return r;
}

/* ---- models that are no chain ---- */

/* Writes what stands for "$key": a number, True or False, a list of whole numbers, or a word, of
 * which only letters, digits, "_" and "-" are written. */
static void write_value(FILE *file, struct json_object *network, const char *key)
{
    struct json_object *value = json_get(network, key);

    if (json_object_is_type(value, json_type_double)) /* width is a double, others were floats */
        fprintf(file, strcmp(key, "width") == 0 ? "%.17g" : "%.7g", json_object_get_double(value));
    else if (json_object_is_type(value, json_type_boolean))
        fputs(json_object_get_boolean(value) ? "True" : "False", file);
    else if (json_object_is_type(value, json_type_string))
        for (const char *at = json_object_get_string(value); *at; at++)
            fputs(isalnum((unsigned char)*at) || strchr("_-", *at) ? (char[]){*at, '\0'} : "",
                  file);
    else if (json_object_is_type(value, json_type_array)) {
        fputc('[', file);
        for (size_t i = 0; i < json_object_array_length(value); i++)
            fprintf(file, "%s%" PRId64, i ? ", " : "",
                    json_object_get_int64(json_object_array_get_idx(value, i)));
        fputc(']', file);
    } else {
        fprintf(file, "%" PRId64, json_object_get_int64(value));
    }
}

/* Whether "?key", "?!key" or "?key=text" holds; `*at` moves behind it. A key without text holds
 * unless it is 0 or False. */
static bool condition_read(const char **at, struct json_object *network)
{
    bool wanted = (*at)[1] != '!', holds;
    const char *key = *at + (wanted ? 1 : 2);
    size_t length = strspn(key, "abcdefghijklmnopqrstuvwxyz_"), size = 0;
    const char *text = key[length] == '=' ? key + length + 1 : NULL;
    size_t text_length = text ? strcspn(text, "?|{\n") : 0;
    char name[PYTORCH_KEY_MAX];
    AUTO_FREE char *value = NULL;
    FILE *file = open_memstream(&value, &size);

    snprintf(name, sizeof name, "%.*s", (int)length, key);
    *at = text ? text + text_length : key + length;
    if (!file)
        return false;
    write_value(file, network, name);
    if (fclose(file) != 0)
        return false;
    holds = text ? size == text_length && memcmp(value, text, size) == 0
                 : strcmp(value, "0") != 0 && strcmp(value, "False") != 0;
    return holds == wanted;
}

/* Writes a line whose "$key" stand for values. */
static void write_line(FILE *file, struct json_object *network, const char *at, const char *end)
{
    char key[PYTORCH_KEY_MAX];

    while (at < end) {
        const char *dollar = memchr(at, '$', (size_t)(end - at));
        size_t length;

        if (!dollar)
            dollar = end;
        fprintf(file, "%.*s", (int)(dollar - at), at);
        if (dollar == end)
            return;
        length = strspn(dollar + 1, "abcdefghijklmnopqrstuvwxyz_");
        snprintf(key, sizeof key, "%.*s", (int)length, dollar + 1);
        write_value(file, network, key);
        at = dollar + 1 + length;
    }
}

/* Writes a template (struct model_python). */
static void write_template(FILE *file, struct json_object *network, const char *template)
{
    bool skips = false; /* within a block whose conditions do not hold */

    while (*template) {
        const char *at = template, *end = at + strcspn(at, "\n");
        bool holds = true, conditional = *at == '?', closes = strncmp(at, "?}", 2) == 0;

        end += *end == '\n';
        template = end;
        while (*at == '?' && !closes)
            holds &= condition_read(&at, network);
        if (closes)
            skips = false;
        else if (conditional && *at == '{')
            skips = !holds;
        else if (holds && !skips)
            write_line(file, network, at + conditional, end);
    }
}

static int write_built(FILE *file, struct json_object *network, struct error *error)
{
    int kind = model_kind_from_string(json_get_string(network, "name", ""));
    const struct model_python *python = kind < 0 ? NULL : model_python((enum model_kind)kind);

    if (!python)
        return error_set(error, -EINVAL, "this program does not know the checkpoint's model");
    write_template(file, network, python->body);
    return 0;
}

/* ---- both ---- */

static bool has_graph(struct json_object *list)
{
    bool found = list_is_graph(list);

    for (size_t i = 0; i < json_object_array_length(list) && !found; i++) {
        struct json_object *lists = json_get(json_object_array_get_idx(list, i), "lists");

        for (size_t k = 0; lists && k < json_object_array_length(lists); k++)
            found |= has_graph(json_object_array_get_idx(lists, k));
    }
    return found;
}

static bool has_layer(struct json_object *list, const char *type)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *layer = json_object_array_get_idx(list, i);
        struct json_object *lists = json_get(layer, "lists");

        if (strcmp(json_get_string(layer, "type", ""), type) == 0)
            return true;
        for (size_t k = 0; lists && k < json_object_array_length(lists); k++)
            if (has_layer(json_object_array_get_idx(lists, k), type))
                return true;
    }
    return false;
}

void pytorch_network_write_imports(FILE *file, struct json_object *network)
{
    int kind = model_kind_from_string(json_get_string(network, "name", ""));
    const struct model_python *python = kind < 0 ? NULL : model_python((enum model_kind)kind);
    struct json_object *layers = json_get(network, "layers");
    const char *type;

    if (python)
        write_template(file, network, python->imports);
    if (!layers || !json_object_is_type(layers, json_type_array))
        return;
    if (has_graph(layers))
        fprintf(file, "\n\n%s", model_graph_python);
    for (int i = 0; (type = model_layer_kind_to_string((enum model_layer_kind)i)); i++) {
        const char *imports = model_layer_python((enum model_layer_kind)i)->imports;

        if (imports && has_layer(layers, type))
            fprintf(file, "%s%s", strncmp(imports, "class", 5) == 0 ? "\n\n" : "", imports);
    }
}

int pytorch_network_write(FILE *file, struct json_object *network,
                          const struct safetensors *weights, struct error *error)
{
    struct json_object *layers = json_get(network, "layers");

    fputs(
        "\n\n"
        "def network():\n"
        "    \"\"\"The layers alone, whose parameters have the names of the weights' file.\"\"\"\n",
        file);
    return layers && json_object_is_type(layers, json_type_array)
               ? write_chain(file, network, weights, error)
               : write_built(file, network, error);
}
