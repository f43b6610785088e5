/* commands.c: the one table of trainctl's commands. Dispatch, help and completion read it. */
#include "base/text.h"
#include "client/command_line/command.h"

#include <string.h>

const struct command_option common_options[] = {
    {"socket", 0, "PATH", "Talk to the daemon at this socket (default: $TRAIND_SOCKET)"},
    {"host", 'H', "[USER@]HOST", "Run this command on another machine through ssh"},
    {"json", 0, NULL, "Print JSON for programs; one object a line for streams"},
    {"help", 'h', NULL, "Show the help of the command"},
    {"version", 0, NULL, "Show the version"},
    {0},
};

#define OPTIONS_OF_SUBMISSION                                                                      \
    {"set", 0, "A.B=VALUE", "Set a key of the specification (JSON or a word); repeatable"},        \
        {"after", 'a', "JOB[,JOB…]", "Start once these jobs are done; repeatable"},                \
        {"after-any", 0, "JOB[,JOB…]", "Start once these jobs have ended, however; repeatable"},   \
        {"hold", 0, NULL, "Wait until `trainctl release`"},                                        \
        {"group", 'g', "NAME", "Count against the limit of a group: `trainctl group set`"},        \
        {"env", 'e', "NAME[=VALUE]", "Give the job a variable of the environment; repeatable"},    \
        {"wait", 'w', NULL, "Wait until the job has ended; its end decides the exit status"},      \
    {                                                                                              \
        "follow", 'f', NULL, "Wait, and show progress meanwhile; Ctrl-C detaches, the job goes on" \
    }

static const struct command_option submit_options[] = {
    OPTIONS_OF_SUBMISSION,
    {"sweep", 0, "A.B=V1,V2,…",
     "A job for each value of a key (JSON or words); several make a grid; repeatable"},
    {"random", 0, "A.B=HOW:V1,V2,…",
     "Draw a key's value: uniform:FROM,TO log_uniform:FROM,TO integer:FROM,TO choice:V1,V2,…"},
    {"count", 0, "N", "With --random: how many jobs"},
    {"sample-seed", 0, "N", "With --random: another seed, other draws (default: 0)"},
    {"points", 0, "FILE", "A job for each object {\"a.b\": value, …} of a JSON array"},
    {"profile", 0, NULL, "Record where the time goes: train.profile=20, unless it is set"},
    {0},
};

static const struct command_option run_options[] = {
    {"name", 'n', "NAME", "Name of the job (default: the command's)"},
    {"directory", 'C', "PATH", "Directory to run in (default: the current one)"},
    {"device", 'd', "NAME[,NAME…]",
     "Devices that it may run on: cuda:0, cpu, gpu, any, …; repeatable (default: DefaultDevice)"},
    {"gpu", 0, NULL, "On a GPU (short for --gpus 1)"},
    {"gpus", 0, "N", "On N GPUs at once, of one type"},
    {"devices", 0, "N", "How many of them it uses at once (default: 1)"},
    {"cores", 'c', "N", "CPU cores that it uses (default: its share of the machine's)"},
    {"memory", 'm', "SIZE", "Memory that it may use, such as 4G (default: learnt)"},
    {"device-memory", 0, "SIZE", "Memory of the device that it may use (default: learnt)"},
    {"time", 't', "DURATION", "How long it will run, about, such as \"2 h\" (default: learnt)"},
    {"time-limit", 0, "DURATION", "Longest run of one attempt"},
    {"priority", 'p', "N", "Higher ones start first (default: 0)"},
    {"preemptible", 0, NULL, "It saves its state at SIGTERM and goes on from there"},
    {"checkpoint-signal", 0, "SIGNAL", "… at this signal, such as SIGUSR1"},
    {"checkpoint-grace", 0, "DURATION", "… within this time"},
    {"no-env", 0, NULL,
     "Hand on PATH, LANG, VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, LD_LIBRARY_PATH alone"},
    OPTIONS_OF_SUBMISSION,
    {0},
};

static const struct command_option resubmit_options[] = {
    OPTIONS_OF_SUBMISSION,
    {0},
};

static const struct command_option plan_options[] = {
    {"set", 0, "A.B=VALUE", "Set a key of the specification (JSON or a word); repeatable"},
    {0},
};

static const struct command_option bench_options[] = {
    {"set", 0, "A.B=VALUE", "Set a key of the specification (JSON or a word); repeatable"},
    {"devices", 'd', "NAME[,NAME…]", "Only these devices (default: all that may run the job)"},
    {"steps", 0, "N", "Steps of each job (default: as many as take 5 s, 30 to 2000)"},
    {"seconds", 0, "DURATION", "Longest run of a command on each device (default: 60)"},
    {0},
};

static const struct command_option report_options[] = {
    {"progress", 'p', "PART", "How much of the job is done, from 0 to 1"},
    {0},
};

static const struct command_option drain_options[] = {
    {"reason", 'r', "TEXT", "Why, for those who see it in `devices`"},
    {"move", 0, NULL, "Jobs on it that can save their state leave it for other devices"},
    {0},
};

static const struct command_option list_options[] = {
    {"state", 's', "STATE[,STATE…]", "Only jobs in these states; repeatable"},
    {"name", 'n', "NAME", "Only jobs of this name"},
    {"sweep", 0, "JOB", "Only jobs of the sweep that begins with this one"},
    {"limit", 'l', "N", "The newest N jobs (default: 50)"},
    {"before", 'b', "JOB", "Jobs older than that one: `next` of the page before"},
    {"all", 'a', NULL, "All jobs"},
    {0},
};

static const struct command_option queue_options[] = {
    {"limit", 'l', "N", "The first N jobs, at most 500 (default: 50)"},
    {0},
};

static const struct command_option show_options[] = {
    {"spec", 0, NULL, "Print the specification alone, as submit takes it"},
    {0},
};

static const struct command_option logs_options[] = {
    {"follow", 'f', NULL, "Go on until the job has ended; Ctrl-C detaches"},
    {"attempt", 0, "N", "Output of this attempt (default: the latest)"},
    {"lines", 'n', "N", "Only the last N lines"},
    {0},
};

static const struct command_option metrics_options[] = {
    {"follow", 'f', NULL, "Go on until the job has ended; Ctrl-C detaches"},
    {"name", 'n', "NAME[,NAME…]", "Only these metrics; repeatable"},
    {0},
};

static const struct command_option profile_options[] = {
    {"layers", 0, NULL, "A row for every layer, not for the five hottest"},
    {"trace", 0, "FILE", "Write the recorded steps for chrome://tracing and ui.perfetto.dev"},
    {0},
};

static const struct command_option compare_options[] = {
    {"by", 0, "KEY[,KEY…]",
     "Keys of the specification to group by (default: those that differ, train.seed and "
     "environment aside)"},
    {"metric", 'm', "NAME[,NAME…]", "Metrics to compare (default: those of the test set)"},
    {0},
};

static const struct command_option rm_options[] = {
    {"checkpoints", 0, NULL, "Only their checkpoints: results, metrics and output stay"},
    {0},
};

static const struct command_option clean_options[] = {
    {"older", 0, "DURATION", "Jobs that ended longer ago, such as \"12 h\" (default: 30 days)"},
    {"state", 's', "STATE", "Only those that are done, failed or cancelled"},
    {"name", 'n', "NAME", "Only jobs of this name"},
    {"checkpoints", 0, NULL, "Only their checkpoints: results, metrics and output stay"},
    {"dry-run", 0, NULL, "Print the numbers of the jobs and remove nothing"},
    {0},
};

static const struct command_option export_options[] = {
    {"output", 'o', "FILE", "Where to write it (required)"},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)"},
    {"weights", 0, "WHICH",
     "evaluated (the moving averages of train.ema, where kept; default) or trained"},
    {"full", 0, NULL, "Keep the training state too: a checkpoint to resume from"},
    {"no-module", 0, NULL, "Write no Python module beside the weights"},
    {0},
};

static const struct command_option wait_options[] = {
    {"follow", 'f', NULL, "Show progress meanwhile"},
    {0},
};

static const struct command_option leave_options[] = {
    {"force", 0, NULL, "Also a command that does not save its state: it begins from the start"},
    {0},
};

static const struct command_option group_options[] = {
    {"limit", 'l', "N", "Jobs of the group that run at once; 0: none starts; none: no limit"},
    {0},
};

static const struct command_option help_options[] = {
    {"markdown", 0, NULL, "With `help spec`: as Markdown"},
    {0},
};

static const struct command_option no_options[] = {{0}};

const struct command commands[] = {
    {.name = "submit",
     .arguments = "SPEC…",
     .summary = "Queue the jobs that JSON specifications describe",
     .details = "SPEC is a file, or - for standard input; it holds one specification or an array "
                "of them.\nSeveral are accepted together or not at all (in batches of 1 MiB). "
                "`trainctl help spec` lists the keys.\n"
                "`directory` is the current one unless SPEC says otherwise; PATH, LANG, "
                "VIRTUAL_ENV, CONDA_PREFIX,\nPYTHONPATH and LD_LIBRARY_PATH are handed on.",
     .options = submit_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_submit},
    {.name = "run",
     .arguments = "-- COMMAND [ARGUMENT…]",
     .summary = "Queue a command line as a job",
     .details = "The command runs in the current directory, without a shell, once a device is "
                "free for it, with the present\nenvironment and PYTHONUNBUFFERED=1.",
     .options = run_options,
     .minimum = 1,
     .maximum = -1,
     .ends_at_argument = true,
     .function = command_run},
    {.name = "resubmit",
     .arguments = "JOB…",
     .summary = "Queue jobs again, as new jobs with the same specifications",
     .details = "--set changes keys of all of them. What a job waited for is not waited for again, "
                "unless --after says so.",
     .options = resubmit_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_resubmit},
    {.name = "plan",
     .arguments = "SPEC",
     .summary = "Say what a job needs and where it would run, without submitting it",
     .details = "Memory by class, work, steps, precision, batch and time come from `traind-worker "
                "plan`, run here;\nwhich device would take the job now, with every candidate's "
                "time, memory and verdict, from the daemon.\nWithout a daemon the plan stands "
                "alone.",
     .options = plan_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_plan},
    {.name = "bench",
     .arguments = "SPEC",
     .summary = "Measure a job on every device that may run it, and recommend one",
     .details =
         "A short job on each device, one after the other: the time of a step (median, after "
         "the first\nones), of an epoch and of the whole, memory planned and used, energy "
         "where it can be read.\nA command is compared by the samples_per_second that it "
         "reports, or by its whole run.\nCtrl-C cancels the job that runs.",
     .options = bench_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_bench},
    {.name = "report",
     .arguments = "[step=N NAME=VALUE…]",
     .summary = "Within a job: report metrics and progress",
     .details = "For commands that run as jobs, such as `trainctl report step=10 train_loss=0.5`; "
                "`epoch=E` may stand\nbeside them. It finds its job by TRAIND_SPOOL, needs no "
                "daemon, and several processes may report\nat once. A value such as nan is "
                "stored as not a number.",
     .options = report_options,
     .maximum = -1,
     .function = command_report},
    {.name = "list",
     .arguments = "",
     .summary = "List jobs, newest first",
     .details = "States: queued starting running preempting paused done failed cancelled.",
     .options = list_options,
     .function = command_list},
    {.name = "queue",
     .arguments = "",
     .summary = "List the jobs that wait for a device, the next one first, and when they start",
     .options = queue_options,
     .function = command_queue},
    {.name = "show",
     .arguments = "JOB | sweep:JOB",
     .summary = "Show everything about one job, or how far a sweep is",
     .options = show_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_show},
    {.name = "explain",
     .arguments = "JOB",
     .summary = "Say why a job is where it is, or what it waits for",
     .details = "Every decision's candidates, with the predicted time and what it rests on, the "
                "memory\nneeded and free, and the verdict; for a waiting job the decision of now.",
     .options = no_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_explain},
    {.name = "logs",
     .arguments = "JOB",
     .summary = "Print what a job wrote to its output",
     .details = "On a terminal control characters other than colours are escaped; a pipe or a "
                "file gets the text as it is.",
     .options = logs_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_logs},
    {.name = "metrics",
     .arguments = "JOB",
     .summary = "Print the metrics of a job",
     .options = metrics_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_metrics},
    {.name = "profile",
     .arguments = "JOB",
     .summary = "Show where the time of a job's run went, by phase, operator and layer",
     .details = "Of a job that was submitted with --profile or train.profile, once its run has "
                "ended.",
     .options = profile_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_profile},
    {.name = "compare",
     .arguments = "JOBS…",
     .summary = "Compare the results of jobs: mean and deviation by what differs between them",
     .details = "JOBS is a number, a range such as 12-41, sweep:12, or a name: all jobs that have "
                "it. Jobs "
                "whose keys agree,\ntrain.seed aside, form a group; the deviation is that of a "
                "sample (n - 1).",
     .options = compare_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_compare},
    {.name = "cancel",
     .arguments = "JOB…",
     .summary = "End jobs, whatever they are doing",
     .details = "sweep:12 stands for all jobs of the sweep that begins with job 12.",
     .options = no_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_cancel},
    {.name = "hold",
     .arguments = "JOB…",
     .summary = "Keep queued jobs from starting",
     .options = no_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_hold},
    {.name = "release",
     .arguments = "JOB…",
     .summary = "Let jobs start that are held",
     .options = no_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_release},
    {.name = "pause",
     .arguments = "JOB…",
     .summary = "Let jobs write a checkpoint and give their devices up until `resume`",
     .details =
         "A job that does not write it in time (StopGrace) is killed and goes on from the one "
         "before.\nA paused job stays so over restarts.",
     .options = leave_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_pause},
    {.name = "resume",
     .arguments = "JOB…",
     .summary = "Queue paused jobs again",
     .options = no_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_resume},
    {.name = "requeue",
     .arguments = "JOB…",
     .summary = "Let running jobs write a checkpoint and queue them again",
     .options = leave_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_requeue},
    {.name = "move",
     .arguments = "JOB… DEVICE",
     .summary = "Go on on another device, and only there; `auto`: wherever it is best",
     .details = "The job writes a checkpoint, leaves its device and goes on from it on the other "
                "one, which repeats a\nbatch of the one before first: where their results disagree "
                "the job goes back and stays there.",
     .options = leave_options,
     .minimum = 2,
     .maximum = -1,
     .function = command_move},
    {.name = "group",
     .arguments = "list | set NAME",
     .summary = "Limit how many jobs of a group run at once",
     .details = "A job belongs to a group by --group or the key `group` of its specification; the "
                "groups of\ntwo users are two. NEXT are those of the group that may start and find "
                "no device yet.",
     .options = group_options,
     .minimum = 1,
     .maximum = 2,
     .function = command_group},
    {.name = "rm",
     .arguments = "JOB…",
     .summary = "Remove jobs that have ended, with all that is stored of them",
     .details = "Their rows, metrics, checkpoints and output go; numbers of jobs are never given "
                "out again.",
     .options = rm_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_rm},
    {.name = "clean",
     .arguments = "",
     .summary = "Remove your jobs that ended long ago, or their checkpoints",
     .options = clean_options,
     .function = command_clean},
    {.name = "df",
     .arguments = "",
     .summary = "Show what jobs hold on the disk, and how much is free",
     .options = no_options,
     .function = command_df},
    {.name = "wait",
     .arguments = "JOB…",
     .summary = "Wait until jobs have ended",
     .details = "The exit status is 0 when all of them are done, 1 when one failed or was "
                "cancelled. sweep:12\nstands for all jobs of the sweep that begins with job 12.",
     .options = wait_options,
     .minimum = 1,
     .maximum = -1,
     .function = command_wait},
    {.name = "devices",
     .arguments = "[DEVICE]",
     .summary = "List the devices of the machine and what runs on them",
     .details = "With DEVICE, all about one: ledger, watermarks, who else holds memory of it, "
                "calibration, health.",
     .options = no_options,
     .maximum = 1,
     .function = command_devices},
    {.name = "drain",
     .arguments = "DEVICE",
     .summary = "Let a device take no further job; what runs there goes on",
     .details = "Until `trainctl undrain`, also after a restart of the daemon. For administrators.",
     .options = drain_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_drain},
    {.name = "undrain",
     .arguments = "DEVICE",
     .summary = "Let a device take jobs again that was drained or quarantined",
     .details = "traind quarantines a device after an error of its own. For administrators.",
     .options = no_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_undrain},
    {.name = "top",
     .arguments = "",
     .summary = "Watch devices and jobs live; q or Ctrl-C ends",
     .options = no_options,
     .function = command_top},
    {.name = "checkpoints",
     .arguments = "JOB",
     .summary = "List the checkpoints of a job",
     .options = no_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_checkpoints},
    {.name = "export",
     .arguments = "JOB -o FILE",
     .summary = "Write a job's model for PyTorch: weights (safetensors) and a Python module",
     .details = "Tensors have PyTorch's names and layouts, so `load_state_dict` takes them. The "
                "module beside them, FILE with .py, has the network, the preprocessing of its "
                "training data and the names of its classes: `load()` of it gives the model, "
                "which takes raw samples.",
     .options = export_options,
     .minimum = 1,
     .maximum = 1,
     .function = command_export},
    {.name = "ping",
     .arguments = "",
     .summary = "Ask whether the daemon answers",
     .options = no_options,
     .function = command_ping},
    {.name = "help",
     .arguments = "[COMMAND | spec [KEY]]",
     .summary = "Show help, or the keys of a job specification",
     .details = "KEY is a key such as train.optimizer.lr, a section such as train.optimizer, or a "
                "part of a name.",
     .options = help_options,
     .maximum = 2,
     .function = command_help},
    {.name = "complete",
     .arguments = "-- WORD…",
     .summary = "Print what may follow on the command line, for the shell's completion",
     .options = no_options,
     .maximum = -1,
     .ends_at_argument = true,
     .hidden = true,
     .function = command_complete},
    {0},
};

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

const char *command_nearest(const char *name)
{
    const char *names[sizeof commands / sizeof *commands];
    size_t count = 0;

    for (const struct command *command = commands; command->name; command++)
        if (!command->hidden)
            names[count++] = command->name;
    return text_nearest(name, names, count);
}
