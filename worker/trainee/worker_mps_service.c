/* worker_mps_service.c: `traind-worker mps` runs NVIDIA's MPS control daemon for one user and one
 * GPU while there are clients (worker_mps.h). It ends after a while without clients, and on SIGTERM
 * once there are none. So it outlives the daemon that started it as long as the jobs that need it.
 * If the control daemon ends or does not answer, new clients learn the reason and run without MPS.
 *
 * The commands are those of nvidia-cuda-mps-control(1). Measured with driver 580 on an H100: a
 * command is answered in 2 to 5 ms, the server (66 MiB of the GPU) is ready 0.3 s later. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "worker/trainee/worker_mps.h"
#include "worker/trainee/worker_signals.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

enum {
    ANSWER_SECONDS = 5, /* time for the control daemon to answer a command */
    ASK_SECONDS = 3,    /* between two checks that it answers */
    IDLE_SECONDS = 30,  /* without a client; shorter pauses occur in a batch of short jobs */
    LOOK_MILLISECONDS = 100,
    ANSWER_MAX = 4096,
    /* the longest socket path ends with "/control_privileged" */
    FOLDER_MAX = sizeof((struct sockaddr_un *)0)->sun_path - sizeof "/control_privileged"
};

struct service {
    const char *folder, *program;
    pid_t control; /* 0: it has ended */
    int clients;   /* descriptor of the file that clients lock */
};

static struct training_requests requests;

static void pause_milliseconds(int milliseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000L}, NULL);
}

/* ---- the control daemon ---- */

/* In a child: never returns. It makes its own process group, so that signals to this process's
 * group do not reach it. */
static _Noreturn void run_program(const struct service *service, const char *argument, int input,
                                  int output)
{
    char *arguments[] = {(char *)service->program, (char *)argument, NULL};

    setpgid(0, 0);
    worker_signals_reset();
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    if (output >= 0)
        dup2(output, STDOUT_FILENO);
    execvp(arguments[0], arguments);
    _exit(127);
}

static int control_start(struct service *service, struct error *error)
{
    service->control = fork();
    if (service->control == 0)
        run_program(service, "-f", open("/dev/null", O_RDONLY | O_CLOEXEC), STDERR_FILENO);
    if (service->control < 0) {
        service->control = 0;
        return error_set_errno(error, -errno, "cannot start %s", service->program);
    }
    return 0;
}

/* Whether it runs. */
static bool control_lives(struct service *service)
{
    if (service->control > 0 && waitpid(service->control, NULL, WNOHANG) == service->control)
        service->control = 0;
    return service->control > 0;
}

/* Reads until the output ends or the deadline passes. */
static int read_answer(int output, char *answer, double deadline)
{
    size_t length = 0;

    for (;;) {
        double left = deadline - clock_monotonic();
        struct pollfd wait = {.fd = output, .events = POLLIN};
        ssize_t got;

        if (left <= 0 || poll(&wait, 1, (int)(left * 1000) + 1) == 0)
            return -ETIMEDOUT;
        got = read(output, answer + length, ANSWER_MAX - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || (length += (size_t)got) == ANSWER_MAX - 1) {
            answer[length] = '\0';
            return 0;
        }
    }
}

/* Gets the control daemon's answer to a command. -ETIMEDOUT: no answer; -ERROR_SERVICE_REPLY: the
 * command failed. */
static int control_ask(const struct service *service, const char *command, char answer[ANSWER_MAX])
{
    double deadline = clock_monotonic() + ANSWER_SECONDS;
    AUTO_CLOSE int input = -1, output = -1;
    int to[2], from[2], status = 0, r;
    pid_t child;

    if (pipe2(to, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(from, O_CLOEXEC) < 0) {
        r = -errno;
        close(to[0]);
        close(to[1]);
        return r;
    }
    child = fork();
    if (child == 0)
        run_program(service, NULL, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    input = to[1];
    output = from[0];
    if (child < 0)
        return -errno;
    r = file_write_all(input, command, strlen(command)); /* SIGPIPE is ignored */
    close(TAKE_DESCRIPTOR(input));
    if (r == 0 || r == -EPIPE)
        r = read_answer(output, answer, deadline);
    kill(-child, SIGKILL); /* it has ended, or hangs */
    if (r < 0)
        kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (r == 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        r = -ERROR_SERVICE_REPLY;
    return r;
}

/* Starts the control daemon and waits for its server, so that clients only have to connect. */
static int control_begin(struct service *service, struct error *error)
{
    double deadline = clock_monotonic() + MPS_READY_SECONDS / 2.0;
    char command[64], answer[ANSWER_MAX];
    bool asked = false;
    int r = control_start(service, error);

    if (r < 0)
        return r;
    snprintf(command, sizeof command, "start_server -uid %u\n", (unsigned)geteuid());
    for (;;) {
        if (!control_lives(service))
            return error_set(error, -ECHILD, "%s -f has ended at once", service->program);
        r = control_ask(service, asked ? "get_server_list\n" : command, answer);
        if (r == -ETIMEDOUT || clock_monotonic() > deadline)
            return error_set(error, -ETIMEDOUT, "%s does not answer", service->program);
        if (asked && r == 0 && isdigit((unsigned char)answer[0]))
            return 0;
        asked |= r == 0;
        pause_milliseconds(10);
    }
}

static void control_end(struct service *service)
{
    double deadline = clock_monotonic() + ANSWER_SECONDS;
    char answer[ANSWER_MAX];

    if (!control_lives(service))
        return;
    control_ask(service, "quit\n", answer);
    while (control_lives(service) && clock_monotonic() < deadline)
        pause_milliseconds(10);
    if (!control_lives(service))
        return;
    /* also kills its server, which a stopped control daemon could not end */
    kill(-service->control, SIGKILL);
    waitpid(service->control, NULL, 0);
    service->control = 0;
}

/* ---- the folder ---- */

/* The folder comes first, also where it is of no use: clients are told so there. */
static int folder_open(struct service *service, struct error *error)
{
    char path[PATH_MAX];

    if (mkdir(service->folder, 0700) < 0 && errno != EEXIST)
        return error_set_errno(error, -errno, "cannot make %s", service->folder);
    if (strlen(service->folder) > FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG,
                         "%s is too long a path for the sockets of MPS; use a state folder with a "
                         "shorter one",
                         service->folder);
    snprintf(path, sizeof path, "%s/clients", service->folder);
    service->clients = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return service->clients < 0 ? error_set_errno(error, -errno, "cannot make %s", path) : 0;
}

static int admit(const struct service *service, struct error *error)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/ready", service->folder);
    return file_replace(AT_FDCWD, path, "", 0, 0600, 0, error);
}

/* Refuses new clients; present ones stay. */
static void refuse(const struct service *service, const char *reason)
{
    char path[PATH_MAX];
    struct error ignored;

    snprintf(path, sizeof path, "%s/refused", service->folder);
    file_replace(AT_FDCWD, path, reason, strlen(reason), 0600, 0, &ignored);
    snprintf(path, sizeof path, "%s/ready", service->folder);
    unlink(path);
}

/* ---- running the service ---- */

static bool is_used(const struct service *service)
{
    if (flock(service->clients, LOCK_EX | LOCK_NB) < 0)
        return true;
    flock(service->clients, LOCK_UN);
    return false;
}

static bool is_asked_to_stop(void)
{
    return atomic_load(&requests.stop) != 0;
}

/* Serves until no client is left. 0, or the failure of the control daemon. */
static int serve(struct service *service, struct error *error)
{
    double used = clock_monotonic(), asked = used;
    char answer[ANSWER_MAX];

    for (;;) {
        double now = clock_monotonic();

        if (!control_lives(service))
            return error_set(error, -ECHILD, "%s has ended", service->program);
        if (is_used(service))
            used = now;
        else if (is_asked_to_stop() || now - used >= IDLE_SECONDS)
            break;
        if (now - asked >= ASK_SECONDS) {
            if (control_ask(service, "get_server_list\n", answer) == -ETIMEDOUT)
                return error_set(error, -ETIMEDOUT, "%s does not answer any more",
                                 service->program);
            asked = clock_monotonic();
        }
        pause_milliseconds(LOOK_MILLISECONDS);
    }
    refuse(service, "the MPS service of this GPU had ended, as nobody used it");
    return 0;
}

/* Waits for the clients to end: connected clients do not need a failed control daemon. */
static void outlast_clients(const struct service *service)
{
    while (is_used(service))
        pause_milliseconds(LOOK_MILLISECONDS);
}

int worker_mps(const struct worker_options *options)
{
    struct service service = {.folder = options->mps, .program = options->control, .clients = -1};
    struct error error = {0};
    int r;

    worker_signals_serve(&requests);
    setenv("CUDA_MPS_PIPE_DIRECTORY", service.folder, 1);
    setenv("CUDA_MPS_LOG_DIRECTORY", service.folder, 1);
    r = folder_open(&service, &error);
    if (r == 0)
        r = control_begin(&service, &error);
    if (r == 0)
        r = admit(&service, &error);
    if (r == 0)
        r = serve(&service, &error);
    if (r < 0) {
        log_error("%s", error.text);
        refuse(&service, error.text);
    }
    if (service.clients >= 0)
        outlast_clients(&service);
    control_end(&service);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
