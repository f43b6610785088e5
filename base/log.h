/* log.h: the one logging call. Lines go to standard error; under systemd (JOURNAL_STREAM set) each
 * carries its syslog priority as "<N>", else a time stamp and the level's name. */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Names the program in each line and drops what is above `maximum`. */
void log_configure(const char *program, enum log_level maximum);

/* Writes one line (no newline in the format); control characters are escaped. Thread-safe. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
