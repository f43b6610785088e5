/* display.h: properties of a person's screen (width, colours), the columns that a text takes, and
 * times and numbers as people read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct display {
    bool terminal;
    bool colour;    /* a terminal, and NO_COLOR is not set, and TERM is not dumb */
    bool unicode;   /* the locale's characters are UTF-8 */
    size_t columns; /* 0: no limit */
};

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW, STYLE_CYAN };

/* Sets the locale. Call it once, before any other function here. */
void display_set_locale(void);

/* Fills `display` for the file behind `descriptor`. The width is the terminal's; if that is
 * unknown, the variable COLUMNS, as for ps(1); otherwise without limit, as for a pipe of
 * systemctl(1), because programs read it. */
void display_look(int descriptor, struct display *display);

/* Undoes what a program that fills the screen asks of the terminal: reports of the mouse, marks
 * around what is pasted, no cursor, and the alternate screen. */
#define DISPLAY_SCREEN_END "\033[?2004l\033[?1006l\033[?1000l\033[?25h\033[?1049l"

/* The sequences before and after a styled text; "" where the display has no colours. */
const char *display_style(const struct display *display, enum style style);
const char *display_style_end(const struct display *display, enum style style);

/* The number of columns that UTF-8 text takes on a screen. */
size_t display_width(const char *text);

/* Cuts `text` in place to `columns` and ends it with an ellipsis if anything was cut. The buffer
 * must have three bytes more than the text. */
void display_cut(char *text, size_t columns, bool unicode);

/* Prints a word as a shell reads it: in quotes if it needs them. */
void display_print_word(const char *word, FILE *output);

/* "12 s ago", "3 min ago", "2 h ago", "5 d ago"; "now" within a second. `time` and `now` in seconds
 * since the epoch. Returns `output`. */
char *display_format_ago(double time, double now, char *output, size_t size);

/* "2026-11-20 23:41:07" in local time. */
char *display_format_time(double time, char *output, size_t size);

/* A metric's value in at most five significant digits, or "nan". */
char *display_format_value(double value, char *output, size_t size);

/* 12345678 → "12 345 678"; rounded to an integer. */
char *display_format_count(double count, char *output, size_t size);
