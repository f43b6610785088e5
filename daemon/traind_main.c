/* traind_main.c: options and configuration of traind; daemon.c does the rest. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "daemon/daemon.h"
#include "daemon/devices/registry/registry.h"
#include "daemon/server/refusal.h"
#include "daemon/server/server.h"
#include "daemon/service_manager.h"
#include "daemon/state_directory.h"
#include "daemon/work/user_shares.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *state_directory, *socket, *config;
    enum log_level log_level;
    bool checks_config;
};

static void print_help(FILE *output)
{
    fputs("Usage: traind [OPTION]...\n"
          "Runs training jobs on the device of this machine that finishes them soonest.\n"
          "Started by root it serves every user (system mode), else the one who started it.\n\n"
          "  --state-dir DIR      where jobs, metrics and checkpoints are kept\n"
          "                       (/var/lib/traind; a user: $XDG_STATE_HOME/traind)\n"
          "  --socket PATH        where to listen, unless systemd hands over a socket\n"
          "                       (/run/traind/traind.sock; a user: "
          "$XDG_RUNTIME_DIR/traind/traind.sock, without\n"
          "                       that variable traind.sock in its state directory)\n"
          "  --config FILE        configuration, with FILE.d/*.conf\n"
          "                       (/etc/traind/traind.conf; a user: "
          "$XDG_CONFIG_HOME/traind/traind.conf)\n"
          "  --check-config       reads the configuration, and says what is wrong with it\n"
          "  --log-level LEVEL    error, warning, info (default) or debug\n"
          "  --help-config[=FORM] prints every configuration key: text, markdown, or file\n"
          "  --version, --help\n",
          output);
}

static int print_config(const char *form)
{
    int found = form ? config_form_from_string(form) : CONFIG_TEXT;

    if (found < 0) {
        fprintf(stderr, "traind: --help-config takes text, markdown or file, not \"%s\"\n", form);
        return DAEMON_EXIT_USAGE;
    }
    config_print((enum config_form)found, device_registry_kind, stdout);
    return EXIT_SUCCESS;
}

static int parse_log_level(const char *name, enum log_level *level)
{
    int found = log_level_from_string(name);

    if (found < 0)
        return -EINVAL;
    *level = (enum log_level)found;
    return 0;
}

_Static_assert((int)DAEMON_EXIT_USAGE == (int)OPTION_EXIT_USAGE,
               "wrong words end every program alike");

enum known_option {
    STATE_DIRECTORY,
    SOCKET,
    CONFIG,
    CHECK_CONFIG,
    LOG_LEVEL,
    HELP_CONFIG,
    VERSION,
    HELP
};

static const struct option_spelling known_options[] = {
    [STATE_DIRECTORY] = {"state-dir", 0, OPTION_VALUE_REQUIRED},
    [SOCKET] = {"socket", 0, OPTION_VALUE_REQUIRED},
    [CONFIG] = {"config", 0, OPTION_VALUE_REQUIRED},
    [CHECK_CONFIG] = {"check-config", 0, OPTION_VALUE_NONE},
    [LOG_LEVEL] = {"log-level", 0, OPTION_VALUE_REQUIRED},
    [HELP_CONFIG] = {"help-config", 0, OPTION_VALUE_OPTIONAL},
    [VERSION] = {"version", 0, OPTION_VALUE_NONE},
    [HELP] = {"help", 0, OPTION_VALUE_NONE},
};

/* -1 to go on, else the exit status. */
static int take_option(size_t option, const char *value, void *data)
{
    struct options *options = data;

    switch ((enum known_option)option) {
    case STATE_DIRECTORY:
        options->state_directory = value;
        break;
    case SOCKET:
        options->socket = value;
        break;
    case CONFIG:
        options->config = value;
        break;
    case CHECK_CONFIG:
        options->checks_config = true;
        break;
    case LOG_LEVEL:
        if (parse_log_level(value, &options->log_level) == 0)
            break;
        fprintf(stderr, "traind: --log-level takes error, warning, info or debug\n");
        return DAEMON_EXIT_USAGE;
    case HELP_CONFIG:
        return print_config(value);
    case VERSION:
        puts("traind " TRAIND_VERSION);
        return EXIT_SUCCESS;
    case HELP:
        print_help(stdout);
        return EXIT_SUCCESS;
    }
    return -1;
}

/* -1 to go on, else the exit status. */
static int parse_options(int count, char **words, struct options *options)
{
    static const struct option_program program = {"traind", print_help, known_options,
                                                  sizeof known_options / sizeof *known_options,
                                                  take_option};

    options->log_level = LOG_LEVEL_INFO;
    return option_read_all(&program, count, words, options);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* "<$variable, or home/fallback>/traind/<name>", malloc'd; NULL when neither is known. */
static char *user_path(const char *variable, const char *fallback, const char *name)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    char *path = NULL;

    if (base && *base == '/') {
        path = memory_format("%s/traind%s", base, name);
    } else if (fallback && home && *home == '/') {
        path = memory_format("%s/%s/traind%s", home, fallback, name);
    }
    return path;
}

static char *absolute_path(const char *path)
{
    char here[PATH_MAX];

    if (*path == '/')
        return memory_copy_text(path);
    return getcwd(here, sizeof here) ? memory_format("%s/%s", here, path) : NULL;
}

/* Makes the folder of the default socket. systemd's units make it, but an ordinary user may not
 * have it yet. */
static int make_socket_folder(const char *socket, unsigned mode, struct error *error)
{
    AUTO_FREE char *folder = memory_copy_text(socket);

    *strrchr(folder, '/') = '\0';
    return *folder ? directory_make(folder, mode, error) : 0;
}

static int find_places(const struct options *options, struct daemon *daemon, char **socket,
                       struct error *error)
{
    bool system = daemon->mode == DAEMON_SYSTEM;

    daemon->state_directory = options->state_directory ? absolute_path(options->state_directory)
                              : system                 ? memory_copy_text("/var/lib/traind")
                                       : user_path("XDG_STATE_HOME", ".local/state", "");
    *socket = options->socket ? absolute_path(options->socket)
              : system        ? memory_copy_text("/run/traind/traind.sock")
                              : user_path("XDG_RUNTIME_DIR", NULL, "/traind.sock");
    if (!*socket) /* after su and in containers no login session has made that folder */
        *socket = user_path("XDG_STATE_HOME", ".local/state", "/traind.sock");
    if (!daemon->state_directory || !*socket)
        return error_set(error, -ENOENT,
                         "neither XDG_STATE_HOME nor HOME is set; give --state-dir and --socket");
    return options->socket ? 0 : make_socket_folder(*socket, system ? 0755 : 0700, error);
}

static int read_config(const struct options *options, struct daemon *daemon, struct error *error)
{
    char *path;

    config_init(&daemon->config, device_registry_kind);
    if (options->config && access(options->config, R_OK) < 0)
        return error_set_errno(error, -errno, "cannot read %s", options->config);
    path = options->config ? absolute_path(options->config)
           : daemon->mode == DAEMON_SYSTEM
               ? memory_copy_text("/etc/traind/traind.conf")
               : user_path("XDG_CONFIG_HOME", ".config", "/traind.conf");
    daemon->config_path = path;
    return path ? config_read(&daemon->config, path, error) : 0;
}

/* Reads the configuration as a start does, with the groups and users that it names. */
static int check_config(const struct options *options, struct daemon *daemon, struct error *error)
{
    struct user_shares shares = {0};
    gid_t group;
    int result = read_config(options, daemon, error);

    if (result == 0)
        result = server_find_admin_group(daemon->config.admin_group, &group, error);
    if (result == 0)
        result = user_shares_read(daemon->config.shares, &shares, error);
    user_shares_release(&shares);
    if (result < 0)
        daemon->failure_exit = DAEMON_EXIT_CONFIGURATION;
    else if (daemon->config_path)
        printf(
            access(daemon->config_path, F_OK) == 0
                ? "%s is in order\n"
                : "%s is not there; the defaults, and the files of its .d folder, are in order\n",
            daemon->config_path);
    return result;
}

static gid_t find_socket_group(enum daemon_mode mode)
{
    struct group *group = mode == DAEMON_SYSTEM ? getgrnam("traind") : NULL;

    return group ? group->gr_gid : (gid_t)-1;
}

/* Runs the daemon on the socket that systemd passed (`listening`), or else on a path. */
static int run(const struct options *options, struct daemon *daemon, int listening,
               struct error *error)
{
    AUTO_FREE char *socket = NULL;
    AUTO_CLOSE int lock = -1;
    int result = find_places(options, daemon, &socket, error);

    if (result == 0)
        result = read_config(options, daemon, error);
    if (result == 0)
        result = state_directory_open(daemon->state_directory, &lock, error);
    if (result < 0) { /* a restart would fail in the same way, unless another traind is the
                       * reason */
        if (result != -EBUSY && result != -ENOMEM && result != -ENOSPC)
            daemon->failure_exit = DAEMON_EXIT_CONFIGURATION;
        return result;
    }

    struct server_options server = {
        .descriptor = listening,
        .path = socket,
        .mode = daemon->mode == DAEMON_SYSTEM ? 0660 : 0600,
        .group = find_socket_group(daemon->mode),
    };
    return daemon_run(daemon, &server, error);
}

/* Reports why the daemon ends, on stderr, to systemd and to waiting clients. It does not use the
 * log, because that escapes the line breaks between the commands of a recovery. */
static void tell_failure(int listening, const char *sentence)
{
    const char *priority = getenv("JOURNAL_STREAM") ? "<3>" : "";

    fprintf(stderr, "%straind: ", priority);
    for (const char *line = sentence; line; line = strchr(line, '\n')) {
        line += line != sentence; /* skip the line break */
        fprintf(stderr, "%s%.*s\n", line == sentence ? "" : priority, (int)strcspn(line, "\n"),
                line);
    }
    service_manager_failed(sentence);
    if (listening >= 0)
        server_refuse_waiting(listening, sentence);
}

int main(int count, char **arguments)
{
    struct options options = {0};
    struct daemon daemon = {0};
    struct error error = {0};
    int status = parse_options(count, arguments, &options), listening, result;

    if (status >= 0)
        return status;
    file_fill_standard();
    log_configure("traind", options.log_level);
    umask(022);
    daemon.mode = geteuid() == 0 ? DAEMON_SYSTEM : DAEMON_USER;
    listening = options.checks_config ? -1 : service_manager_socket(&error);
    if (listening < -1)
        daemon.failure_exit = DAEMON_EXIT_CONFIGURATION;
    result = listening < -1          ? listening
             : options.checks_config ? check_config(&options, &daemon, &error)
                                     : run(&options, &daemon, listening, &error);
    if (result < 0 && options.checks_config)
        fprintf(stderr, "traind: %s\n", error.text);
    else if (result < 0)
        tell_failure(listening, error.text);
    config_release(&daemon.config);
    free(daemon.state_directory);
    free(daemon.config_path);
    if (result < 0)
        return daemon.failure_exit ? (int)daemon.failure_exit : DAEMON_EXIT_FAILURE;
    return DAEMON_EXIT_STOPPED;
}
