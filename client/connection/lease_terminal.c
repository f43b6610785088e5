/* lease_terminal.c: see lease_terminal.h. The terminal is raw meanwhile: every key goes to the
 * shell's own terminal, which knows what Ctrl-C means. */
#include "client/connection/lease_terminal.h"

#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

struct lease_terminal {
    struct lease_link link;
    bool raw, input_ended;
    struct termios before;
    int signals; /* descriptor of SIGWINCH and of what ends this program */
    sigset_t mask_before;
    int status;
};

static void size_send(struct lease_terminal *terminal)
{
    struct winsize size;
    unsigned char bytes[4];

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    bytes[0] = (unsigned char)(size.ws_row >> 8);
    bytes[1] = (unsigned char)size.ws_row;
    bytes[2] = (unsigned char)(size.ws_col >> 8);
    bytes[3] = (unsigned char)size.ws_col;
    lease_send(&terminal->link, LEASE_SIZE, bytes, sizeof bytes);
}

static void terminal_open(struct lease_terminal *terminal)
{
    struct termios raw;
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGWINCH);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, &terminal->mask_before);
    terminal->signals = signalfd(-1, &signals, SFD_CLOEXEC);
    terminal->raw = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &terminal->before) == 0;
    if (!terminal->raw)
        return;
    raw = terminal->before;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void terminal_close(struct lease_terminal *terminal)
{
    if (terminal->raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
    close(terminal->signals);
    sigprocmask(SIG_SETMASK, &terminal->mask_before, NULL);
}

static void input_read(struct lease_terminal *terminal)
{
    char bytes[LEASE_DATA_MAX];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);

    if (got > 0) {
        lease_send(&terminal->link, LEASE_DATA, bytes, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        terminal->input_ended = true;
        lease_send(&terminal->link, LEASE_INPUT_END, NULL, 0);
    }
}

static void frames_read(struct lease_terminal *terminal)
{
    bool open = lease_read(&terminal->link);
    struct lease_frame frame;

    while (lease_take(&terminal->link, &frame)) {
        if (frame.kind == LEASE_DATA)
            file_write_all(STDOUT_FILENO, frame.bytes, frame.size);
        else if (frame.kind == LEASE_ENDED && frame.size == 1)
            terminal->status = frame.bytes[0];
    }
    if (!open || terminal->status >= 0)
        lease_link_close(&terminal->link);
}

/* A window has changed its size; or this program is to end, and the lease with it. */
static void signal_read(struct lease_terminal *terminal)
{
    struct signalfd_siginfo info;

    if (read(terminal->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGWINCH)
        size_send(terminal);
    else
        lease_link_close(&terminal->link);
}

int lease_terminal_run(int socket)
{
    struct lease_terminal terminal = {.status = -1};

    lease_link_open(&terminal.link, socket);
    terminal_open(&terminal);
    size_send(&terminal);
    while (terminal.link.socket >= 0) {
        bool asks = !terminal.input_ended && lease_has_room(&terminal.link);
        struct pollfd polled[] = {
            {.fd = terminal.link.socket,
             .events = (short)(POLLIN | (terminal.link.output_used ? POLLOUT : 0))},
            {.fd = terminal.signals, .events = POLLIN},
            {.fd = asks ? STDIN_FILENO : -1, .events = POLLIN},
        };

        if (poll(polled, 3, -1) < 0)
            continue;
        if (polled[0].revents & POLLOUT)
            lease_flush(&terminal.link);
        if (polled[1].revents)
            signal_read(&terminal);
        if (polled[2].revents && terminal.link.socket >= 0)
            input_read(&terminal);
        if (polled[0].revents & (POLLIN | POLLHUP | POLLERR) && terminal.link.socket >= 0)
            frames_read(&terminal);
    }
    terminal_close(&terminal);
    return terminal.status;
}
