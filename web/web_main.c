/* web_main.c: traind-web shows traind in a browser. */
#include "base/cleanup.h"
#include "base/log.h"
#include "web/server.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct web_options options;
    struct web_server *server;
    struct error error = {0};
    sigset_t endings;
    int status = web_options_read(argc, argv, &options), ending;

    if (status >= 0)
        return status;
    log_configure("traind-web", LOG_LEVEL_INFO);
    mallopt(M_ARENA_MAX, 2); /* not an arena of memory for each connection's thread */
    sigemptyset(&endings);
    sigaddset(&endings, SIGINT);
    sigaddset(&endings, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &endings, NULL); /* also in the threads to come */
    signal(SIGPIPE, SIG_IGN);
    if (web_server_open(&options, &server, &error) < 0) {
        log_error("%s", error.text);
        return EXIT_FAILURE;
    }
    {
        AUTO_FREE char *address = web_server_address(server);

        if (printf("traind-web is at %s\n", address) < 0 || fflush(stdout) != 0)
            log_warning("the address of traind-web cannot be printed");
    }
    sigwait(&endings, &ending);
    web_server_close(server);
    return EXIT_SUCCESS;
}
