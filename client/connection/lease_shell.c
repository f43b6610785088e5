/* lease_shell.c: see lease_shell.h. */
#include "client/connection/lease_shell.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/connection/lease_frames.h"
#include "client/connection/lease_use.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LOOK_MILLISECONDS = 250, HANG_UP_SECONDS = 5 };

static const double STOOD_STILL_SECONDS = 3;              /* a turn takes less than one */
static const double WARN_SECONDS = 300, WARN_PART = 0.25; /* before an end, whichever is less */
static const double INPUT_END_SECONDS = 0.25;             /* the first pause; each one doubles it */
static const double BUSY_PART =
    0.01; /* of a core: what an idle shell with a prompt takes is less */

struct lease_shell {
    struct invocation *invocation;
    const struct lease_terms *terms;
    struct lease_link link;
    int terminal; /* the master of the shell's terminal; -1: the shell has closed it */
    pid_t pid;
    unsigned char typed[2 * LEASE_DATA_MAX]; /* what the terminal has not taken yet */
    size_t typed_used;
    double begun, used_at; /* monotonic; later by the time that it stood still */
    double turned_at;      /* monotonic; of the last turn */
    double looked_at, processor_seconds;
    bool warned_end, warned_idle;
    double input_end_at;    /* monotonic; when the end of the input is typed next; 0: not yet */
    double input_end_pause; /* seconds until it is typed once more */
    double hung_up_at;      /* 0: the shell may go on */
    int status;
};

/* ---- the shell ------------------------------------------------------------------------------- */

static int shell_start(struct lease_shell *shell, struct error *error)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};

    shell->pid = forkpty(&shell->terminal, NULL, NULL, &size);
    if (shell->pid == 0) {
        execvp(shell->terms->command[0], shell->terms->command);
        fprintf(stderr, "trainctl: cannot execute %s: %s\n", shell->terms->command[0],
                strerror(errno));
        _exit(127);
    }
    if (shell->pid < 0)
        return error_set_errno(error, -errno, "cannot open a terminal for the shell");
    fcntl(shell->terminal, F_SETFL, fcntl(shell->terminal, F_GETFL) | O_NONBLOCK);
    fcntl(shell->terminal, F_SETFD, FD_CLOEXEC);
    return 0;
}

static void shell_hang_up(struct lease_shell *shell)
{
    if (shell->hung_up_at > 0)
        return;
    shell->hung_up_at = clock_monotonic();
    kill(-shell->pid, SIGHUP);
    kill(-shell->pid, SIGCONT);
}

/* Prints a line of ours on the person's terminal and in the job's log. */
static void __attribute__((format(printf, 2, 3)))
tell(struct lease_shell *shell, const char *format, ...)
{
    char line[256], framed[300];
    va_list arguments;
    int length;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    puts(line);
    fflush(stdout);
    length = snprintf(framed, sizeof framed, "\r\n[traind] %s\r\n", line);
    lease_send(&shell->link, LEASE_DATA, framed, (size_t)length);
}

/* ---- its time -------------------------------------------------------------------------------- */

static double warning_before(double seconds)
{
    return fmin(WARN_SECONDS, seconds * WARN_PART);
}

static void end_look(struct lease_shell *shell, double now)
{
    double left = shell->begun + shell->terms->seconds - now;
    char text[32];

    if (left <= 0) {
        tell(shell, "the time of this lease is over");
        shell_hang_up(shell);
    } else if (left <= warning_before(shell->terms->seconds) && !shell->warned_end) {
        shell->warned_end = true;
        tell(shell, "this lease ends in %s", text_format_duration(ceil(left), text, sizeof text));
    }
}

/* Whether processes of the job have computed since the last look. */
static bool processes_are_busy(struct lease_shell *shell, double now)
{
    double seconds = lease_processor_seconds(getppid());
    bool busy = seconds - shell->processor_seconds > BUSY_PART * (now - shell->looked_at);

    shell->processor_seconds = seconds;
    shell->looked_at = now;
    return busy;
}

static void idle_look(struct lease_shell *shell, double now)
{
    double limit = shell->terms->idle_seconds, idle;
    char text[32];

    if (limit <= 0)
        return;
    if (now - shell->looked_at >= fmin(5, limit / 8) &&
        (processes_are_busy(shell, now) || lease_device_is_used(shell->invocation)))
        shell->used_at = now;
    idle = now - shell->used_at;
    if (idle < limit - warning_before(limit)) {
        shell->warned_idle = false;
    } else if (idle >= limit) {
        tell(shell, "nothing has happened here for %s: this lease ends",
             text_format_duration(limit, text, sizeof text));
        shell_hang_up(shell);
    } else if (!shell->warned_idle) {
        shell->warned_idle = true;
        tell(shell, "nothing happens here: this lease ends in %s, unless something does",
             text_format_duration(ceil(limit - idle), text, sizeof text));
    }
}

/* Where the job was suspended, this process was frozen with the others: the person could not use
 * the device meanwhile, and does not pay for it. */
static void stand_still_look(struct lease_shell *shell, double now)
{
    double stood = now - shell->turned_at;
    char text[32];

    shell->turned_at = now;
    if (stood <= STOOD_STILL_SECONDS)
        return;
    shell->begun += stood;
    shell->used_at = fmin(shell->used_at + stood, now);
    shell->looked_at = fmin(shell->looked_at + stood, now);
    tell(shell, "this lease stood still for %s, in which its time did not pass",
         text_format_duration(stood, text, sizeof text));
}

static void time_look(struct lease_shell *shell)
{
    double now = clock_monotonic();

    stand_still_look(shell, now);
    if (shell->hung_up_at > 0 && now - shell->hung_up_at > HANG_UP_SECONDS)
        kill(-shell->pid, SIGKILL);
    if (shell->hung_up_at <= 0)
        end_look(shell, now);
    if (shell->hung_up_at <= 0)
        idle_look(shell, now);
}

/* ---- the relay ------------------------------------------------------------------------------- */

static void type(struct lease_shell *shell, const void *bytes, size_t size)
{
    if (size > sizeof shell->typed - shell->typed_used)
        return; /* frames are taken only where they fit */
    memcpy(shell->typed + shell->typed_used, bytes, size);
    shell->typed_used += size;
}

/* Types the end of the input, Ctrl-D, until the shell ends, after ever longer pauses: a shell that
 * sets its terminal up after the first one does not see it. */
static void input_end_look(struct lease_shell *shell)
{
    double now = clock_monotonic();
    struct termios settings;

    if (shell->input_end_at <= 0 || now < shell->input_end_at || shell->terminal < 0 ||
        shell->typed_used || tcgetattr(shell->terminal, &settings) < 0)
        return;
    type(shell, &settings.c_cc[VEOF], 1);
    shell->input_end_at = now + shell->input_end_pause;
    shell->input_end_pause *= 2;
}

static void frame_handle(struct lease_shell *shell, const struct lease_frame *frame)
{
    const unsigned char *bytes = frame->bytes;

    if (frame->kind == LEASE_DATA) {
        shell->used_at = clock_monotonic();
        type(shell, bytes, frame->size);
    } else if (frame->kind == LEASE_SIZE && frame->size == 4 && shell->terminal >= 0) {
        struct winsize size = {.ws_row = (unsigned short)(bytes[0] << 8 | bytes[1]),
                               .ws_col = (unsigned short)(bytes[2] << 8 | bytes[3])};

        ioctl(shell->terminal, TIOCSWINSZ, &size);
    } else if (frame->kind == LEASE_INPUT_END && shell->input_end_at <= 0) {
        shell->input_end_at = clock_monotonic();
        shell->input_end_pause = INPUT_END_SECONDS;
    }
}

static void typed_write(struct lease_shell *shell)
{
    ssize_t written;

    if (shell->terminal < 0 || shell->typed_used == 0)
        return;
    written = write(shell->terminal, shell->typed, shell->typed_used);
    if (written <= 0)
        return;
    shell->typed_used -= (size_t)written;
    memmove(shell->typed, shell->typed + written, shell->typed_used);
}

static bool typed_has_room(const struct lease_shell *shell)
{
    return shell->typed_used + LEASE_DATA_MAX <= sizeof shell->typed;
}

static void person_read(struct lease_shell *shell)
{
    bool open = lease_read(&shell->link);
    struct lease_frame frame;

    while (typed_has_room(shell) && lease_take(&shell->link, &frame))
        frame_handle(shell, &frame);
    if (!open)
        lease_link_close(&shell->link);
}

static void terminal_read(struct lease_shell *shell)
{
    char bytes[LEASE_DATA_MAX];
    ssize_t got = read(shell->terminal, bytes, sizeof bytes);

    if (got > 0) {
        shell->used_at = clock_monotonic();
        lease_send(&shell->link, LEASE_DATA, bytes, (size_t)got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(shell->terminal); /* EIO: nobody has the other end any more */
        shell->terminal = -1;
    }
}

/* One turn: waits for either end, a quarter of a second at most. */
static void relay(struct lease_shell *shell)
{
    bool prints = shell->terminal >= 0 && lease_has_room(&shell->link);
    struct pollfd polled[] = {
        {.fd = shell->link.socket,
         .events = (short)((typed_has_room(shell) ? POLLIN : 0) |
                           (shell->link.output_used ? POLLOUT : 0))},
        {.fd = shell->terminal,
         .events = (short)((prints ? POLLIN : 0) | (shell->typed_used ? POLLOUT : 0))},
    };
    struct lease_frame frame;

    if (poll(polled, 2, LOOK_MILLISECONDS) < 0)
        return;
    if (polled[0].revents & POLLOUT)
        lease_flush(&shell->link);
    if (shell->link.socket >= 0 && polled[0].revents & (POLLIN | POLLHUP | POLLERR))
        person_read(shell);
    while (typed_has_room(shell) && lease_take(&shell->link, &frame))
        frame_handle(shell, &frame);
    if (shell->typed_used)
        typed_write(shell);
    input_end_look(shell);
    if (prints && polled[1].revents & (POLLIN | POLLHUP))
        terminal_read(shell);
}

/* Prints what the terminal still has, and says how the shell ended. */
static void finish(struct lease_shell *shell)
{
    unsigned char status = (unsigned char)shell->status;
    struct pollfd polled = {.fd = shell->link.socket, .events = POLLOUT};

    while (shell->terminal >= 0 && shell->link.socket >= 0) {
        char bytes[LEASE_DATA_MAX];
        ssize_t got = lease_has_room(&shell->link) ? read(shell->terminal, bytes, sizeof bytes) : 0;

        if (got <= 0)
            break;
        lease_send(&shell->link, LEASE_DATA, bytes, (size_t)got);
    }
    lease_send(&shell->link, LEASE_ENDED, &status, 1);
    while (shell->link.socket >= 0 && shell->link.output_used &&
           poll(&polled, 1, HANG_UP_SECONDS * 1000) > 0)
        lease_flush(&shell->link);
    lease_link_close(&shell->link);
}

int lease_shell_run(struct invocation *invocation, const struct lease_terms *terms,
                    struct error *error)
{
    struct lease_shell shell = {.invocation = invocation, .terms = terms, .terminal = -1};
    int status = 0, socket = lease_connect(terms->name, error);

    if (socket < 0)
        return -1;
    lease_link_open(&shell.link, socket);
    shell.begun = shell.used_at = shell.looked_at = shell.turned_at = clock_monotonic();
    if (shell_start(&shell, error) < 0)
        return -1;
    while (waitpid(shell.pid, &status, WNOHANG) != shell.pid) {
        relay(&shell);
        if (shell.link.socket < 0)
            shell_hang_up(&shell); /* the person has gone */
        time_look(&shell);
    }
    shell.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    finish(&shell);
    return 0;
}
