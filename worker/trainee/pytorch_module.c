/* pytorch_module.c: see pytorch_module.h. Content of a checkpoint reaches the Python file only as a
 * JSON literal or as a number parsed here, never as program text. */
#include "worker/trainee/pytorch_module.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/data/description.h"
#include "worker/trainee/python_names.h"
#include "worker/trainee/pytorch_network.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char marker[] = "# Written by traind's export";

/* ---- description in a checkpoint ---- */

static struct json_object *describe_input(const struct worker_setup *setup)
{
    const struct dataset *train = setup->train;
    struct json_object *input = json_object_new_object(), *shape = json_object_new_array();

    for (int i = 0; i < train->rank; i++)
        json_object_array_add(shape, json_object_new_int64(train->shape[i]));
    json_set(input, "shape", shape);
    json_set_bool(input, "text", dataset_format_is_text(train->format));
    json_set_bool(input, "sequence", train->letter_first != NULL);
    json_set_bool(input, "channels_last",
                  setup->spec.train.config.layout == DATASET_LAYOUT_HWC && train->rank == 3);
    if (setup->spec.train.config.csv.divide_by > 0)
        json_set_double(input, "divide_by", setup->spec.train.config.csv.divide_by);
    return input;
}

/* Class names may come from folders, whose names may be any bytes; checkpoints and Python need
 * text. */
static struct json_object *list_names(char *const *names, int64_t count)
{
    struct json_object *list = names ? json_object_new_array() : NULL;
    char escaped[4 * NAME_MAX + sizeof "\\x00"];

    for (int64_t i = 0; list && i < count; i++) {
        const char *name = names[i];

        if (!text_is_utf8(name, strlen(name)))
            name = text_escape_controls(name, escaped, sizeof escaped);
        json_object_array_add(list, json_object_new_string(name));
    }
    return list;
}

struct json_object *pytorch_module_classes(const struct dataset *train)
{
    return list_names(train->class_names, train->class_count);
}

struct json_object *pytorch_module_features(const struct dataset *train)
{
    return train->format == DATASET_TABLE ? list_names(train->column_names, train->sample_elements)
                                          : NULL;
}

int64_t pytorch_module_sequence_length(const char *description)
{
    JSON_AUTO struct json_object *json = NULL;
    struct json_object *input;

    if (!description || json_parse(description, strlen(description), &json, NULL) < 0)
        return 0;
    input = json_get(json, "input");
    if (!json_get_bool(input, "sequence", false))
        return 0;
    return json_object_get_int64(json_object_array_get_idx(json_get(input, "shape"), 0));
}

struct json_object *pytorch_module_targets(const struct dataset *train)
{
    struct json_object *list;

    if (train->target != DATASET_TARGET_VALUE || !dataset_target_name(train, 0))
        return NULL;
    list = json_object_new_array();
    for (int32_t i = 0; i < train->target_width; i++) {
        const char *name = dataset_target_name(train, i);

        json_object_array_add(list, name ? json_object_new_string(name) : NULL);
    }
    return list;
}

static struct json_object *describe_heads(const struct worker_spec *spec)
{
    struct json_object *heads = json_object_new_array();

    for (int i = 0; i < spec->head_count; i++) {
        struct json_object *head = json_object_new_array();

        json_object_array_add(head, json_object_new_string(spec->head_names[i]));
        json_object_array_add(head, json_object_new_int(spec->heads[i].classes));
        json_object_array_add(head, json_object_new_int(spec->heads[i].labels));
        json_object_array_add(heads, head);
    }
    return heads;
}

char *pytorch_module_describe(const struct worker_setup *setup, struct error *error)
{
    const struct dataset *train = setup->train;
    JSON_AUTO struct json_object *json = json_object_new_object();
    struct json_object *network = pytorch_network_describe(setup, error);
    char *text;

    if (!network)
        return NULL;
    json_set(json, "network", network);
    json_set_string(json, "name", setup->spec.name);
    json_set(json, "input", describe_input(setup));
    json_set_bool(json, "classifies",
                  train->target == DATASET_TARGET_CLASS && setup->spec.loss != LOSS_TRIPLET);
    json_set(json, "class_names", pytorch_module_classes(train));
    json_set(json, "features", pytorch_module_features(train));
    json_set(json, "targets", pytorch_module_targets(train));
    json_set(json, "quantiles",
             json_object_get(json_get(json_get(setup->spec.normalised, "model"), "quantiles")));
    if (setup->spec.head_count)
        json_set(json, "heads", describe_heads(&setup->spec));
    text = strdup(json_text(json, NULL));
    if (!text)
        error_set(error, -ENOMEM, "no memory to describe the model for checkpoints");
    return text;
}

/* ---- the file's name ---- */

char *pytorch_module_path(const char *weights, struct error *error)
{
    const char *slash = strrchr(weights, '/'), *name = slash ? slash + 1 : weights;
    const char *dot = strrchr(name, '.');
    AUTO_FREE char *stem = dot && dot > name ? strndup(name, (size_t)(dot - name)) : strdup(name);
    AUTO_FREE char *path = NULL;
    AUTO_FCLOSE FILE *existing = NULL;
    char first[sizeof marker] = "";

    if (!text_is_utf8(name, strlen(name))) {
        error_set(error, -EINVAL,
                  "%s is not UTF-8, which the module that names it must be: choose another name "
                  "for the weights, or leave the module out with --no-module",
                  name);
        return NULL;
    }
    for (char *at = stem; at && *at; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    if (!stem ||
        asprintf(&path, "%.*s%s%s.py", (int)(name - weights), weights,
                 isdigit((unsigned char)stem[0]) || python_name_is_taken(stem) ? "model_" : "",
                 stem) < 0) {
        path = NULL;
        error_set(error, -ENOMEM, "no memory to name the Python module");
        return NULL;
    }
    if (strcmp(path, weights) == 0) {
        error_set(error, -EINVAL,
                  "%s is the Python module of the weights: choose a name for the weights that ends "
                  "in .safetensors, or leave the module out with --no-module",
                  path);
        return NULL;
    }
    existing = fopen(path, "re");
    if (existing && (fread(first, 1, sizeof marker - 1, existing) < sizeof marker - 1 ||
                     strcmp(first, marker) != 0)) {
        error_set(error, -EEXIST,
                  "%s is there already and no export wrote it: choose another name for the "
                  "weights, or leave the module out with --no-module",
                  path);
        return NULL;
    }
    return TAKE_POINTER(path);
}

/* ---- the file ---- */

/* Writes a list of numbers from comma-separated text. Returns the rest of the text; NULL: it is no
 * such list. */
static const char *write_numbers(FILE *file, const char *name, const char *text)
{
    char *after;

    fprintf(file, "%s = [", name);
    for (bool first = true;; first = false, text = after + 1) {
        double value = strtod(text, &after);

        if (after == text || !isfinite(value))
            return NULL;
        fprintf(file, "%s%.9g", first ? "" : ", ", value);
        if (*after != ',')
            break;
    }
    fprintf(file, "]\n");
    return after;
}

/* Writes the constants of, for example, "standard 2 0.5,0.25 4,8"
 * (dataset_normalisation_format()). */
static int write_normalisation(FILE *file, const char *text, struct error *error)
{
    int used = 0;

    if (text)
        (void)sscanf(text, "%*15s %*d %n", &used);
    if (used)
        text = write_numbers(file, "MEAN", text + used);
    if (used && text && *text == ' ')
        text = write_numbers(file, "FACTOR", text + 1);
    if (used && text && *text == ' ') { /* of a time series: " 1 0.5 4" */
        text += 1 + strcspn(text + 1, " ");
        text = *text ? write_numbers(file, "TARGET_MEAN", text + 1) : NULL;
        if (text)
            text = *text == ' ' ? write_numbers(file, "TARGET_FACTOR", text + 1) : NULL;
    }
    if (!used || !text || *text)
        return error_set(error, -EINVAL, "the checkpoint's normalisation is damaged");
    return 0;
}

static int write_vocabulary(FILE *file, const char *text, struct error *error)
{
    struct dataset_vocabulary vocabulary;
    AUTO_FREE char *symbols = NULL;
    JSON_AUTO struct json_object *literal = NULL;
    size_t used = 0;
    int r = text ? dataset_vocabulary_parse(text, &vocabulary, error)
                 : error_set(error, -EINVAL, "the checkpoint has no vocabulary");

    if (r < 0)
        return r;
    if (vocabulary.is_padded)
        fprintf(file, "PADDING = %" PRId32 "  # the number that fills the end of short sequences\n",
                vocabulary.count);
    if (vocabulary.tokens == DATASET_TOKENS_KMERS)
        fprintf(file, "KMER, KMER_STRIDE = %" PRId32 ", %" PRId32 "\n", vocabulary.kmer,
                vocabulary.kmer_stride);
    if (!vocabulary.symbols) {
        fprintf(file, "SYMBOLS = None  # they are %s\n",
                dataset_tokens_to_string(vocabulary.tokens));
    } else if (vocabulary.bytes) {
        fprintf(file, "SYMBOLS = bytes([");
        for (int32_t i = 0; i < vocabulary.count; i++)
            fprintf(file, "%s%" PRIu32, i ? ", " : "", vocabulary.symbols[i]);
        fprintf(file, "])  # symbol i of the network is SYMBOLS[i]\n");
    } else if ((symbols = malloc((size_t)vocabulary.count * 4 + 1))) {
        for (int32_t i = 0; i < vocabulary.count; i++)
            used += (size_t)dataset_vocabulary_decode(&vocabulary, i, symbols + used);
        literal = json_object_new_string_len(symbols, (int)used);
        fprintf(file, "SYMBOLS = %s  # symbol i of the network is SYMBOLS[i]\n",
                json_text(literal, NULL));
    } else {
        r = error_set(error, -ENOMEM, "no memory to write the vocabulary");
    }
    dataset_vocabulary_release(&vocabulary);
    return r;
}

static const char samples_part[] =
    "\n\n"
    "class Model(nn.Module):\n"
    "    \"\"\"The network behind the preprocessing of its training data: it takes samples as the "
    "files have them\n"
    "    (bytes from 0 to 255, columns as they are written), [N, *INPUT] or so many numbers in "
    "another shape.\"\"\"\n\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.network = network()\n"
    "        shape = [len(MEAN), 1, 1] if len(INPUT) == 3 else INPUT if len(INPUT) == 4 and "
    "len(MEAN) > 1 else [-1]\n"
    "        self.register_buffer(\"mean\", torch.tensor(MEAN, "
    "dtype=torch.float32).reshape(shape), persistent=False)\n"
    "        self.register_buffer(\"factor\", torch.tensor(FACTOR, "
    "dtype=torch.float32).reshape(shape), "
    "persistent=False)\n\n"
    "    def preprocess(self, samples):\n"
    "        samples = samples%s.reshape(len(samples), *INPUT).to(self.mean.dtype)%s\n"
    "        return (samples - self.mean) * self.factor\n\n"
    "    def forward(self, samples, *lengths):\n"
    "        \"\"\"lstm and gru take the samples' lengths as well, [N] whole numbers.\"\"\"\n"
    "        return self.network(self.preprocess(samples), *lengths)\n";

static const char sequence_part[] =
    "\n\n"
    "class Model(nn.Module):\n"
    "    \"\"\"Takes the numbers of the tokens of sequences, as encode() gives them, [N, "
    "*INPUT].\"\"\"\n\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.network = network()\n\n"
    "    def forward(self, tokens):\n"
    "        return self.network(tokens)\n\n\n"
    "def encode(sequences):\n"
    "    \"\"\"The numbers of the tokens of several sequences, each cut or padded to INPUT[0]: [N, "
    "*INPUT].\"\"\"\n"
    "    return torch.tensor([(tokens(sequence) + [PADDING] * INPUT[0])[:INPUT[0]] for sequence in "
    "sequences])\n\n\n";

static const char symbols_part[] =
    "def tokens(sequence):\n"
    "    if isinstance(SYMBOLS, bytes) and isinstance(sequence, str):\n"
    "        raise TypeError(\"a symbol is a byte: give bytes, such as "
    "sequence.encode()\")\n"
    "    number = {symbol: i for i, symbol in enumerate(SYMBOLS)}\n"
    "    return [number[symbol] for symbol in sequence]\n";

static const char nucleotides_part[] =
    "def tokens(sequence):\n"
    "    numbers = [\"ACGT\".find(letter) for letter in sequence.upper().replace(\"U\", \"T\")]\n"
    "    return [4 if number < 0 else number for number in numbers]\n";

static const char kmers_part[] =
    "def tokens(sequence):\n"
    "    numbers = [\"ACGT\".find(letter) for letter in sequence.upper().replace(\"U\", \"T\")]\n"
    "    kmers = [numbers[i:i + KMER] for i in range(0, len(numbers) - KMER + 1, KMER_STRIDE)]\n"
    "    return [4 ** KMER if -1 in kmer else sum(n * 4 ** i for i, n in enumerate(reversed(kmer)))"
    " for kmer in kmers]\n";

static const char forecast_part[] =
    "\n\n"
    "@torch.no_grad()\n"
    "def forecast(model, samples):\n"
    "    \"\"\"What follows each sample, in the units of the data: [N, rows, columns to "
    "predict].\"\"\"\n"
    "    values = model(samples).reshape(len(samples), -1, len(TARGET_MEAN))\n"
    "    return values / torch.tensor(TARGET_FACTOR) + torch.tensor(TARGET_MEAN)\n";

static const char quantiles_forecast_part[] =
    "\n\n"
    "@torch.no_grad()\n"
    "def forecast(model, samples):\n"
    "    \"\"\"What follows each sample, in the units of the data: [N, rows, columns to "
    "predict, quantiles].\"\"\"\n"
    "    values = model(samples).reshape(len(samples), -1, len(TARGET_MEAN), len(QUANTILES))\n"
    "    return values / torch.tensor(TARGET_FACTOR)[:, None] + torch.tensor(TARGET_MEAN)[:, "
    "None]\n";

static const char values_part[] =
    "\n\n"
    "@torch.no_grad()\n"
    "def predict(model, samples):\n"
    "    \"\"\"The values of each sample, in the units of the data: [N, columns to "
    "predict], quantiles side by side.\"\"\"\n"
    "    values = model(samples).reshape(len(samples), len(TARGET_MEAN), -1)\n"
    "    values = values / torch.tensor(TARGET_FACTOR)[:, None] + torch.tensor(TARGET_MEAN)[:, "
    "None]\n"
    "    return values.flatten(1)\n";

static const char text_part[] =
    "\n\n"
    "class Model(nn.Module):\n"
    "    \"\"\"Takes the numbers of the last INPUT[0] symbols, [N, *INPUT], and scores the next "
    "one: [N, symbols],\n"
    "    or the one after each of them: [N, *INPUT, symbols].\"\"\"\n\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.network = network()\n\n"
    "    def forward(self, symbols):\n"
    "        return self.network(symbols)\n\n\n"
    "def encode(text):\n"
    "    \"\"\"Numbers of the symbols of a text; KeyError for one that the training text had "
    "not.\"\"\"\n"
    "    if isinstance(SYMBOLS, bytes) and isinstance(text, str):\n"
    "        raise TypeError(\"a symbol is a byte: give bytes, such as text.encode()\")\n"
    "    number = {symbol: i for i, symbol in enumerate(SYMBOLS)}\n"
    "    return [number[symbol] for symbol in text]\n\n\n"
    "@torch.no_grad()\n"
    "def sample(model, prompt, length=200, temperature=1.0):\n"
    "    \"\"\"The prompt, which has at least INPUT[0] symbols, and `length` symbols more.\"\"\"\n"
    "    symbols = encode(prompt)\n"
    "    for _ in range(length):\n"
    "        scores = model(torch.tensor([symbols[-INPUT[0]:]])).flatten(0, -2)[-1]\n"
    "        symbols.append(torch.multinomial((scores / temperature).softmax(0), 1).item())\n"
    "    drawn = [SYMBOLS[i] for i in symbols]\n"
    "    return bytes(drawn) if isinstance(SYMBOLS, bytes) else \"\".join(drawn)\n";

static const char loading_part[] =
    "\n\n"
    "def read_weights(path=WEIGHTS):\n"
    "    \"\"\"The tensors of a safetensors file by name, as safetensors.torch.load_file "
    "does.\"\"\"\n"
    "    content = bytearray(Path(path).read_bytes())\n"
    "    start = 8 + int.from_bytes(content[:8], \"little\")\n"
    "    types = {\"F32\": torch.float32, \"I64\": torch.int64, \"I8\": torch.int8}\n"
    "    tensors = {}\n"
    "    for name, entry in json.loads(content[8:start]).items():\n"
    "        if name == \"__metadata__\":\n"
    "            continue\n"
    "        begin, end = entry[\"data_offsets\"]\n"
    "        values = torch.frombuffer(content[start + begin:start + end], "
    "dtype=types[entry[\"dtype\"]])\n"
    "        tensors[name] = values.reshape(entry[\"shape\"])\n"
    "    for name in [name for name in tensors if tensors[name].dtype == torch.int8]:\n"
    "        scale = tensors.pop(name + \"_scale\")  # of each row of a quantized weight\n"
    "        tensors[name] = (tensors[name].flatten(1) * scale[:, None])"
    ".reshape(tensors[name].shape)\n"
    "    return tensors\n\n\n"
    "def load(path=WEIGHTS, device=\"cpu\"):\n"
    "    \"\"\"The model with its weights, ready to predict.\"\"\"\n"
    "    model = Model()\n"
    "    model.network.load_state_dict(read_weights(path))\n"
    "    return model.to(device).eval()\n";

static const char prediction_part[] =
    "\n\n"
    "@torch.no_grad()\n"
    "def predict(model, samples, *lengths):\n"
    "    \"\"\"The class of each sample: its name, or its number where CLASSES is None.\"\"\"\n"
    "    numbers = model(samples, *lengths).argmax(1).tolist()\n"
    "    if not CLASSES:\n"
    "        return numbers\n"
    "    return [CLASSES[i] if i < len(CLASSES) else f\"unnamed class {i}\" for i in numbers]\n";

static const char heads_part[] =
    "\n\n"
    "@torch.no_grad()\n"
    "def predict(model, samples, *lengths):\n"
    "    \"\"\"For each sample the likeliest classes of each head, as many as it has labels: {head: "
    "[numbers]}.\"\"\"\n"
    "    scores = model(samples, *lengths).split([classes for _, classes, _ in HEADS], dim=1)\n"
    "    best = [score.topk(labels, dim=1).indices.tolist() for score, (_, _, labels) in "
    "zip(scores, HEADS)]\n"
    "    return [dict(zip([name for name, _, _ in HEADS], numbers)) for numbers in zip(*best)]\n";

static void write_literal(FILE *file, const char *name, struct json_object *value,
                          const char *comment)
{
    fprintf(file, "%s = %s%s\n", name, value ? json_text(value, NULL) : "None", comment);
}

/* Writes the constants above the Python classes. */
static int write_head(FILE *file, const struct checkpoint *checkpoint,
                      struct json_object *description, const char *weights, bool text,
                      struct error *error)
{
    const char *slash = strrchr(weights, '/');
    JSON_AUTO struct json_object *name = json_object_new_string(slash ? slash + 1 : weights);
    struct json_object *network = json_get(description, "network");
    double divide_by;

    fprintf(file,
            "%s: change it as you like, another export to this name writes it anew.\n"
            "\"\"\"A model that traind trained, for PyTorch: load() gives it with its weights, and "
            "it takes raw samples.\"\"\"\n"
            "import json\n"
            "from pathlib import Path\n\n"
            "import torch\n"
            "from torch import nn\n",
            marker);
    pytorch_network_write_imports(file, network);
    fputc('\n', file);
    write_literal(file, "NAME", json_get(description, "name"), "");
    fprintf(file, "STEP = %" PRId64 "  # of training that the weights are of\n",
            checkpoint->state.step);
    fprintf(file, "WEIGHTS = Path(__file__).with_name(%s)\n", json_text(name, NULL));
    write_literal(file, "INPUT", json_get(json_get(description, "input"), "shape"),
                  "  # of one sample");
    if (text)
        return write_vocabulary(file, checkpoint->texts.vocabulary, error);
    if (json_get(description, "heads"))
        write_literal(file, "HEADS", json_get(description, "heads"),
                      "  # name, classes (numbered from 0), labels of a sample");
    else if (json_get_bool(description, "classifies", false))
        write_literal(file, "CLASSES", json_get(description, "class_names"), "");
    if (json_get_bool(json_get(description, "input"), "sequence", false))
        return write_vocabulary(file, checkpoint->texts.vocabulary, error);
    if (json_get(description, "features"))
        write_literal(file, "FEATURES", json_get(description, "features"),
                      "  # of a sample, made from the columns of the table");
    if (json_get(description, "targets"))
        write_literal(file, "TARGETS", json_get(description, "targets"),
                      "  # the values to predict, in this order");
    if (json_get(description, "quantiles"))
        write_literal(file, "QUANTILES", json_get(description, "quantiles"),
                      "  # of each value, side by side");
    divide_by = json_get_double(json_get(description, "input"), "divide_by", 1);
    if (divide_by != 1)
        fprintf(file, "DIVIDE_BY = %.17g  # of the data: every number, before all else\n",
                divide_by);
    return write_normalisation(file, checkpoint->texts.normalisation, error);
}

static int write_sequence_parts(FILE *file, const char *text, struct error *error)
{
    struct dataset_vocabulary vocabulary;
    int r = dataset_vocabulary_parse(text, &vocabulary, error);

    if (r < 0)
        return r;
    fputs(sequence_part, file);
    fputs(vocabulary.tokens == DATASET_TOKENS_KMERS         ? kmers_part
          : vocabulary.tokens == DATASET_TOKENS_NUCLEOTIDES ? nucleotides_part
                                                            : symbols_part,
          file);
    dataset_vocabulary_release(&vocabulary);
    return 0;
}

/* Whether the constants of values to predict follow those of the samples. */
static bool has_targets(const char *normalisation)
{
    int blanks = 0;

    for (; normalisation && *normalisation; normalisation++)
        blanks += *normalisation == ' ';
    return blanks > 3;
}

/* A time series has samples of [rows, columns]. */
static const char *values_part_choose(struct json_object *description)
{
    struct json_object *shape = json_get(json_get(description, "input"), "shape");

    if (json_object_array_length(shape) != 2)
        return values_part;
    return json_get(description, "quantiles") ? quantiles_forecast_part : forecast_part;
}

static int write_module(FILE *file, const struct checkpoint *checkpoint, const char *weights,
                        struct json_object *description, struct error *error)
{
    bool text = json_get_bool(json_get(description, "input"), "text", false);
    int r = write_head(file, checkpoint, description, weights, text, error);

    if (r == 0)
        r = pytorch_network_write(file, json_get(description, "network"), &checkpoint->file, error);
    if (r < 0)
        return r;
    if (text)
        fputs(text_part, file);
    else if (json_get_bool(json_get(description, "input"), "sequence", false))
        r = write_sequence_parts(file, checkpoint->texts.vocabulary, error);
    else
        fprintf(file, samples_part,
                json_get_bool(json_get(description, "input"), "channels_last", false)
                    ? ".reshape(len(samples), *INPUT[1:], INPUT[0]).permute(0, 3, 1, 2)"
                    : "",
                json_get_double(json_get(description, "input"), "divide_by", 1) != 1
                    ? " / DIVIDE_BY"
                    : "");
    if (r < 0)
        return r;
    fputs(loading_part, file);
    if (has_targets(checkpoint->texts.normalisation))
        fputs(values_part_choose(description), file);
    if (json_get(description, "heads"))
        fputs(heads_part, file);
    else if (!text && json_get_bool(description, "classifies", false))
        fputs(prediction_part, file);
    return 0;
}

int pytorch_module_write(const struct checkpoint *checkpoint, const char *weights, const char *path,
                         struct error *error)
{
    JSON_AUTO struct json_object *description = NULL;
    const char *stored = checkpoint->texts.module;
    AUTO_FREE char *text = NULL;
    size_t size = 0;
    FILE *file;
    int r;

    if (!stored)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "an earlier traind wrote this checkpoint, which does not describe its "
                         "model: give the specification of its job with --spec (trainctl export "
                         "does), or leave the module out with --no-module");
    r = json_parse(stored, strlen(stored), &description, error);
    if (r < 0)
        return error_prefix(error, "the checkpoint's description of its model");
    file = open_memstream(&text, &size);
    if (!file)
        return error_set(error, -ENOMEM, "no memory to write %s", path);
    r = write_module(file, checkpoint, weights, description, error);
    if (fclose(file) != 0 && r == 0)
        r = error_set(error, -ENOMEM, "no memory to write %s", path);
    return r < 0 ? r : file_write_result(path, text, size, error);
}
