/* log.h: the one logging call. Lines go to standard error; under systemd (JOURNAL_STREAM set) each
 * carries its syslog priority as "<N>", else a time stamp and the level's name. */
#pragma once

#include "base/string_table.h"

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

DECLARE_STRING_TABLE(log_level, enum log_level);

/* Sets the program's name for each line, and the level above which lines are dropped. */
void log_configure(const char *program, enum log_level maximum);

/* Writes one line (no newline in the format); control characters are escaped. Thread-safe. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Limits a line that would repeat very often, for example while a disk is full. Starts zeroed; only
 * one thread may use it. */
struct log_throttle {
    double last; /* monotonic seconds, 0: never */
    int code;
    long left_out;
};

/* Whether to write the line: once a minute, or if `code` differs from the last written line's.
 * `note` says how many lines were left out since then; empty: none. */
enum { LOG_NOTE_MAX = 64 };
bool log_throttle_pass(struct log_throttle *throttle, int code, char note[LOG_NOTE_MAX]);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
