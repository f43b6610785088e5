/* keys.c: the table of configuration keys, and the parsing of their values. */
#include "base/text.h"
#include "daemon/config/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct config_key config_keys[] = {
    {"Access", "AdminGroup", VALUE_TEXT, offsetof(struct config, admin_group), "", 0, 0,
     "Members of this group may see and cancel every user's jobs, as root may, and edit when and "
     "where they run. Empty: no group."},
    {"Access", "PrivateJobs", VALUE_SWITCH, offsetof(struct config, private_jobs), "yes", 0, 0,
     "Whether users are kept from each other's jobs. Of another user's job they then see only the "
     "owner, the state, the device and the times; no name, metrics or reasons. Of programs that "
     "are not jobs they see neither name nor process id. Administrators see everything."},
    {"Access", "ConnectionsPerUser", VALUE_COUNT, offsetof(struct config, connections_per_user),
     "64", 1, 512, "How many connections one user may have open at the same time."},
    {"Access", "JobsPerUser", VALUE_COUNT, offsetof(struct config, jobs_per_user), "100000", 1, 1e9,
     "How many jobs of one user may be unfinished at the same time. Administrators have no limit; "
     "of what schedules make, root and the daemon's user alone have none."},
    {"Access", "MessageTimeout", VALUE_DURATION, offsetof(struct config, message_timeout_seconds),
     "10 s", 0.1, 3600, "How long a client that has sent part of a message may take for its rest."},
    {"Jobs", "CpuSlots", VALUE_COUNT, offsetof(struct config, cpu_slots), "0", 0, 1024,
     "How many jobs run on the CPU at the same time. Each gets an equal part of the cores, unless "
     "it declares some. 0: as many jobs as their cores allow; a job that declares none has all."},
    {"Jobs", "Calibrate", VALUE_SWITCH, offsetof(struct config, calibrate), "yes", 0, 0,
     "Whether the service measures how fast the CPU and each type of GPU is. It measures while "
     "nothing runs there, for some ten seconds, when the speed is not known or libraries or driver "
     "have changed."},
    {"Jobs", "PlanTimeout", VALUE_DURATION, offsetof(struct config, plan_timeout_seconds), "1 h", 0,
     604800,
     "How long the plan of a native job may take: it reads the data and decodes images. A longer "
     "plan fails the job. 0: no limit."},
    {"Jobs", "RetryLimit", VALUE_COUNT, offsetof(struct config, retry_limit), "3", 0, 1000,
     "How often a job that crashed is started again, unless its specification says otherwise "
     "(retry.limit)."},
    {"Jobs", "RetryBackoff", VALUE_DURATION, offsetof(struct config, retry_backoff_seconds), "1 s",
     0, 86400,
     "The pause before the first retry. It doubles with each further one (retry.backoff)."},
    {"Jobs", "SweepPointsMax", VALUE_COUNT, offsetof(struct config, sweep_points_max), "100000", 1,
     1e9, "How many jobs one sweep may have."},
    {"Jobs", "PriorityMax", VALUE_COUNT, offsetof(struct config, priority_max), "0", -1000, 1000,
     "The highest priority that users may give to their jobs. Administrators have no limit."},
    {"Jobs", "DependenciesPerUser", VALUE_COUNT, offsetof(struct config, dependencies_per_user),
     "100000", 0, 1e9,
     "How many jobs the jobs of one user may wait for (after), counted for each job that waits. "
     "One job may wait for at most 1000. Administrators have no limit."},
    {"Jobs", "DevicesPerUser", VALUE_COUNT, offsetof(struct config, devices_per_user), "0", 0, 1024,
     "How many devices the jobs of one user may run on at the same time. 0: no limit."},
    {"Jobs", "Shares", VALUE_TEXT, offsetof(struct config, shares), "", 0, 0,
     "Weights of users where several want the same devices, such as \"alice:2 bob:0.5\". Everybody "
     "else has 1."},
    {"Jobs", "StopGrace", VALUE_DURATION, offsetof(struct config, stop_grace_seconds), "30 s", 0,
     3600, "How long a job that is stopped may take to write its checkpoint. Then it is killed."},
    {"Jobs", "LogLimit", VALUE_BYTES, offsetof(struct config, log_limit_bytes), "1 GiB", 0, 1e15,
     "How much disk the output of one attempt may take. Of a longer output the beginning and the "
     "end stay, half of this each. traind looks every 30 seconds and at the attempt's end. 0: no "
     "limit."},
    {"Jobs", "TasksMax", VALUE_COUNT, offsetof(struct config, tasks_max), "", 0, 4194304,
     "How many processes and threads one job may have at the same time, where jobs have control "
     "groups. 0: no limit. Empty: 15% of what the machine allows, as systemd gives to a service."},
    {"Jobs", "OOMScoreAdjust", VALUE_COUNT, offsetof(struct config, oom_score_adjust), "500", 0,
     1000,
     "When memory runs out, the kernel kills processes of jobs before others. The higher this "
     "number, the sooner: oom_score_adj of proc(5)."},
    {"Jobs", "MoveAfter", VALUE_DURATION, offsetof(struct config, move_after_seconds), "20 s", 0,
     86400,
     "How long a job runs before it may be moved to another device, or stopped for a job that "
     "gains more from its device. Both cost it a restart."},
    {"Jobs", "HighWatermarkRatio", VALUE_RATIO, offsetof(struct config, high_watermark_ratio),
     "0.85", 0, 1,
     "The part of a device's memory that jobs and other programs together may fill. 0: no limit."},
    /* The gap between the two watermarks is what other programs may allocate before a job has to
     * leave. Without a gap the next small job would fill the device up to the mark again, and each
     * of their allocations would move a job. The gap is a tenth of the memory. */
    {"Jobs", "LowWatermarkRatio", VALUE_RATIO, offsetof(struct config, low_watermark_ratio),
     LOW_WATERMARK_DEFAULT, 0, 1,
     "The part of a device's memory beyond which no further job joins those that run there. 0: "
     "only the high watermark limits. The default is never above the high watermark, and 0 where "
     "that is 0."},
    {"Commands", "DefaultDevice", VALUE_DEFAULT_DEVICE, offsetof(struct config, default_device),
     "auto", 0, 0,
     "Where a command goes that names no device, if neither earlier runs nor a look at what it is "
     "tell whether it uses a GPU. `auto`: a GPU if there is one. `cpu`, `gpu`, or `any` of them."},
    {"Commands", "OverMemory", VALUE_OVER_MEMORY, offsetof(struct config, over_memory), "suspend",
     0, 0,
     "What happens to a command that takes more of a GPU's memory than it has booked, once what other "
     "jobs have booked there is in danger. `suspend`: it makes room and goes on later; one that "
     "cannot is ended if it declared resources.device_memory. `end`: it is ended. `tell`: it is only "
     "warned."},
    {"Commands", "ShellIdle", VALUE_DURATION, offsetof(struct config, shell_idle_seconds), "30 min",
     0, 604800,
     "After which time a shell of `trainctl shell` ends in which nothing happens: nothing is typed "
     "or printed, and its processes use neither CPU nor GPU. It is told before. 0: never."},
    {"Data", "Folder", VALUE_PATH, offsetof(struct config, data_folder), "", 0, 0,
     "The folder with the data that presets name (`trainctl presets`), for users who name none of "
     "their own by TRAIND_DATA. Empty: ~/.local/share/traind/data of each user."},
    {"Notify", "IdleCommand", VALUE_TEXT, offsetof(struct config, idle_command), "", 0, 0,
     "Program and arguments, separated by spaces, that run when the last job has ended. They run "
     "as traind's own user, without a shell, for 5 minutes at most. Empty: none."},
    {"Checkpoints", "DatabaseLimit", VALUE_BYTES, offsetof(struct config, database_limit_bytes),
     "64 MiB", 0, 1e12,
     "Larger checkpoints stay files in the job's folder. Smaller ones are kept in checkpoints.db."},
    {"Checkpoints", "KeptOfDone", VALUE_COUNT, offsetof(struct config, checkpoints_kept_of_done),
     "1", 0, 1000,
     "How many of its last checkpoints a job keeps beside the best one once it is done. Until then "
     "checkpoint.keep of the job counts. 1000: all of them."},
    {"Checkpoints", "CheckpointsPerAttempt", VALUE_COUNT,
     offsetof(struct config, checkpoints_per_attempt), "10000", 0, 1e9,
     "How many checkpoints of one attempt are kept at the same time. Beyond that no further one is "
     "taken. 0: no limit."},
    {"Checkpoints", "CheckpointBytesPerAttempt", VALUE_BYTES,
     offsetof(struct config, checkpoint_bytes_per_attempt), "256 GiB", 0, 1e15,
     "How large the checkpoints of one attempt may be together. Beyond that no further one is "
     "taken. A file with holes counts as if it had none. 0: no limit."},
    {"Checkpoints", "CheckpointsPerUser", VALUE_COUNT,
     offsetof(struct config, checkpoints_per_user), "100000", 0, 1e9,
     "How many checkpoints of all jobs of one user are kept at the same time. Beyond that no "
     "further one is taken. 0: no limit."},
    {"Checkpoints", "CheckpointBytesPerUser", VALUE_BYTES,
     offsetof(struct config, checkpoint_bytes_per_user), "1 TiB", 0, 1e15,
     "How large the checkpoints of all jobs of one user may be together. Beyond that no further "
     "one is taken. 0: no limit."},
    {"Snapshots", "BytesPerSnapshot", VALUE_BYTES, offsetof(struct config, bytes_per_snapshot),
     "1 GiB", 0, 1e15,
     "How large the files of one --snapshot may be together. A larger one is refused before "
     "anything is copied. 0: no limit."},
    {"Snapshots", "BytesPerUser", VALUE_BYTES, offsetof(struct config, snapshot_bytes_per_user),
     "64 GiB", 0, 1e15,
     "How large all snapshots of one user may be together. One that several jobs have counts once; "
     "it goes with the last of them. 0: no limit."},
    {"History", "Period", VALUE_DURATION, offsetof(struct config, history_period_seconds), "10 s",
     0, 60,
     "How often traind samples the use of devices and the length of the queue, for `trainctl devices "
     "--history` and traind-web. GPUs are read each time; those that may sleep, as a laptop's may, "
     "are neither woken nor kept awake by it. At least 100 ms. 0: never."},
    {"Nvidia", "Library", VALUE_TEXT, offsetof(struct config, nvidia_library), "libnvidia-ml.so.1",
     0, 0,
     "NVIDIA's management library, by which traind finds GPUs. It comes with the driver and is "
     "loaded at run time. Empty: traind looks for no GPUs."},
    {"Nvidia", "CudaLibrary", VALUE_TEXT, offsetof(struct config, cuda_library), "libcuda.so.1", 0,
     0,
     "NVIDIA's driver, by which commands leave GPUs without ending (docs/command-jobs.md). Only "
     "traind-suspend loads it. Empty: no command is suspended on a GPU."},
    {"Nvidia", "Backend", VALUE_PLUGIN, offsetof(struct config, nvidia_backend), "installed", 0, 0,
     "The plugin by which native jobs train on GPUs. `installed`: the one beside traind-worker; or "
     "an absolute path. Empty: none."},
    {"Nvidia", "MpsControl", VALUE_TEXT, offsetof(struct config, mps_control),
     "nvidia-cuda-mps-control", 0, 0,
     "The control program of NVIDIA's Multi-Process Service, a path or a name in PATH. Where it is "
     "installed, native jobs of one user that share a GPU run side by side, through a service of "
     "that user. Otherwise, and for different users, they take turns. Empty: they always take "
     "turns."},
    {"Nvidia", "WarmWorkers", VALUE_COUNT, offsetof(struct config, warm_workers), "0", 0, 16,
     "How many workers wait on each GPU with its context open, so that native jobs begin at once. "
     "Each holds some 530 MiB of the GPU's memory, which counts as used by others."},
    {"Vulkan", "Backend", VALUE_PLUGIN, offsetof(struct config, vulkan_backend), "installed", 0, 0,
     "The plugin by which traind finds GPUs through Vulkan, and by which native jobs train there. "
     "`installed`: the one beside traind-worker, if there is one; or an absolute path. Empty: "
     "traind looks for no such GPUs."},
    {"Vulkan", "SoftwareDevices", VALUE_SWITCH, offsetof(struct config, vulkan_software), "no", 0,
     0,
     "Whether drivers that compute on the CPU, such as Mesa's llvmpipe, count as GPUs. They are "
     "slower than the CPU without them; tests use them."},
    /* print.c adds which kinds there are to this help */
    {DEVICE_SECTION, "Kind", VALUE_KIND, offsetof(struct device_config, kind), "", 0, 0,
     "Simulated devices compute on the CPU, with a memory and a clock of their own."},
    {DEVICE_SECTION, "Enabled", VALUE_SWITCH, offsetof(struct device_config, enabled), "yes", 0, 0,
     "Whether jobs are placed on it."},
    {DEVICE_SECTION, "Slots", VALUE_COUNT, offsetof(struct device_config, slots), "", 0, 1024,
     "How many jobs run on it at once. 0: only memory limits them. Empty: CpuSlots on the CPU, 1 "
     "on a simulated device, on a GPU as many as memory and measured use allow."},
    {DEVICE_SECTION, "HighWatermarkRatio", VALUE_RATIO,
     offsetof(struct device_config, high_watermark_ratio), "", 0, 1,
     "As in [Jobs], for this device. Empty: as in [Jobs]."},
    {DEVICE_SECTION, "LowWatermarkRatio", VALUE_RATIO,
     offsetof(struct device_config, low_watermark_ratio), "", 0, 1,
     "As in [Jobs], for this device. Empty: as in [Jobs]."},
    {DEVICE_SECTION, "Speed", VALUE_RATIO, offsetof(struct device_config, speed), "1", 1e-3, 1e6,
     "How fast a simulated device does arithmetic, as a multiple of this CPU."},
    {DEVICE_SECTION, "Bandwidth", VALUE_RATIO, offsetof(struct device_config, bandwidth), "0", 0,
     1e6,
     "The memory bandwidth of a simulated device, as a multiple of this CPU's. 0: the same as "
     "Speed."},
    {DEVICE_SECTION, "LaunchLatency", VALUE_DURATION,
     offsetof(struct device_config, launch_seconds), "0", 0, 60,
     "The time that each kernel takes to start on a simulated device."},
    {DEVICE_SECTION, "Memory", VALUE_BYTES, offsetof(struct device_config, memory), "8 GiB", 1,
     1e15, "The memory of a simulated device."},
    {DEVICE_SECTION, "UnifiedMemory", VALUE_SWITCH, offsetof(struct device_config, unified_memory),
     "no", 0, 0,
     "Whether a simulated device has its memory with the CPU, as an integrated GPU does: then what "
     "jobs hold on both keeps to the CPU's watermarks together, and Memory is the most that the "
     "device may have of it. A change takes effect at the next start."},
    {DEVICE_SECTION, "LossError", VALUE_RATIO, offsetof(struct device_config, loss_error), "0", 0,
     1e3,
     "The part by which a simulated device tells losses too high, to try what notices it: "
     "`trainctl verify`, and jobs that move."},
    {DEVICE_SECTION, "Calibration", VALUE_PATH, offsetof(struct device_config, calibration), "", 0,
     0,
     "The file with this CPU's speeds, as `traind-worker calibrate` prints them. A simulated "
     "device multiplies them. Empty: those that are kept for the job's user; without such they are "
     "measured once."},
    {DEVICE_SECTION, "OutsideFile", VALUE_PATH, offsetof(struct device_config, outside_file), "", 0,
     0,
     "A file with a number of bytes: what programs outside hold of a simulated device's memory. "
     "traind reads it again when it changes. Without the file they hold nothing."},
};
enum { KEY_COUNT = sizeof config_keys / sizeof *config_keys };
const int config_key_count = KEY_COUNT;

const char *config_key_unit(enum value_type type)
{
    switch (type) {
    case VALUE_COUNT:
        return "a whole number";
    case VALUE_RATIO:
        return "a number";
    case VALUE_PATH:
        return "an absolute path";
    case VALUE_PLUGIN:
        return "installed, or an absolute path";
    case VALUE_SWITCH:
        return "yes or no";
    case VALUE_KIND:
        return "a kind of device";
    case VALUE_OVER_MEMORY:
        return "suspend, end or tell";
    case VALUE_DEFAULT_DEVICE:
        return "auto, cpu, gpu or any";
    case VALUE_DURATION:
        return "a duration (\"500 ms\", \"10 s\", \"5 min\")";
    case VALUE_BYTES:
        return "a size (\"64 MiB\", \"1G\")";
    default:
        return "text";
    }
}

const char *config_key_nearest(const char *section, const char *word)
{
    const char *names[KEY_COUNT];
    size_t count = 0;

    for (int i = 0; i < KEY_COUNT; i++)
        if (!section || strcmp(config_keys[i].section, section) == 0)
            names[count++] = section ? config_keys[i].name : config_keys[i].section;
    return text_nearest(word, names, count);
}

/* ---- values ---------------------------------------------------------------------------------- */

static int parse_number(const struct config_key *key, const char *text, double *number)
{
    char *end;
    uint64_t bytes;

    switch (key->type) {
    case VALUE_DURATION:
        return text_parse_duration(text, number);
    case VALUE_BYTES:
        if (text_parse_bytes(text, &bytes) < 0)
            return -EINVAL;
        *number = (double)bytes;
        return 0;
    default:
        *number = strtod(text, &end);
        if (end == text || *end || !isfinite(*number) ||
            (key->type == VALUE_COUNT && *number != floor(*number)))
            return -EINVAL;
        return 0;
    }
}

bool config_key_is_text(const struct config_key *key)
{
    return key->type == VALUE_TEXT || key->type == VALUE_PATH || key->type == VALUE_PLUGIN;
}

bool config_key_is_of_device(const struct config_key *key)
{
    return strcmp(key->section, DEVICE_SECTION) == 0;
}

static int refuse_value(const struct config_key *key, const char *text, struct error *error)
{
    return error_set(error, -EINVAL, "%s has to be %s, not \"%s\"", key->name,
                     config_key_unit(key->type), text);
}

static int set_text(const struct config_key *key, const char *text, char **place,
                    struct error *error)
{
    char *copy;

    bool is_path =
        key->type == VALUE_PATH || (key->type == VALUE_PLUGIN && strcmp(text, "installed") != 0);

    if (is_path && *text && *text != '/')
        return refuse_value(key, text, error);
    if (!(copy = strdup(text)))
        return error_no_memory(error, "the value of %s", key->name);
    free(*place);
    *place = copy;
    return 0;
}

static int set_switch(const struct config_key *key, const char *text, bool *place,
                      struct error *error)
{
    static const char *const words[] = {"no", "yes", "false", "true", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0) {
            *place = i % 2;
            return 0;
        }
    return refuse_value(key, text, error);
}

static int set_default_device(const struct config_key *key, const char *text,
                              enum default_device *place, struct error *error)
{
    int value = default_device_from_string(text);

    if (value < 0)
        return refuse_value(key, text, error);
    *place = (enum default_device)value;
    return 0;
}

static int set_over_memory(const struct config_key *key, const char *text, enum over_memory *place,
                           struct error *error)
{
    int value = over_memory_from_string(text);

    if (value < 0)
        return refuse_value(key, text, error);
    *place = (enum over_memory)value;
    return 0;
}

int config_key_set(void *base, const struct config_key *key, const char *text, struct error *error)
{
    void *place = (char *)base + key->offset;
    bool general = !*text && !*key->fallback; /* a number returns to the general rule */
    double number = 0;

    if (config_key_is_text(key))
        return set_text(key, text, place, error);
    if (key->type == VALUE_SWITCH)
        return set_switch(key, text, place, error);
    if (key->type == VALUE_OVER_MEMORY)
        return set_over_memory(key, text, place, error);
    if (key->type == VALUE_DEFAULT_DEVICE)
        return set_default_device(key, text, place, error);
    if (!general && parse_number(key, text, &number) < 0)
        return refuse_value(key, text, error);
    if (!general && (number < key->minimum || number > key->maximum))
        return error_set(error, -ERANGE, "%s has to lie between %g and %g, not \"%s\"", key->name,
                         key->minimum, key->maximum, text);
    if (key->type == VALUE_COUNT)
        *(int64_t *)place = general ? -1 : (int64_t)number;
    else if (key->type == VALUE_BYTES)
        *(uint64_t *)place = (uint64_t)number;
    else
        *(double *)place = general ? NAN : number;
    return 0;
}
