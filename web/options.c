/* options.c: see options.h. */
#include "web/options.h"

#include "base/options.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(FILE *output)
{
    fputs(
        "Usage: traind-web [OPTION]...\n"
        "Shows the jobs of traind in a browser, and submits, cancels and edits them, as the user\n"
        "who runs it.\n\n"
        "  --port PORT          where to listen (default: 8470); 0: any free port\n"
        "  --address ADDRESS    an address other than 127.0.0.1; needs TLS\n"
        "  --socket PATH        listen at a Unix socket instead, for a proxy in front\n"
        "  --host NAME          a further name of this server in addresses; repeatable\n"
        "  --tls-cert FILE      the certificate, and those between it and the root (PEM)\n"
        "  --tls-key FILE       its key (PEM)\n"
        "  --token-file FILE    keep the token in FILE, so that addresses outlive a restart\n"
        "  --metrics-token-file FILE\n"
        "                       keep in FILE a second token, which reads /metrics and nothing else\n"
        "  --no-token           whoever may open the Unix socket may act as you\n"
        "  --read-only          show jobs, and change none\n"
        "  --patience SECONDS   how long a request may take to arrive (default: 20)\n"
        "  --daemon PATH        the socket of traind (default: $TRAIND_SOCKET, or where it is)\n"
        "  --version, --help\n",
        output);
}

enum known_option {
    PORT,
    ADDRESS,
    SOCKET,
    HOST,
    TLS_CERTIFICATE,
    TLS_KEY,
    TOKEN_FILE,
    METRICS_TOKEN_FILE,
    NO_TOKEN,
    READ_ONLY,
    PATIENCE,
    DAEMON,
    VERSION,
    HELP
};

static const struct option_spelling known_options[] = {
    [PORT] = {"port", 0, OPTION_VALUE_REQUIRED},
    [ADDRESS] = {"address", 0, OPTION_VALUE_REQUIRED},
    [SOCKET] = {"socket", 0, OPTION_VALUE_REQUIRED},
    [HOST] = {"host", 0, OPTION_VALUE_REQUIRED},
    [TLS_CERTIFICATE] = {"tls-cert", 0, OPTION_VALUE_REQUIRED},
    [TLS_KEY] = {"tls-key", 0, OPTION_VALUE_REQUIRED},
    [TOKEN_FILE] = {"token-file", 0, OPTION_VALUE_REQUIRED},
    [METRICS_TOKEN_FILE] = {"metrics-token-file", 0, OPTION_VALUE_REQUIRED},
    [NO_TOKEN] = {"no-token", 0, OPTION_VALUE_NONE},
    [READ_ONLY] = {"read-only", 0, OPTION_VALUE_NONE},
    [PATIENCE] = {"patience", 0, OPTION_VALUE_REQUIRED},
    [DAEMON] = {"daemon", 0, OPTION_VALUE_REQUIRED},
    [VERSION] = {"version", 0, OPTION_VALUE_NONE},
    [HELP] = {"help", 0, OPTION_VALUE_NONE},
};

static int refuse(const char *sentence)
{
    fprintf(stderr, "traind-web: %s\n", sentence);
    return OPTION_EXIT_USAGE;
}

/* -1, or the exit status if the text is no number from `least` to `most`. */
static int take_number(const char *text, long least, long most, const char *sentence, int *number)
{
    char *end;
    long found = strtol(text, &end, 10);

    if (end == text || *end || found < least || found > most)
        return refuse(sentence);
    *number = (int)found;
    return -1;
}

static int take_host(const char *value, struct web_options *options)
{
    if (!*value)
        return refuse("--host takes a name or an address of this server");
    if (options->host_count == WEB_HOSTS_MAX)
        return refuse("--host may be given 16 times");
    options->hosts[options->host_count++] = value;
    return -1;
}

/* -1 to go on, else the exit status. */
static int take_option(size_t option, const char *value, void *data)
{
    struct web_options *options = data;
    const char **const texts[] = {
        [ADDRESS] = &options->address,
        [SOCKET] = &options->socket,
        [TLS_CERTIFICATE] = &options->certificate,
        [TLS_KEY] = &options->key,
        [TOKEN_FILE] = &options->token_file,
        [METRICS_TOKEN_FILE] = &options->metrics_token_file,
        [DAEMON] = &options->daemon,
    };

    switch ((enum known_option)option) {
    case PORT:
        return take_number(value, 0, 65535, "--port takes a number from 0 to 65535",
                           &options->port);
    case PATIENCE:
        return take_number(value, 1, 3600, "--patience takes a number of seconds from 1 to 3600",
                           &options->patience);
    case HOST:
        return take_host(value, options);
    case NO_TOKEN:
        options->no_token = true;
        break;
    case READ_ONLY:
        options->read_only = true;
        break;
    case VERSION:
        puts("traind-web " TRAIND_VERSION);
        return EXIT_SUCCESS;
    case HELP:
        print_help(stdout);
        return EXIT_SUCCESS;
    case ADDRESS:
    case SOCKET:
    case TLS_CERTIFICATE:
    case TLS_KEY:
    case TOKEN_FILE:
    case METRICS_TOKEN_FILE:
    case DAEMON:
        *texts[option] = value;
        break;
    }
    return -1;
}

/* -1, or the exit status if it is no address, or packets to it leave this machine unencrypted. */
static int check_address(const char *address, bool encrypted)
{
    struct in_addr four;
    struct in6_addr six;
    bool is_four = inet_pton(AF_INET, address, &four) == 1;
    bool is_loopback = is_four && (ntohl(four.s_addr) >> 24) == 127;

    if (!is_four) {
        if (inet_pton(AF_INET6, address, &six) != 1)
            return refuse("--address takes an address such as 192.168.1.5 or ::1");
        is_loopback = IN6_IS_ADDR_LOOPBACK(&six);
    }
    if (!is_loopback && !encrypted)
        return refuse("--address lets others read the token on its way: give --tls-cert and "
                      "--tls-key, or leave it out and put a proxy with TLS in front");
    return -1;
}

/* -1, or the exit status if the options contradict each other. */
static int check(const struct web_options *options)
{
    if (!options->certificate != !options->key)
        return refuse("--tls-cert and --tls-key are given together");
    if (options->socket && (options->address || options->certificate))
        return refuse("--socket listens at a Unix socket: it takes neither --address nor TLS");
    if (options->no_token && !options->socket)
        return refuse("--no-token needs --socket, whose permissions then say who may act as you: "
                      "any program of any user may connect to a port");
    if (options->no_token && options->metrics_token_file)
        return refuse("with --no-token /metrics needs no token: leave out --metrics-token-file");
    if (options->token_file && options->metrics_token_file &&
        strcmp(options->token_file, options->metrics_token_file) == 0)
        return refuse("--metrics-token-file is another file than --token-file, whose token may do "
                      "all that you may");
    return options->address ? check_address(options->address, options->certificate) : -1;
}

int web_options_read(int count, char **words, struct web_options *options)
{
    static const struct option_program program = {"traind-web", print_help, known_options,
                                                  sizeof known_options / sizeof *known_options,
                                                  take_option};
    int status;

    *options = (struct web_options){.port = WEB_PORT_DEFAULT, .patience = WEB_PATIENCE_DEFAULT};
    status = option_read_all(&program, count, words, options);
    return status < 0 ? check(options) : status;
}
