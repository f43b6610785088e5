/* display.h: what a person's screen can show: its width, colours, and how many columns a text
 * takes; times and durations as people read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct display {
    bool terminal;
    bool colour;    /* a terminal, and NO_COLOR is not set, and TERM is not dumb */
    bool unicode;   /* the locale's characters are UTF-8 */
    size_t columns; /* 0: no limit */
};

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW, STYLE_CYAN };

/* Sets the locale up; once, before anything below. */
void display_set_locale(void);

/* What is known of the file behind `descriptor`. A terminal that tells its width has that; else
 * COLUMNS of the environment says it, as for ps(1). Without that a pipe has no limit, as with
 * systemctl(1): programs read what is there. */
void display_look(int descriptor, struct display *display);

/* The sequences before and after a styled text; "" where the display has no colours. */
const char *display_style(const struct display *display, enum style style);
const char *display_style_end(const struct display *display, enum style style);

/* The columns that UTF-8 text takes on a screen. */
size_t display_width(const char *text);

/* Cuts `text` in place to `columns`, its end replaced by an ellipsis when something was cut. The
 * buffer has room for three bytes more than the text. */
void display_cut(char *text, size_t columns, bool unicode);

/* "12 s ago", "3 min ago", "2 h ago", "5 d ago"; "now" within a second. `time` and `now` in seconds
 * since the epoch. Returns `output`. */
char *display_format_ago(double time, double now, char *output, size_t size);

/* "2026-11-20 23:41:07" in local time. */
char *display_format_time(double time, char *output, size_t size);

/* A metric's value in at most five significant digits; "nan" for one that is not a number. */
char *display_format_value(double value, char *output, size_t size);

/* 12345678 → "12 345 678"; a fraction is rounded away. */
char *display_format_count(double count, char *output, size_t size);
