/* spec_options.c: see spec_options.h. */
#include "client/submission/spec_options.h"

#include <string.h>

const struct spec_option spec_options[] = {
    {"name", NULL, "name", false, 0},
    {"memory", "resources", "memory", false, 0},
    {"device-memory", "resources", "device_memory", false, 0},
    {"gpu-memory", "resources", "device_memory", false, 0},
    {"time", "resources", "time", false, 0},
    {"time-limit", NULL, "time_limit", false, 0},
    {"checkpoint-signal", NULL, "checkpoint_signal", false, 0},
    {"checkpoint-grace", NULL, "checkpoint_grace", false, 0},
    {"cores", "resources", "cores", true, 1},
    {"devices", "resources", "devices", true, 1},
    {"priority", NULL, "priority", true, -1000},
    {NULL, NULL, NULL, false, 0},
};

static const char saves_itself[] = "a native job saves its state whenever it has to make room";

/* The object of that name, or `spec` itself; created if it is missing. NULL: the specification has
 * something else there, which is said. */
static struct json_object *section_of(struct json_object *spec, const char *name)
{
    struct json_object *section = name ? json_get(spec, name) : spec;

    if (!section)
        json_set(spec, name, section = json_object_new_object());
    if (json_object_is_type(section, json_type_object))
        return section;
    complain("%s of the specification is no object, so no key of it can be set", name);
    return NULL;
}

static bool is_native(struct json_object *spec)
{
    return json_get(spec, "model") && !json_get(spec, "command");
}

/* Says what a native job does instead of what the option asks for. */
static enum exit_status refuse_native(const char *option, const char *instead)
{
    complain("--%s is for commands: %s", option, instead);
    return EXIT_STATUS_USAGE;
}

static enum exit_status key_set(const struct invocation *invocation, const struct spec_option *o,
                                struct json_object *spec)
{
    const char *text = invocation_option(invocation, o->option);
    struct json_object *section;
    int64_t value = 0;

    if (!text)
        return EXIT_STATUS_DONE;
    if (o->section && is_native(spec))
        return refuse_native(o->option, "a native job trains on one device, and its plan says what "
                                        "it needs (`trainctl plan SPEC`)");
    if (strncmp(o->option, "checkpoint-", 11) == 0 && is_native(spec))
        return refuse_native(o->option, saves_itself);
    if (o->integer && invocation_option_integer(invocation, o->option, o->minimum, &value))
        return EXIT_STATUS_USAGE;
    section = section_of(spec, o->section);
    if (!section)
        return EXIT_STATUS_USAGE;
    if (o->integer)
        json_set_int(section, o->key, value);
    else
        json_set_string(section, o->key, text);
    return EXIT_STATUS_DONE;
}

static bool wants_gpus(const struct invocation *invocation)
{
    return invocation_flag(invocation, "gpu") || invocation_flag(invocation, "gpus");
}

/* Takes the CPU out of the devices of --device: "any" stands for the GPUs of all kinds then. */
static struct json_object *gpus_of(struct json_object *devices)
{
    struct json_object *gpus = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(devices, i));

        if (strcmp(name, "cpu") != 0)
            json_object_array_add(gpus,
                                  json_object_new_string(strcmp(name, "any") == 0 ? "gpu" : name));
    }
    return gpus;
}

/* Reads --device. *words NULL: it is not given. */
static enum exit_status device_words_read(const struct invocation *invocation,
                                          struct json_object **words)
{
    struct json_object *given = invocation_option_words(invocation, "device"), *gpus;
    bool memory = invocation_flag(invocation, "gpu-memory");

    *words = given;
    if (!given || json_object_array_length(given) == 0 || (!wants_gpus(invocation) && !memory))
        return EXIT_STATUS_DONE; /* the daemon refuses an empty list */
    gpus = gpus_of(given);
    if (json_object_array_length(gpus) == 0) {
        complain("--device names the CPU alone, and --%s asks for a GPU; leave one of both out",
                 !wants_gpus(invocation)               ? "gpu-memory"
                 : invocation_flag(invocation, "gpus") ? "gpus"
                                                       : "gpu");
        json_object_put(gpus);
        json_object_put(given);
        return EXIT_STATUS_USAGE;
    }
    if (wants_gpus(invocation))
        *words = gpus;
    json_object_put(wants_gpus(invocation) ? given : gpus);
    return EXIT_STATUS_DONE;
}

/* Applies --device cuda:0,cpu: the devices that the job may run on, by name, id or kind; and --gpu
 * and --gpus N: that many GPUs, of those that --device names. */
static enum exit_status devices_set(const struct invocation *invocation, struct json_object *spec)
{
    struct json_object *words, *device, *section;
    int64_t count = 1;

    if (device_words_read(invocation, &words))
        return EXIT_STATUS_USAGE;
    device = json_object_new_object();
    if (words || wants_gpus(invocation))
        json_set(spec, "device", device);
    else
        json_object_put(device);
    if (words)
        json_set(device, "allow", words);
    if (!wants_gpus(invocation))
        return EXIT_STATUS_DONE;
    if (!words)
        json_set_string(device, "force", "gpu");
    if (invocation_option(invocation, "gpus") &&
        invocation_option_integer(invocation, "gpus", 1, &count))
        return EXIT_STATUS_USAGE;
    if (count == 1 && (!json_get(spec, "resources") || invocation_option(invocation, "devices")))
        return EXIT_STATUS_DONE;
    if (is_native(spec))
        return refuse_native("gpus", "a native job trains on one device; --gpu lets it be a GPU");
    section = section_of(spec, "resources");
    if (!section)
        return EXIT_STATUS_USAGE;
    json_set_int(section, "devices", count);
    return EXIT_STATUS_DONE;
}

enum exit_status spec_options_apply(const struct invocation *invocation, struct json_object *spec)
{
    for (const struct spec_option *o = spec_options; o->option; o++) {
        enum exit_status status = key_set(invocation, o, spec);

        if (status)
            return status;
    }
    if (invocation_flag(invocation, "preemptible") && is_native(spec))
        return refuse_native("preemptible", saves_itself);
    if (invocation_flag(invocation, "preemptible"))
        json_set_bool(spec, "preemptible", true);
    return devices_set(invocation, spec);
}

bool spec_options_are_given(const struct invocation *invocation)
{
    static const struct command_option known[] = {SPEC_OPTIONS};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (invocation_flag(invocation, known[i].name))
            return true;
    return false;
}
