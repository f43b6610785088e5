/* log.h: the one logging call. Lines go to standard error; under systemd (JOURNAL_STREAM set) each
 * carries its syslog priority as "<N>", else a time stamp and the level's name. */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Names the program in each line and drops what is above `maximum`. */
void log_configure(const char *program, enum log_level maximum);

#include <stdbool.h>

/* Writes one line (no newline in the format); control characters are escaped. Thread-safe. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Of a line that would come again and again, while a disk is full say. Zeroed at the beginning; of
 * one thread alone. */
struct log_throttle {
    double last; /* monotonic seconds, 0: never */
    int code;
    long left_out;
};

/* Whether the line is to be written: once a minute, and at once for another `code` than the last
 * time. `note` then says how many were left out since, or is empty. */
enum { LOG_NOTE_MAX = 64 };
bool log_throttle_pass(struct log_throttle *throttle, int code, char note[LOG_NOTE_MAX]);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
