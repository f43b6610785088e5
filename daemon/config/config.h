/* config.h: the daemon's configuration. One table (keys.c) holds every key with its section,
 * unit, default, range and help; reading files, `traind --help-config`, docs/configuration.md and
 * etc/traind.conf come from it. */
#pragma once

#include "base/error.h"
#include "daemon/types/device_kind.h"
#include "daemon/types/device_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A section [Device NAME]. The name says which kind it is of; where it is none of a real device,
 * Kind does: such a device exists because it is configured, and the fields marked so are for it
 * alone. */
struct device_config {
    char *name;
    const struct device_kind *kind;
    bool enabled;
    int64_t slots; /* jobs at once, 0: only memory limits them; -1: the general rule */
    double high_watermark_ratio; /* NAN: the general one; config_high_watermark() */
    double low_watermark_ratio;
    double speed;          /* simulated: arithmetic, times this CPU's */
    double bandwidth;      /* simulated: memory bandwidth, times this CPU's; 0: as `speed` */
    uint64_t memory;       /* simulated: bytes */
    double launch_seconds; /* simulated: per kernel */
    char *calibration;     /* simulated: file with this CPU's speeds; "": those that are kept */
    char *outside_file;    /* simulated: holds the bytes that others hold of it; "": nobody does */
    /* read.c's: what a sentence about the section points at, whether it must say Kind */
    int line;
    bool kind_is_open;
};

struct config {
    device_kind_at *kind_at; /* the kinds that there are */

    /* [Access] */
    char *admin_group; /* its members may do what root may; "" for none */
    bool private_jobs; /* of others' jobs one sees that they are there, and no more */
    int64_t connections_per_user;
    int64_t jobs_per_user;          /* jobs of one user that have not ended */
    double message_timeout_seconds; /* half a message may wait so long for its rest */

    /* [Jobs] */
    int64_t cpu_slots; /* jobs on the CPU at once; 0: as many as their cores allow */
    bool calibrate;
    double plan_timeout_seconds; /* 0: none */
    int64_t retry_limit;         /* a specification's own retry.limit wins */
    int64_t sweep_points_max;
    int64_t priority_max;          /* of who is no administrator */
    int64_t dependencies_per_user; /* that are open; likewise */
    int64_t devices_per_user;      /* at the same time; 0: no limit */
    char *shares;                  /* work/user_shares.h; "": all have 1 */
    double retry_backoff_seconds;  /* before the first retry; doubles with each */
    double stop_grace_seconds;     /* between SIGTERM and SIGKILL */
    uint64_t log_limit_bytes;      /* of an attempt's output on the disk; 0: no limit */
    int64_t tasks_max; /* processes and threads of a job; 0: no limit, -1: folder/job_cgroup.h */
    int64_t oom_score_adjust;    /* of jobs */
    double move_after_seconds;   /* what has run shorter is neither moved nor preempted */
    double high_watermark_ratio; /* of the device's memory; 0: no limit */
    double low_watermark_ratio;  /* beyond it no further job joins; 0: no limit */

    /* [Commands] */
    enum default_device default_device;

    /* [Notify] */
    char *idle_command; /* words; "": none */

    /* [Checkpoints] */
    uint64_t database_limit_bytes;                         /* larger checkpoints stay files */
    int64_t checkpoints_per_attempt, checkpoints_per_user; /* that are kept; 0: no limit */
    uint64_t checkpoint_bytes_per_attempt, checkpoint_bytes_per_user;
    int64_t checkpoints_kept_of_done; /* the last so many, beside the best */

    /* [Nvidia] */
    char *nvidia_library; /* "": no NVIDIA device is looked for */
    char *nvidia_backend; /* "": native jobs do not train on them */
    char *mps_control;    /* program that makes GPUs shared; "": they are not, jobs take turns */
    int64_t warm_workers; /* for each GPU, that wait for native jobs */

    /* [Device NAME], in the order of their first mention */
    struct device_config *devices;
    size_t device_count;
};

/* Fills in the defaults. The strings are owned: config_release(). */
void config_init(struct config *config, device_kind_at *kind_at);
void config_release(struct config *config);

/* Reads one file over what is there. An unknown section or key, or a bad value, is an error that
 * names file, line and the nearest valid key. */
int config_read_file(struct config *config, const char *path, struct error *error);

/* Reads `path` if it exists and then every `path`.d / *.conf in the order of their names. */
int config_read(struct config *config, const char *path, struct error *error);

/* The section of that device, or NULL when it has none. */
const struct device_config *config_device(const struct config *config, const char *name);

/* The ratios in force for a device; `device` may be NULL. A low one that nobody set is never above
 * the high one. */
double config_high_watermark(const struct config *config, const struct device_config *device);
double config_low_watermark(const struct config *config, const struct device_config *device);

/* Prints the table: for a terminal, as the Markdown of docs/configuration.md, or as a traind.conf
 * with every default commented out. */
enum config_form { CONFIG_TEXT, CONFIG_MARKDOWN, CONFIG_FILE };
void config_print(enum config_form form, FILE *output);
