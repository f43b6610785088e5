/* replacement_file.c: see replacement_file.h. */
#include "client/exports/replacement_file.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "client/command_line/complain.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

static const char *temporary_path; /* for the signal handler */

static void interrupted(int signal_number)
{
    unlink(temporary_path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

enum exit_status replacement_file_open(struct replacement_file *file, const char *path)
{
    struct error error = {0};

    *file = (struct replacement_file){.path = path, .descriptor = -1};
    if (file_check_replaceable(path, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (asprintf(&file->temporary, "%s.XXXXXX", path) < 0) {
        file->temporary = NULL;
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    file->descriptor = mkostemp(file->temporary, O_CLOEXEC);
    if (file->descriptor < 0) {
        complain("cannot write beside %s: %s", path, strerror(errno));
        free(TAKE_POINTER(file->temporary));
        return EXIT_STATUS_USAGE;
    }
    temporary_path = file->temporary;
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    return EXIT_STATUS_DONE;
}

enum exit_status replacement_file_finish(struct replacement_file *file)
{
    mode_t mask = umask(0);

    umask(mask);
    (void)fchmod(file->descriptor, 0666 & ~mask); /* mkostemp() makes it private */
    if (fsync(file->descriptor) == 0 && rename(file->temporary, file->path) == 0)
        return EXIT_STATUS_DONE;
    complain("cannot write %s: %s", file->path, strerror(errno));
    return EXIT_STATUS_FAILED;
}

void replacement_file_close(struct replacement_file *file)
{
    if (!file->temporary)
        return;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    unlink(file->temporary); /* it does not exist if it became the result */
    close(TAKE_DESCRIPTOR(file->descriptor));
    free(TAKE_POINTER(file->temporary));
}
