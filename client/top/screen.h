/* screen.h: takes the terminal for a program that fills it, and gives it back as it was. */
#pragma once

#include "client/view/display.h"

#include <stdio.h>
#include <termios.h>

struct screen {
    struct display display;
    size_t rows;
    bool open;             /* the alternate screen is shown */
    bool keys;             /* keys arrive at once and without echo; `before` must be restored */
    struct termios before; /* of the terminal */
};

/* Fills in the size of the terminal at standard output. Call it after SIGWINCH, too. */
void screen_look(struct screen *screen);
/* Whether the terminal can place its cursor: TERM is set, and not to "dumb". */
bool screen_is_able(void);
/* What TERM is, for a sentence. */
const char *screen_terminal_name(void);
/* Shows the alternate screen, hides the cursor, and lets keys and the mouse be reported. */
void screen_open(struct screen *screen);
/* Undoes that; does nothing where the screen is not open. */
void screen_close(struct screen *screen);

/* Draws `text`, as many lines as the screen has, each over the one that was there. */
void screen_draw(const struct screen *screen, const char *text);

/* One line of a screen that is put together from left to right; what is too much is cut. */
struct screen_line {
    FILE *output;
    const struct display *display;
    size_t used; /* columns */
};

/* Adds text with control characters escaped. */
void screen_line_add(struct screen_line *line, enum style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds blanks up to that column. */
void screen_line_pad(struct screen_line *line, size_t column);
/* Adds text so that it ends at the right edge, if there is room for it and a blank. */
void screen_line_add_right(struct screen_line *line, enum style style, const char *text);
/* Ends the line. */
void screen_line_end(struct screen_line *line);
