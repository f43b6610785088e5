/* pdf.c: see pdf.h. A PDF of our own would need text to be shaped and fonts to be embedded (cairo
 * and pango), a second layout beside that of the page. These programs lay out the same page. */
#include "client/reports/pdf.h"

#include "base/cleanup.h"
#include "client/command_line/complain.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WORDS_MAX = 12, NOT_FOUND = 127 };

static volatile sig_atomic_t program; /* the child that runs; 0: none */

/* Ends the program instead of this one, which removes the folder then. */
static void interrupted(int signal_number)
{
    (void)signal_number;
    if (program > 0)
        kill(program, SIGTERM);
}

/* Waits for the child. SIGINT and SIGTERM end it meanwhile. Returns its status as of waitpid(). */
static int program_wait(pid_t child)
{
    struct sigaction forward = {.sa_handler = interrupted}, on_interrupt, on_end;
    int status = 0;

    program = child;
    sigaction(SIGINT, &forward, &on_interrupt);
    sigaction(SIGTERM, &forward, &on_end);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    program = 0;
    sigaction(SIGINT, &on_interrupt, NULL);
    sigaction(SIGTERM, &on_end, NULL);
    return status;
}

/* Runs the program with its output out of sight. Returns its exit status; NOT_FOUND: there is
 * none. */
static int program_run(const char *const *words)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        execvp(words[0], (char *const *)words);
        _exit(errno == ENOENT ? NOT_FOUND : NOT_FOUND - 1);
    }
    if (child < 0)
        return NOT_FOUND - 1;
    status = program_wait(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether the program has left a PDF: Chromium's exit status does not tell. */
static bool pdf_exists(const char *pdf)
{
    struct stat status;

    return stat(pdf, &status) == 0 && status.st_size > 0;
}

static int chromium_run(const char *name, const char *folder, const char *html, const char *pdf)
{
    AUTO_FREE char *output = NULL, *address = NULL, *profile = NULL;
    const char *words[WORDS_MAX] = {name, "--headless", "--disable-gpu", "--no-pdf-header-footer"};
    size_t used = 4;

    if (asprintf(&output, "--print-to-pdf=%s", pdf) < 0)
        output = NULL;
    if (asprintf(&address, "file://%s", html) < 0)
        address = NULL;
    if (asprintf(&profile, "--user-data-dir=%s/profile", folder) < 0)
        profile = NULL;
    if (!output || !address || !profile)
        return NOT_FOUND - 1;
    words[used++] = profile;
    if (geteuid() == 0) /* Chromium's sandbox refuses root; the page is ours, and runs nothing */
        words[used++] = "--no-sandbox";
    words[used++] = output;
    words[used] = address;
    return program_run(words);
}

enum exit_status pdf_make(const char *folder)
{
    static const char *const programs[] = {"weasyprint", "chromium", "wkhtmltopdf"};
    AUTO_FREE char *html = NULL, *pdf = NULL;

    if (asprintf(&html, "%s/report.html", folder) < 0)
        html = NULL;
    if (asprintf(&pdf, "%s/report.pdf", folder) < 0)
        pdf = NULL;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && html && pdf; i++) {
        int status = strcmp(programs[i], "chromium") == 0
                         ? chromium_run(programs[i], folder, html, pdf)
                         : program_run((const char *const[]){programs[i], html, pdf, NULL});

        if (status == NOT_FOUND)
            continue;
        if (pdf_exists(pdf))
            return EXIT_STATUS_DONE;
        complain("%s made no PDF (exit status %d); -o FILE.html writes the same report as a page",
                 programs[i], status);
        return EXIT_STATUS_FAILED;
    }
    complain("a PDF is made by weasyprint, chromium or wkhtmltopdf, and none is installed: `apt "
             "install weasyprint`; -o FILE.html writes the same report as a page");
    return EXIT_STATUS_FAILED;
}

static int entry_remove(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    (void)remove(path);
    return 0;
}

void pdf_folder_remove(const char *folder)
{
    enum { DESCRIPTORS = 16 };

    nftw(folder, entry_remove, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}
