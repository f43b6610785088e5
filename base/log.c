/* log.c: see log.h. */
#include "base/log.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THROTTLE_SECONDS = 60 };

static const char *const log_level_names[] = {[LOG_LEVEL_ERROR] = "error",
                                              [LOG_LEVEL_WARNING] = "warning",
                                              [LOG_LEVEL_INFO] = "info",
                                              [LOG_LEVEL_DEBUG] = "debug"};

DEFINE_STRING_TABLE(log_level, enum log_level, log_level_names)

static const char *log_program = "traind";
static enum log_level log_maximum = LOG_LEVEL_INFO;

void log_configure(const char *program, enum log_level maximum)
{
    log_program = program;
    log_maximum = maximum;
}

void log_line(enum log_level level, const char *format, ...)
{
    static const int priorities[] = {3, 4, 6, 7}; /* syslog(3) */
    char text[2048], escaped[4096], line[4352];
    va_list arguments;
    int length;

    if (level > log_maximum)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_escape_controls(text, escaped, sizeof escaped);
    if (getenv("JOURNAL_STREAM")) {
        length = snprintf(line, sizeof line, "<%d>%s\n", priorities[level], escaped);
    } else {
        time_t now = time(NULL);
        struct tm local;
        char stamp[32];

        localtime_r(&now, &local);
        strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
        length = snprintf(line, sizeof line, "%s %s[%d] %s: %s\n", stamp, log_program, getpid(),
                          log_level_to_string(level), escaped);
    }
    /* one write(2) per line keeps the lines of several processes apart; a line is lost if the pipe
     * is full */
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}

bool log_throttle_pass(struct log_throttle *throttle, int code, char note[LOG_NOTE_MAX])
{
    double now = clock_monotonic();

    if (throttle->last > 0 && throttle->code == code && now < throttle->last + THROTTLE_SECONDS) {
        throttle->left_out++;
        return false;
    }
    note[0] = '\0';
    if (throttle->left_out > 0)
        snprintf(note, LOG_NOTE_MAX, " (%ld more times since this was said last)",
                 throttle->left_out);
    *throttle = (struct log_throttle){.last = now, .code = code};
    return true;
}
