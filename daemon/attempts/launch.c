/* launch.c: makes an attempt's folder and starts its shim. This runs on the thread pool, because
 * looking up a user and making files may take a while.
 *
 * The folder belongs to the daemon until the shim gives it to the job's user. The shim's
 * instructions lie beside the folder (proto/attempt_files.h), where the user cannot change them. */
#include "daemon/attempts/launch.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/attempts/job_environment.h"
#include "daemon/attempts/processes.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/folder/code_snapshot.h"
#include "daemon/folder/job_cgroup.h"
#include "daemon/work/job_preemption.h"
#include "proto/attempt_files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

enum { GROUPS_MAX = 256, FIRST_FREE_DESCRIPTOR = 10, USER_KEPT_SECONDS = 5 };

struct user {
    char name[64], home[512], shell[256];
    gid_t gid, groups[GROUPS_MAX];
    int group_count;
};

static int user_look_up(uid_t uid, struct user *user, struct error *error)
{
    char buffer[16384];
    struct passwd entry, *found;
    int code = getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);

    if (!found && code == 0 && geteuid() != 0) { /* a daemon that is not root needs no entry */
        snprintf(user->name, sizeof user->name, "%u", (unsigned)uid);
        snprintf(user->home, sizeof user->home, "%s", getenv("HOME") ? getenv("HOME") : "/");
        snprintf(user->shell, sizeof user->shell, "/bin/sh");
        user->gid = getegid();
        return 0;
    }
    if (!found)
        return error_set_errno(error, code ? -code : -ENOENT,
                               "cannot look up user %u, whom the job belongs to", (unsigned)uid);
    snprintf(user->name, sizeof user->name, "%s", entry.pw_name);
    snprintf(user->home, sizeof user->home, "%s", entry.pw_dir);
    snprintf(user->shell, sizeof user->shell, "%s", entry.pw_shell[0] ? entry.pw_shell : "/bin/sh");
    user->gid = entry.pw_gid;
    user->group_count = GROUPS_MAX;
    if (geteuid() == 0 && getgrouplist(user->name, user->gid, user->groups, &user->group_count) < 0)
        return error_set(error, -E2BIG, "user %s is in more than %d groups", user->name,
                         GROUPS_MAX);
    return 0;
}

/* Calls user_look_up() at most once in five seconds for the same user, who may start hundreds of
 * jobs a second. */
static int user_find(uid_t uid, struct user *user, struct error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct user last;
    static uid_t last_uid;
    static time_t looked_up; /* 0: never */
    struct timespec now;
    int result;

    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&lock);
    if (looked_up && last_uid == uid && now.tv_sec - looked_up < USER_KEPT_SECONDS) {
        *user = last;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    pthread_mutex_unlock(&lock);
    result = user_look_up(uid, user, error);
    if (result < 0)
        return result;
    pthread_mutex_lock(&lock);
    last = *user;
    last_uid = uid;
    looked_up = now.tv_sec ? now.tv_sec : 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void arguments_add_path(struct json_object *arguments, const char *folder, const char *name)
{
    AUTO_FREE char *path = memory_format("%s/%s", folder, name);

    device_argument_add(arguments, path);
}

/* Adds the device that traind-worker opens. */
static void add_device(struct json_object *arguments, const struct attempt_launch *launch)
{
    const struct device *device = launch->device_count ? launch->devices[0] : NULL;
    const char *plugin = device ? device_plugin(device, launch->config) : NULL;

    device_argument_add(arguments, "--device");
    device_argument_add(arguments, device ? device->name : DEVICE_HOST);
    if (plugin && plugin[0]) {
        device_argument_add(arguments, "--plugin");
        device_argument_add(arguments, plugin);
    }
    if (device && device->driver->arguments)
        device->driver->arguments(device, launch->memory_booked, arguments);
}

/* The id of the frozen code that the command runs; NULL: it runs what lies in its directory. */
static const char *launch_snapshot(const struct attempt_launch *launch)
{
    return launch->notification || launch->kind != JOB_COMMAND
               ? NULL
               : json_get_string(json_get(launch->spec, "snapshot"), "id", NULL);
}

/* The command, behind the words that unpack its code first, as its user (shim_unpack.c). */
static struct json_object *unpack_arguments(const struct attempt_launch *launch)
{
    struct json_object *arguments = json_object_new_array();
    struct json_object *command = json_get(launch->spec, "command");
    const char *folder = json_get_string(json_get(launch->spec, "snapshot"), "folder", "/");
    const char *directory = json_get_string(launch->spec, "directory", folder);
    char archive[PATH_MAX];

    code_snapshot_path(archive, launch->state_directory, launch->uid, launch_snapshot(launch));
    device_argument_add(arguments, launch->shim_path);
    device_argument_add(arguments, "--unpack");
    device_argument_add(arguments, archive);
    device_argument_add(arguments, launch->snapshot);
    /* job_spec_rules.c has checked that the one lies in the other */
    directory += strnlen(directory, strlen(folder));
    device_argument_add(arguments, directory + strspn(directory, "/"));
    for (size_t i = 0; i < json_object_array_length(command); i++)
        json_object_array_add(arguments, json_object_get(json_object_array_get_idx(command, i)));
    return arguments;
}

static struct json_object *launch_arguments(const struct attempt_launch *launch, const char *folder)
{
    struct json_object *arguments;
    char threads[16], limit[24];

    if (launch->kind == JOB_COMMAND && launch_snapshot(launch))
        return unpack_arguments(launch);
    if (launch->kind == JOB_COMMAND)
        return json_object_get(json_get(launch->spec, "command"));
    arguments = json_object_new_array();
    snprintf(threads, sizeof threads, "%d", launch->threads);
    device_argument_add(arguments, launch->worker_path);
    device_argument_add(arguments, launch->planning ? "plan" : "train");
    arguments_add_path(arguments, folder, "spec.json");
    device_argument_add(arguments, "--spool");
    arguments_add_path(arguments, folder, "spool");
    if (launch->planning) {
        snprintf(limit, sizeof limit, "%llu", (unsigned long long)launch->memory_limit);
        device_argument_add(arguments, "--memory-limit");
        device_argument_add(arguments, limit);
        if (launch->calibration) {
            device_argument_add(arguments, "--calibration");
            arguments_add_path(arguments, folder, "calibration.json");
        }
        if (launch->also) {
            device_argument_add(arguments, "--also");
            device_argument_add(arguments, launch->also);
        }
    } else {
        if (launch->sharing_folder) {
            char option[64];

            snprintf(option, sizeof option, "--%s", launch->devices[0]->driver->sharing->name);
            device_argument_add(arguments, option);
            device_argument_add(arguments, launch->sharing_folder);
        }
        if (launch->choices[0]) {
            device_argument_add(arguments, "--choices");
            device_argument_add(arguments, launch->choices);
        }
        device_argument_add(arguments, "--checkpoints");
        arguments_add_path(arguments, folder, "checkpoints");
        if (launch->files.resume) {
            device_argument_add(arguments, "--resume");
            arguments_add_path(arguments, folder, ATTEMPT_RESUME_FILE);
        }
        if (launch->files.best) {
            device_argument_add(arguments, "--best");
            arguments_add_path(arguments, folder, ATTEMPT_BEST_FILE);
        }
    }
    if (launch->files.weights) {
        device_argument_add(arguments, "--initial-weights");
        arguments_add_path(arguments, folder, ATTEMPT_WEIGHTS_FILE);
    }
    add_device(arguments, launch);
    device_argument_add(arguments, "--threads");
    device_argument_add(arguments, threads);
    return arguments;
}

/* The bytes that the trainee may hold; 0: no limit. A planning run has none: it finds out whether
 * the native job can keep its limit. */
static int64_t launch_memory_limit(const struct attempt_launch *launch)
{
    if (launch->kind == JOB_NATIVE)
        return launch->planning ? 0
                                : json_get_int(json_get(launch->spec, "train"), "memory_limit", 0);
    return json_get_int(json_get(launch->spec, "resources"), "memory", 0);
}

/* The environment of the trainee: the variables of its specification, and those of its
 * placement. */
static struct json_object *launch_environment(const struct attempt_launch *launch)
{
    struct json_object *given[] = {json_get(launch->spec, "shell_environment"),
                                   json_get(launch->spec, "environment")},
                       *made;
    struct json_object *resources = json_get(launch->spec, "resources");
    struct job_environment_device devices[JOB_DEVICES_MAX];
    bool on_cpu = launch->device_count == 0 || launch->devices[0]->driver->kind.is_host;
    struct job_environment environment = {
        .attempt = launch->attempt,
        .cores = (int)json_get_int(resources, "cores", launch->threads),
        .memory = on_cpu ? launch->memory_booked : (uint64_t)json_get_int(resources, "memory", 0),
        .device_memory = on_cpu ? 0 : launch->memory_booked,
        .device_memory_declared = json_get(resources, "device_memory") != NULL,
        .checkpoint_directory = launch->checkpoints,
        .devices = devices,
        .device_count = launch->device_count,
        .drivers = launch->drivers,
    };

    for (int i = 0; i < launch->device_count; i++)
        devices[i] = (struct job_environment_device){
            launch->devices[i]->driver, launch->devices[i]->name, launch->devices[i]->id,
            launch->devices[i]->memory_total};
    made = json_object_new_object();
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (!given[i])
            continue;
        json_object_object_foreach (given[i], name, value) {
            json_set(made, name, json_object_get(value));
        }
    }
    if (launch->sharing_folder)
        json_set_string(made, launch->devices[0]->driver->sharing->variable,
                        launch->sharing_folder);
    if (launch->kind == JOB_NATIVE)
        job_environment_add_device(&environment, made);
    else
        job_environment_add(&environment, made);
    return made;
}

/* The list of cores, as in [0, 1]; NULL: the attempt may use all cores. */
static struct json_object *launch_cores(const struct attempt_launch *launch)
{
    struct json_object *cores = launch->cores ? json_object_new_array() : NULL;

    for (size_t core = 0; cores && core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, launch->cores))
            json_object_array_add(cores, json_object_new_int64((int64_t)core));
    return cores;
}

/* Whether the attempt gets a control group: all but IdleCommand, which belongs to no user. */
static bool launch_has_group(const struct attempt_launch *launch)
{
    return launch->job > 0 || launch->service;
}

static struct json_object *launch_describe(const struct attempt_launch *launch,
                                           const struct user *user, const char *folder)
{
    struct json_object *attempt = json_object_new_object(), *groups = json_object_new_array();
    char cgroup[PATH_MAX], devices[ATTEMPT_DEVICES_TEXT_MAX];

    json_set_int(attempt, "job", launch->job);
    json_set_int(attempt, "attempt", launch->notification ? launch->last_attempt : launch->attempt);
    json_set_string(attempt, "device",
                    devices_name(launch->devices, launch->device_count, devices, sizeof devices));
    json_set_int(attempt, "uid", launch->uid);
    json_set_int(attempt, "gid", user->gid);
    for (int i = 0; i < user->group_count; i++)
        json_object_array_add(groups, json_object_new_int64(user->groups[i]));
    json_set(attempt, "groups", groups);
    json_set_string(attempt, "user", user->name);
    json_set_string(attempt, "home", user->home);
    json_set_string(attempt, "shell", user->shell);
    json_set_bool(attempt, "any_directory", launch->notification);
    json_set(attempt, "argv", launch_arguments(launch, folder));
    json_set_string(attempt, "directory",
                    launch->snapshot ? launch->snapshot
                                     : json_get_string(launch->spec, "directory", user->home));
    json_set(attempt, "environment", launch_environment(launch));
    json_set_string(attempt, "cgroup",
                    launch_has_group(launch) &&
                            job_cgroup_path(launch->job, launch->attempt, cgroup, sizeof cgroup)
                        ? cgroup
                        : NULL);
    json_set_int(attempt, "memory_limit", launch_memory_limit(launch));
    json_set_int(attempt, "tasks_max", launch->tasks_max);
    json_set_int(attempt, "oom_score_adjust", launch->oom_score_adjust);
    json_set_bool(attempt, "command", launch->kind == JOB_COMMAND);
    if (launch->sharing_folder) /* for the next daemon */
        json_set_bool(attempt, launch->devices[0]->driver->sharing->name, true);
    json_set(attempt, "cpus", launch_cores(launch));
    return attempt;
}

static int folder_write_text(int folder, const char *name, const char *text, size_t length,
                             mode_t mode, int *kept, struct error *error)
{
    AUTO_CLOSE int file =
        openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

    if (file < 0)
        return error_set_errno(error, -errno, "cannot make %s of the attempt", name);
    for (size_t done = 0; done < length;) {
        ssize_t written = write(file, text + done, length - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return error_set_errno(error, -errno, "cannot write %s of the attempt", name);
        done += (size_t)written;
    }
    if (kept)
        *kept = TAKE_DESCRIPTOR(file);
    return 0;
}

static int folder_write(int folder, const char *name, struct json_object *object, mode_t mode,
                        int *kept, struct error *error)
{
    size_t length;
    const char *text = json_text(object, &length);

    return folder_write_text(folder, name, text, length, mode, kept, error);
}

/* Moves the file into the folder and gives it to the job's user; does nothing if `file` is NULL.
 * Only root gives files away: a daemon of an ordinary user may not even have that user's group. */
static int folder_put_checkpoint(const struct attempt_launch *launch, const struct user *user,
                                 const char *file, int folder, const char *name,
                                 struct error *error)
{
    if (file && (renameat(AT_FDCWD, file, folder, name) < 0 ||
                 (geteuid() == 0 && fchownat(folder, name, launch->uid, user->gid, 0) < 0)))
        return error_set_errno(error, -errno, "cannot put the checkpoint %s into the job's folder",
                               name);
    return 0;
}

static int folder_put_checkpoints(const struct attempt_launch *launch, const struct user *user,
                                  int folder, struct error *error)
{
    const struct {
        const char *file, *name;
    } files[] = {{launch->files.resume, ATTEMPT_RESUME_FILE},
                 {launch->files.best, ATTEMPT_BEST_FILE},
                 {launch->files.weights, ATTEMPT_WEIGHTS_FILE}};
    int result = 0;

    for (size_t i = 0; i < sizeof files / sizeof *files && result == 0; i++)
        result = folder_put_checkpoint(launch, user, files[i].file, folder, files[i].name, error);
    return result;
}

static int folder_fill(const struct attempt_launch *launch, const struct user *user,
                       const char *path, int *lock, struct error *error)
{
    JSON_AUTO struct json_object *attempt = launch_describe(launch, user, path);
    char config[PATH_MAX];
    AUTO_CLOSE int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result;

    if (folder < 0)
        return error_set_errno(error, -errno, "cannot open the folder %s", path);
    if (launch->kind == JOB_NATIVE) {
        result = folder_write(folder, "spec.json", launch->spec, 0644, NULL, error);
        if (result == 0 && launch->calibration)
            result = folder_write_text(folder, "calibration.json", launch->calibration,
                                       strlen(launch->calibration), 0644, NULL, error);
        if (result < 0)
            return result;
    }
    result = folder_put_checkpoints(launch, user, folder, error);
    if (result < 0)
        return result;
    attempt_path_beside(config, launch->state_directory, launch->job, launch->attempt,
                        ATTEMPT_CONFIG_SUFFIX);
    result = folder_write(AT_FDCWD, config, attempt, 0600, lock, error);
    if (result < 0)
        return result;
    /* The shim inherits this open file, so the lock is held until the shim has ended. */
    if (flock(*lock, LOCK_EX | LOCK_NB) < 0)
        return error_set_errno(error, -errno, "cannot lock %s", config);
    return 0;
}

/* Moves the descriptor above the numbers that the shim expects, so that no dup2() overwrites it. */
static int descriptor_lift(int *descriptor)
{
    int lifted = fcntl(*descriptor, F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR);

    if (lifted < 0)
        return -errno;
    close(*descriptor);
    *descriptor = lifted;
    return 0;
}

/* Starts the shim's program with `socket` as SHIM_SOCKET_DESCRIPTOR. */
static int shim_spawn(const char *shim_path, char *const *arguments, char *const *environment,
                      int socket, struct error *error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    pid_t pid;
    int code;

    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGCHLD); /* ignored here, so that the kernel reaps the shims */
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, socket, SHIM_SOCKET_DESCRIPTOR);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    code = posix_spawn(&pid, shim_path, &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code ? error_set_errno(error, -code, "cannot start %s", shim_path) : 0;
}

/* The shim that forks the others (worker/shim/shim_fork_server.c). Launches run on several threads,
 * so a lock guards it. */
static struct {
    pthread_mutex_t lock;
    int socket; /* -1: not started */
} fork_server = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

char *launch_shim_title(const char *state_directory)
{
    size_t length = strlen(state_directory) + sizeof "/jobs///." + 3 * 20;
    char *title = malloc(length);

    if (!title)
        return NULL;
    memset(title, '.', length - 1);
    title[length - 1] = '\0';
    return title;
}

int launch_shim_server(const char *shim_path, char *const *arguments, char *const *environment,
                       struct error *error)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    int pair[2], result;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(error, -errno, "cannot make a socket pair");
    ours = pair[0];
    theirs = pair[1];
    result = descriptor_lift(&theirs);
    if (result < 0)
        return error_set_errno(error, result, "cannot start traind-shim");
    result = shim_spawn(shim_path, arguments, environment, theirs, error);
    return result < 0 ? result : TAKE_DESCRIPTOR(ours);
}

static int fork_server_start(const struct attempt_launch *launch, struct error *error)
{
    AUTO_FREE char *title = launch_shim_title(launch->state_directory);
    char *arguments[] = {(char *)"traind-shim", (char *)"--fork-server", title, NULL};
    char *environment[] = {NULL};
    int result;

    if (!title)
        return error_no_memory(error, "the start of traind-shim");
    result = launch_shim_server(launch->shim_path, arguments, environment, error);
    if (result >= 0)
        fork_server.socket = result;
    return result < 0 ? result : 0;
}

/* Asks the shim at the other end of `server` to become the shim of the folder, or to fork it. */
static int request_send(int server, const char *folder, int socket, int lock)
{
    int descriptors[] = {socket, lock};
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {.iov_base = (char *)folder, .iov_len = strlen(folder)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
    while (sendmsg(server, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* Gets a shim for the folder from the fork server, which is started if it does not run. */
static int shim_fork(const struct attempt_launch *launch, const char *folder, int socket, int lock,
                     struct error *error)
{
    int result = -ENOTCONN;

    pthread_mutex_lock(&fork_server.lock);
    if (fork_server.socket >= 0)
        result = request_send(fork_server.socket, folder, socket, lock);
    if (result < 0) {
        if (fork_server.socket >= 0)
            close(fork_server.socket);
        fork_server.socket = -1;
        result = fork_server_start(launch, error);
        if (result == 0) {
            result = request_send(fork_server.socket, folder, socket, lock);
            if (result < 0)
                error_set_errno(error, result, "cannot reach traind-shim --fork-server");
        }
    }
    pthread_mutex_unlock(&fork_server.lock);
    return result;
}

/* Gets a shim for the folder: the one that waits with a warm worker, else a new one. */
static int shim_find(const struct attempt_launch *launch, const char *folder, int socket, int lock,
                     struct error *error)
{
    if (launch->warm >= 0 && request_send(launch->warm, folder, socket, lock) == 0)
        return 0;
    return shim_fork(launch, folder, socket, lock, error);
}

/* Whether a later attempt may go on from what this attempt saves. */
static bool launch_goes_on(const struct attempt_launch *launch)
{
    return launch->kind == JOB_COMMAND &&
           (job_preemption_read(launch->spec, launch->kind).possible ||
            json_get_int(json_get(launch->spec, "retry"), "limit", 0) > 0);
}

/* Ends the planning run of an earlier daemon, which may still run; the new run replaces it. */
static void end_predecessor(const struct attempt_launch *launch)
{
    const struct attempt_place place = {.state_directory = launch->state_directory,
                                        .job = launch->job,
                                        .attempt = launch->attempt,
                                        .uid = launch->uid};

    if (!launch->planning || !attempt_is_alive(&place))
        return;
    attempt_kill_processes(&place);
    attempt_kill_shim(&place, -1);
}

/* The folders that all attempts of the job have in common. */
static int job_folders_make(struct attempt_launch *launch, const struct user *user,
                            struct error *error)
{
    char path[PATH_MAX];
    int result = 0;

    if (launch_goes_on(launch)) {
        result = checkpoint_folder_make(launch->state_directory, launch->job, launch->uid,
                                        user->gid, path, error);
        launch->checkpoints = result == 0 ? memory_copy_text(path) : NULL;
    }
    if (result == 0 && launch_snapshot(launch)) {
        result = snapshot_folder_make(launch->state_directory, launch->job, launch->uid, user->gid,
                                      path, error);
        launch->snapshot = result == 0 ? memory_copy_text(path) : NULL;
    }
    return result;
}

int attempt_launch_run(struct attempt_launch *launch, struct error *error)
{
    AUTO_CLOSE int lock = -1, ours = -1, theirs = -1;
    char path[PATH_MAX];
    struct user user = {.gid = 0};
    int pair[2], result;

    result = user_find(launch->uid, &user, error);
    if (result == 0)
        end_predecessor(launch);
    if (result == 0)
        result =
            attempt_folder_make(launch->state_directory, launch->job, launch->attempt, path, error);
    if (result == 0)
        result = job_folders_make(launch, &user, error);
    if (result == 0)
        result = folder_fill(launch, &user, path, &lock, error);
    if (result < 0)
        return result;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(error, -errno, "cannot make a socket pair");
    ours = pair[0];
    theirs = pair[1];
    result = shim_find(launch, path, theirs, lock, error);
    if (result < 0)
        return result;
    launch->socket = TAKE_DESCRIPTOR(ours);
    return 0;
}

void attempt_launch_release(struct attempt_launch *launch)
{
    json_object_put(launch->spec);
    free(launch->calibration);
    free(launch->also);
    free(launch->checkpoints);
    free(launch->snapshot);
    free(launch->files.resume);
    free(launch->files.best);
    free(launch->files.weights);
    free(launch->sharing_folder);
}
