/* job_spec_schema.c: the table of the job specification: every key with type, range, default, unit
 * and one line of help. The keys of `model`, `data` and `train` are in separate files. job_spec.c
 * checks specifications by the table, and job_spec_help.c prints it. */
#include "proto/job_spec_schema_table.h"

#include <stdio.h>
#include <string.h>

static const struct job_spec_key retry_keys[] = {
    {"limit", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 100,
     .help = "How often the job is tried again: a native job after a crash, from its last "
             "checkpoint; a command after any failure. When absent: the daemon's RetryLimit for "
             "native jobs, 0 for commands"},
    {"backoff", JOB_SPEC_DURATION, .from = 0, .to = 86400, .unit = "seconds",
     .help = "The pause before the first retry; it doubles with each. When absent: the daemon's "
             "RetryBackoff"},
};
SECTION(retry, NULL);

static const struct job_spec_key device_keys[] = {
    {"prefer", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 64, .fallback = "\"auto\"",
     .help =
         "A device (cuda:0) or a kind of device (cpu, cuda, vulkan, simulated). The job uses it "
         "if it can run there; auto: the device that finishes the job first. A GPU that CUDA "
         "and Vulkan drive is used by CUDA, unless this is vulkan"},
    {"allow", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 16,
     .help =
         "Devices or kinds of device that the job may use; gpu: all GPUs, for a command not those "
         "of Vulkan; any: all devices. When "
         "absent: all devices, but for a command without device_memory those where it probably "
         "belongs (guess)"},
    {"deny", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 16,
     .help = "Devices or kinds of device that the job may not use"},
    {"force", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 64,
     .help = "The only device that the job may use; allow is then ignored"},
    {"fallback", JOB_SPEC_BOOLEAN, .fallback = "true",
     .help =
         "Whether the job may run on other devices than it prefers. false: it waits while those "
         "are busy, draining or lost, and is refused if there is no such device. With prefer "
         "auto it fails if one of its devices cannot run it"},
    {"guess", JOB_SPEC_CHOICE, .choices = CHOICES("cpu", "gpu"),
     .help = "Where a command that names no device probably belongs. trainctl sees that from what "
             "the command is. Earlier runs of the command count more, DefaultDevice counts less"},
    {"guess_reason", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 200,
     .help = "What the guess rests on, such as \"train.py imports torch\""},
    {"threads", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1024, .fallback = "0", .unit = "threads",
     .help = "Threads of the training; 0: as many as the cores booked"},
};
SECTION(device, NULL);

static const struct job_spec_key checkpoint_keys[] = {
    {"every", JOB_SPEC_INTERVAL, .fallback = "\"1 epoch\"",
     .help =
         "How often a checkpoint is written, such as \"2 epochs\", \"500 steps\" or \"10 min\""},
    {"keep", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000, .fallback = "3",
     .help = "How many of the latest checkpoints are kept, in addition to the best one"},
    {"best", JOB_SPEC_METRIC, .choices = METRICS, .fallback = "\"validation_loss\"",
     .null_is_value = true,
     .help =
         "The metric that selects the best checkpoint, which is kept, exported and tested; null: "
         "none. When absent: the metric of early_stop, else validation_loss, or train_loss "
         "without a validation set"},
};
SECTION(checkpoint, NULL);

static const struct job_spec_key weights_keys[] = {
    {"file", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = 4096,
     .help = "A file of weights in the safetensors format, with the names of PyTorch's state_dict. "
             "A text instead of the object means it"},
    {"job", JOB_SPEC_INTEGER, .minimum = 1, .maximum = INT64_MAX,
     .help = "A job that has ended, of the same user: the weights of its best checkpoint, which an "
             "export would take. A number instead of the object means it"},
    {"step", JOB_SPEC_INTEGER, .minimum = 0, .maximum = INT64_MAX, .unit = "steps",
     .help = "The checkpoint of the job, instead of its best one"},
    {"continue", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Go on from the job's last checkpoint, with its optimizer, epochs and order of data; "
             "train.epochs counts from the beginning. `trainctl continue` makes such jobs"},
    {"prefix", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = 64,
     .help = "What stands before the names in the file, such as \"module.\""},
    {"new", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 256,
     .help = "Shell patterns of parameters that are not taken but drawn by train.seed, such as "
             "\"fc.*\" for a head with other classes; the name of a module means all parameters "
             "below it"},
};
SECTION(weights, NULL);

static const struct job_spec_key resources_keys[] = {
    {"cores", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 4096, .unit = "cores",
     .help = "Cores that the command uses, at most as many as jobs may use on this machine. When "
             "absent: as many as earlier runs kept busy; without earlier runs all cores, or one "
             "slot's share if CpuSlots is set"},
    {"memory", JOB_SPEC_BYTES, .minimum = 1048576, .maximum = INT64_C(1) << 50, .unit = "bytes",
     .help = "Memory that the command may use. When absent: learnt from its earlier runs"},
    {"device_memory", JOB_SPEC_BYTES, .minimum = 0, .maximum = INT64_C(1) << 50, .unit = "bytes",
     .help = "Memory of the device that the command may use. With it, the command runs on an "
             "accelerator"},
    {"devices", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 16, .fallback = "1",
     .help = "How many devices of one kind the command uses at once"},
    {"time", JOB_SPEC_DURATION, .from = 0, .to = 1e9, .above_from = true, .unit = "seconds",
     .help = "How long the command is expected to take. When absent: what earlier runs took"},
};
SECTION(resources, NULL);

static const struct job_spec_key notify_keys[] = {
    {"end", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .help = "Program and arguments that run when the job has ended, whether it succeeded or not"},
    {"failure", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .help = "Program and arguments that run when the job has failed"},
};
SECTION(notify, NULL);

static const struct job_spec_key snapshot_keys[] = {
    {"id", JOB_SPEC_NAME, .count_minimum = 64, .count_maximum = 64, .required = true,
     .help = "The snapshot, by its SHA-256; trainctl takes it (--snapshot) and sets these keys"},
    {"folder", JOB_SPEC_ABSOLUTE_PATH, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX,
     .required = true,
     .help =
         "The folder that it was taken of. The directory of the job lies in it; the job runs in "
         "the same place of the copy"},
    {"commit", JOB_SPEC_NAME, .count_minimum = 4, .count_maximum = 64,
     .help = "The commit of git that was checked out"},
    {"changed", JOB_SPEC_BOOLEAN,
     .help = "Whether the files differed from that commit; `trainctl show --diff` prints how"},
    {"files", JOB_SPEC_INTEGER, .minimum = 0, .maximum = INT64_MAX, .unit = "files",
     .help = "How many files it has"},
    {"bytes", JOB_SPEC_BYTES, .minimum = 0, .maximum = INT64_MAX, .unit = "bytes",
     .help = "How large they are together"},
};
SECTION(snapshot, NULL);

static const struct job_spec_key job_keys[] = {
    {"name", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 128,
     .help =
         "The name that lists show. When absent: the program's name for a command, else \"job\""},
    {"priority", JOB_SPEC_INTEGER, .minimum = -1000, .maximum = 1000, .fallback = "0",
     .help = "Jobs with a higher priority start first. Users give at most the daemon's "
             "PriorityMax; administrators have no limit"},
    {"put_first", JOB_SPEC_NUMBER, .from = 0, .to = 253402300799.0,
     .unit = "seconds since 1970 (UTC)",
     .help =
         "When the job was put before its user's other waiting jobs of its priority; the latest "
         "goes first. `trainctl first` sets it"},
    {"directory", JOB_SPEC_ABSOLUTE_PATH, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX,
     .fallback = "\"/\"",
     .help = "The folder in which the job runs and relative paths start. trainctl sets it to the "
             "current one"},
    {"snapshot", JOB_SPEC_OBJECT, .section = &snapshot_section, .variants = "command",
     .help = "The frozen code that the command runs instead of what lies in its directory"},
    {"environment", JOB_SPEC_VARIABLES, .fallback = "{}",
     .help = "Environment variables that the job gets"},
    {"shell_environment", JOB_SPEC_VARIABLES, .variants = "command",
     .help =
         "The environment of the shell that submitted the command, as `trainctl run` passes it. "
         "environment overrides it. It does not decide which earlier runs traind learns from"},
    {"retry", JOB_SPEC_OBJECT, .section = &retry_section, .fallback = "{}",
     .help = "What happens after a failure"},
    {"after", JOB_SPEC_DEPENDENCIES, .count_maximum = 1000,
     .help =
         "Jobs that must end before this one starts. With \"success\" (the default) this one is "
         "cancelled when they fail. {\"sweep\": n} means every job of the sweep whose first job "
         "is n; {\"index\": i} means specification i, counted from 0, of the same submission"},
    {"at", JOB_SPEC_NUMBER, .from = 0, .to = 253402300799.0, .unit = "seconds since 1970 (UTC)",
     .help = "When the job may start, not before; the option --at of trainctl takes words such as "
             "\"tomorrow 03:00\""},
    {"hold", JOB_SPEC_BOOLEAN, .help = "Whether the job waits until `trainctl release`"},
    {"group", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 64,
     .help =
         "The group of the job. `trainctl group set` limits how many jobs of a group run at once"},
    {"notify", JOB_SPEC_OBJECT, .section = &notify_section,
     .help = "Commands that run as the job's user, without a shell, once the job has ended"},
    {"time_limit", JOB_SPEC_DURATION, .from = 0, .to = 1e9, .above_from = true, .unit = "seconds",
     .help = "The longest time that one attempt may take, such as \"2 h\""},
    {"command", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .required = true, .variants = "command",
     .help = "Program and arguments. A command has no model, data and train"},
    {"resources", JOB_SPEC_OBJECT, .section = &resources_section, .variants = "command",
     .fallback = "{}", .help = "What a command needs. For a native job traind works this out"},
    {"preemptible", JOB_SPEC_BOOLEAN, .variants = "command", .fallback = "false",
     .help = "Whether the command saves its state at checkpoint_signal and goes on from there when "
             "it is started again. Such a command may be moved or preempted. When absent: true if "
             "checkpoint_signal or checkpoint_grace is given, else false"},
    {"checkpoint_signal", JOB_SPEC_CHOICE,
     .choices = CHOICES("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"),
     .variants = "command",
     .help =
         "The signal that asks the command to save its state and end, with exit status 75 or by "
         "the signal. When absent: SIGTERM. Only the command gets it, not its children"},
    {"checkpoint_grace", JOB_SPEC_DURATION, .from = 0, .to = 86400, .variants = "command",
     .unit = "seconds",
     .help =
         "How long the command may take to save its state before it is killed. When absent: the "
         "daemon's StopGrace"},
    {"model", JOB_SPEC_OBJECT, .section = &job_spec_model_section, .required = true,
     .variants = "native", .help = "The model that is trained"},
    {"data", JOB_SPEC_OBJECT, .section = &job_spec_data_section, .required = true,
     .variants = "native", .help = "The data that the model learns from"},
    {"weights", JOB_SPEC_OBJECT, .section = &weights_section, .variants = "native",
     .help = "The weights that the training begins with; when absent they are drawn by train.seed"},
    {"train", JOB_SPEC_OBJECT, .section = &job_spec_train_section, .variants = "native",
     .fallback = "{}", .help = "How the model is trained"},
    {"checkpoint", JOB_SPEC_OBJECT, .section = &checkpoint_section, .variants = "native",
     .fallback = "{}", .help = "Which checkpoints are kept, and how often they are written"},
    {"device", JOB_SPEC_OBJECT, .section = &device_section, .fallback = "{}",
     .help = "The devices that the job may run on"},
};

const struct job_spec_section job_spec_schema = {job_keys, sizeof job_keys / sizeof *job_keys, NULL,
                                                 NULL};

/* ---- reading the table --------------------------------------------------------------------- */

const struct job_spec_key *job_spec_key_find(const struct job_spec_section *section,
                                             const char *name)
{
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->keys[i].name, name) == 0)
            return &section->keys[i];
    return NULL;
}

/* The key in the variant's row; NULL: the row does not name it. */
static const struct job_spec_variant_key *find_in_variant(const struct job_spec_variant *variant,
                                                          const struct job_spec_key *key)
{
    for (const struct job_spec_variant_key *k = variant->keys; k->name; k++)
        if (strcmp(k->name, key->name) == 0)
            return k;
    return NULL;
}

const struct job_spec_variant *job_spec_variant_find(const struct job_spec_section *section,
                                                     const char *name)
{
    for (const struct job_spec_variant *v = section->variants; v && v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

char *job_spec_key_variants(const struct job_spec_section *section, const struct job_spec_key *key,
                            char *output, size_t size)
{
    bool all = true;
    size_t used = 0;

    *output = '\0';
    if (key->variants) {
        snprintf(output, size, "%s", key->variants);
        return output;
    }
    for (const struct job_spec_variant *v = section->variants; v && v->name && used < size; v++) {
        bool has = find_in_variant(v, key);

        all &= has;
        if (has)
            used += (size_t)snprintf(output + used, size - used, "%s%s", used ? " " : "", v->name);
    }
    return used && !all ? output : NULL;
}

/* Whether `word` is one of `words`, which spaces separate. */
static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    while (*words) {
        size_t this = strcspn(words, " ");

        if (this == length && memcmp(words, word, length) == 0)
            return true;
        words += this;
        words += *words == ' ';
    }
    return false;
}

bool job_spec_key_applies(const struct job_spec_section *section, const struct job_spec_key *key,
                          const char *variant)
{
    const struct job_spec_variant *own;
    bool any = false, all = true;

    if (key->variants)
        return variant && has_word(key->variants, variant);
    own = variant ? job_spec_variant_find(section, variant) : NULL;
    if (own && find_in_variant(own, key))
        return true;
    for (const struct job_spec_variant *v = section->variants; v && v->name; v++) {
        bool has = find_in_variant(v, key);

        any |= has;
        all &= has;
        if (any && !all)
            return false;
    }
    return true;
}

const char *job_spec_key_fallback(const struct job_spec_section *section,
                                  const struct job_spec_key *key, const char *variant)
{
    const struct job_spec_variant *row = variant ? job_spec_variant_find(section, variant) : NULL;
    const struct job_spec_variant_key *own = row ? find_in_variant(row, key) : NULL;

    if (own && own->fallback)
        return own->fallback;
    for (const struct job_spec_fallback *f = key->fallbacks; f && f->variant; f++)
        if (variant && strcmp(f->variant, variant) == 0)
            return f->json;
    return key->fallback;
}

static void describe_choices(const struct job_spec_key *key, const char *before, char *output,
                             size_t size)
{
    size_t used = (size_t)snprintf(output, size, "%s", before);

    for (size_t i = 0; key->choices[i] && used < size; i++)
        used +=
            (size_t)snprintf(output + used, size - used, "%s%s", i ? ", " : "", key->choices[i]);
}

static void describe_numbers(const struct job_spec_key *key, const char *before, char *output,
                             size_t size)
{
    snprintf(output, size, "%s%s %.10g %s %.10g", before,
             key->above_from ? " greater than"
             : key->below_to ? " of at least"
                             : " from",
             key->from,
             key->below_to     ? "and less than"
             : key->above_from ? "and at most"
                               : "to",
             key->to);
}

/* Writes, for example, "random_crop:PADDING (1 to 1024), horizontal_flip". */
static void describe_operations(const struct job_spec_key *key, char *output, size_t size)
{
    size_t used = (size_t)snprintf(output, size, "an array with some of ");

    for (const struct job_spec_operation *o = key->operations; o->name && used < size; o++) {
        const char *comma = o == key->operations ? "" : ", ";

        if (o->argument)
            used += (size_t)snprintf(output + used, size - used, "%s\"%s:%s\" (%s%.10g to %.10g)",
                                     comma, o->name, o->argument,
                                     o->whole ? "an integer from " : "", o->from, o->to);
        else
            used += (size_t)snprintf(output + used, size - used, "%s\"%s\"", comma, o->name);
    }
}

static void describe_list(const struct job_spec_key *key, const char *what, char *output,
                          size_t size)
{
    if (key->count_minimum == key->count_maximum)
        snprintf(output, size, "an array of %zu %s", key->count_minimum, what);
    else
        snprintf(output, size, "an array of %zu to %zu %s", key->count_minimum, key->count_maximum,
                 what);
}

/* NOLINTNEXTLINE(readability-function-size): a case for each type */
char *job_spec_key_describe(const struct job_spec_key *key, char *output, size_t size)
{
    long long minimum = key->minimum, maximum = key->maximum;
    char what[128];

    switch (key->type) {
    case JOB_SPEC_OBJECT:
        snprintf(output, size, "an object");
        break;
    case JOB_SPEC_OBJECTS:
        describe_list(key, "objects", output, size);
        break;
    case JOB_SPEC_OBJECT_LISTS:
        describe_list(key, "arrays of objects", output, size);
        break;
    case JOB_SPEC_BOOLEAN:
        snprintf(output, size, "true or false");
        break;
    case JOB_SPEC_INTEGER:
        snprintf(what, sizeof what, "an integer from %lld to %lld%s", minimum, maximum,
                 !key->choices     ? ""
                 : key->choices[1] ? " or one of "
                                   : " or ");
        if (key->choices)
            describe_choices(key, what, output, size);
        else
            snprintf(output, size, "%s", what);
        break;
    case JOB_SPEC_NUMBER:
        describe_numbers(key, "a number", output, size);
        break;
    case JOB_SPEC_DURATION:
        describe_numbers(key, "a duration such as \"10 min\" or a number of seconds", output, size);
        break;
    case JOB_SPEC_BYTES:
        snprintf(output, size, "a size such as \"2 GiB\" or a number of bytes from %lld to %lld",
                 minimum, maximum);
        break;
    case JOB_SPEC_CHOICE:
        describe_choices(key, key->choices[1] ? "one of " : "", output, size);
        break;
    case JOB_SPEC_METRIC:
        snprintf(what, sizeof what, METRIC_OF_HEAD " of a head of model.output_heads, or one of ",
                 "NAME");
        describe_choices(key, what, output, size);
        break;
    case JOB_SPEC_SWITCH:
        describe_choices(key, "true, false or one of ", output, size);
        break;
    case JOB_SPEC_TEXT:
    case JOB_SPEC_NAME:
        if (key->count_minimum == key->count_maximum && key->count_minimum == 1)
            snprintf(output, size, "a text of one character");
        else if (key->count_minimum == key->count_maximum)
            snprintf(output, size, "a text of %zu bytes", key->count_minimum);
        else
            snprintf(output, size, "a text of %zu to %zu bytes%s", key->count_minimum,
                     key->count_maximum,
                     key->type == JOB_SPEC_NAME ? " without control characters" : "");
        break;
    case JOB_SPEC_ABSOLUTE_PATH:
        snprintf(output, size, "an absolute path (one that begins with /)");
        break;
    case JOB_SPEC_COLUMN:
        snprintf(output, size, "a text, or an integer from %lld to %lld", minimum, maximum);
        break;
    case JOB_SPEC_TEXTS:
        describe_list(key, "texts, the first of them not empty", what, sizeof what);
        snprintf(output, size, "%s%s", key->list_only ? "" : "a text or ", what);
        break;
    case JOB_SPEC_CHOICES:
        describe_choices(key, "an array with some of ", output, size);
        break;
    case JOB_SPEC_INTEGERS:
        snprintf(what, sizeof what, "integers from %lld to %lld", minimum, maximum);
        describe_list(key, what, output, size);
        break;
    case JOB_SPEC_NUMBERS:
        describe_numbers(key, "numbers", what, sizeof what);
        describe_list(key, what, output, size);
        break;
    case JOB_SPEC_PAIR:
        snprintf(output, size, "an integer from %lld to %lld, or an array of two", minimum,
                 maximum);
        break;
    case JOB_SPEC_VARIABLES:
        snprintf(output, size, "an object of texts");
        break;
    case JOB_SPEC_WEIGHTS:
        describe_numbers(key, "numbers", what, sizeof what);
        snprintf(output, size, "balanced, an array or an object of %s", what);
        break;
    case JOB_SPEC_OPERATIONS:
        describe_operations(key, output, size);
        break;
    case JOB_SPEC_DEPENDENCIES:
        snprintf(output, size,
                 "an array of 0 to %zu numbers of jobs or {\"job\" or \"sweep\": number, \"on\": "
                 "\"success\" or \"end\"}",
                 key->count_maximum);
        break;
    case JOB_SPEC_INTERVAL:
        snprintf(output, size, "%s",
                 key->counts_only
                     ? "a text such as \"2 epochs\" or \"500 steps\""
                     : "a text such as \"2 epochs\", \"500 steps\" or \"10 min\", from one step "
                       "or 1 ms upwards");
        break;
    }
    return output;
}
