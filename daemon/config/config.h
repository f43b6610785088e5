/* config.h: the daemon's configuration. One table (keys.c) holds every key with its section, unit,
 * default, range and help. Reading files, `traind --help-config`, docs/configuration.md and
 * etc/traind.conf all use that table. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "daemon/types/device_kind.h"
#include "daemon/types/device_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A section [Device NAME]. The name says which kind of device it is. If no real device can have the
 * name, Kind says which; such a simulated device exists because it is configured. The fields marked
 * `simulated` apply only to those. */
struct device_config {
    char *name;
    const struct device_kind *kind;
    bool enabled;
    int64_t slots; /* jobs at once; 0: only memory limits them; -1: the general rule */
    double high_watermark_ratio; /* NAN: the general ratio; config_high_watermark() */
    double low_watermark_ratio;
    double speed;          /* simulated: arithmetic, times this CPU's */
    double bandwidth;      /* simulated: memory bandwidth, times this CPU's; 0: as `speed` */
    uint64_t memory;       /* simulated: bytes */
    bool unified_memory;   /* simulated: they are the machine's */
    double launch_seconds; /* simulated: per kernel */
    double loss_error;     /* simulated: part by which losses are told wrong */
    char *calibration;     /* simulated: file with this CPU's speeds; "": the cached ones */
    char *outside_file;    /* simulated: file with the bytes that other programs hold; "": none */
    /* used by read.c: the line that errors about the section name, and whether Kind is still
     * missing */
    int line;
    bool kind_is_open;
};

struct config {
    device_kind_at *kind_at; /* all kinds of devices */

    /* [Access] */
    char *admin_group; /* its members have root's rights; "": none */
    bool private_jobs; /* users see only that others' jobs exist, little more */
    int64_t connections_per_user;
    int64_t jobs_per_user;          /* jobs of one user that have not ended */
    double message_timeout_seconds; /* how long an incomplete message may wait for its rest */

    /* [Jobs] */
    int64_t cpu_slots; /* jobs on the CPU at once; 0: as many as their cores allow */
    bool calibrate;
    double plan_timeout_seconds; /* 0: no limit */
    int64_t retry_limit;         /* a specification's own retry.limit wins */
    int64_t sweep_points_max;
    int64_t priority_max;          /* of users who are not administrators */
    int64_t dependencies_per_user; /* unsettled ones, of users who are not administrators */
    int64_t devices_per_user;      /* at the same time; 0: no limit */
    char *shares;                  /* work/user_shares.h; "": all users have weight 1 */
    double retry_backoff_seconds;  /* before the first retry; doubles with each */
    double stop_grace_seconds;     /* between SIGTERM and SIGKILL */
    uint64_t log_limit_bytes;      /* disk space for one attempt's output; 0: no limit */
    int64_t tasks_max; /* processes and threads of a job; 0: no limit, -1: folder/job_cgroup.h */
    int64_t oom_score_adjust;    /* of jobs */
    double move_after_seconds;   /* a job that has run shorter is neither moved nor preempted */
    double high_watermark_ratio; /* of the device's memory; 0: no limit */
    double low_watermark_ratio;  /* above it no further job joins; 0: no limit */

    /* [Commands] */
    enum default_device default_device;
    enum over_memory over_memory;
    double shell_idle_seconds; /* 0: a lease may lie idle as long as it lasts */

    /* [Data] */
    char *data_folder; /* of presets; "": each user has one */

    /* [Notify] */
    char *idle_command; /* program and arguments; "": none */

    /* [Checkpoints] */
    uint64_t database_limit_bytes;                         /* larger checkpoints stay files */
    int64_t checkpoints_per_attempt, checkpoints_per_user; /* how many are kept; 0: no limit */
    uint64_t checkpoint_bytes_per_attempt, checkpoint_bytes_per_user;
    int64_t checkpoints_kept_of_done; /* how many of the last, in addition to the best */

    /* [Snapshots] */
    uint64_t bytes_per_snapshot, snapshot_bytes_per_user; /* 0: no limit */

    /* [History] */
    double history_period_seconds; /* between two samples of all devices; 0: none are taken */

    /* [Nvidia] */
    char *cuda_library;   /* "": commands on GPUs are not suspended */
    char *nvidia_library; /* "": NVIDIA devices are not searched for */
    char *nvidia_backend; /* "": native jobs do not train on NVIDIA devices */
    char *mps_control;    /* program that lets jobs share GPUs; "": jobs take turns */
    int64_t warm_workers; /* how many wait on each GPU for native jobs */

    /* [Vulkan] */
    char *vulkan_backend; /* "": devices of Vulkan are not searched for */
    bool vulkan_software; /* drivers that compute on the CPU count, too */

    /* [Device NAME], in the order of their first mention */
    struct device_config *devices;
    size_t device_count;
};

/* Fills in the defaults. The configuration owns its strings: config_release(). */
void config_init(struct config *config, device_kind_at *kind_at);
void config_release(struct config *config);

/* Reads a file, whose values replace the current ones. An unknown section or key, or a bad value,
 * is an error that names the file, the line and the nearest valid key. */
int config_read_file(struct config *config, const char *path, struct error *error);

/* Reads `path` if it exists, and then all files `path`.d / *.conf in the order of their names. What
 * exists and cannot be read is an error. */
int config_read(struct config *config, const char *path, struct error *error);

/* The device's section, or NULL if it has none. */
const struct device_config *config_device(const struct config *config, const char *name);

/* The ratios that apply to a device; `device` may be NULL. A low ratio that is not configured is
 * never above the high one. */
double config_high_watermark(const struct config *config, const struct device_config *device);
double config_low_watermark(const struct config *config, const struct device_config *device);

/* Prints the table: for a terminal, as the Markdown of docs/configuration.md, or as a traind.conf
 * with every default commented out. `kind_at`: the kinds of devices that the help names. */
enum config_form { CONFIG_TEXT, CONFIG_MARKDOWN, CONFIG_FILE };
DECLARE_STRING_TABLE(config_form, enum config_form);
void config_print(enum config_form form, device_kind_at *kind_at, FILE *output);
