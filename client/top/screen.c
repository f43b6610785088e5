/* screen.c: see screen.h. */
#include "client/top/screen.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ROWS_DEFAULT = 24, LINE_BYTES = 2048 };

void screen_look(struct screen *screen)
{
    struct winsize size = {0};

    display_look(STDOUT_FILENO, &screen->display);
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    screen->rows = size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT;
}

bool screen_is_able(void)
{
    const char *terminal = getenv("TERM");

    return terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

const char *screen_terminal_name(void)
{
    const char *terminal = getenv("TERM");

    return terminal && *terminal ? terminal : "not set";
}

void screen_open(struct screen *screen)
{
    struct termios keys;

    /* the alternate screen; no cursor; buttons of the mouse (1000) in the SGR form (1006); marks
     * around what is pasted, whose letters would be keys, and behind a q input of the shell */
    fputs("\033[?1049h\033[?25l\033[?1000h\033[?1006h\033[?2004h", stdout);
    fflush(stdout);
    screen->open = true;
    if (tcgetattr(STDIN_FILENO, &screen->before) < 0)
        return;
    keys = screen->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    /* a process that is stopped, or ended by SIGQUIT, would leave the terminal in this mode */
    keys.c_cc[VSUSP] = keys.c_cc[VQUIT] = _POSIX_VDISABLE;
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    screen->keys = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
}

void screen_close(struct screen *screen)
{
    if (screen->open) {
        fputs(DISPLAY_SCREEN_END, stdout);
        fflush(stdout);
    }
    if (screen->keys) /* what the mouse has still reported is not left for the shell */
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &screen->before);
    screen->keys = screen->open = false;
}

/* Writes everything, however often the terminal takes only a part. */
static void terminal_write(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, size);

        if (written < 0 && errno != EINTR)
            return; /* the terminal is gone; reading from it tells */
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
}

void screen_draw(const struct screen *screen, const char *text)
{
    AUTO_FREE char *drawn = NULL;
    size_t size = 0, rows = 0;
    FILE *output = open_memstream(&drawn, &size);

    if (!output)
        return;
    fputs("\033[H", output);
    for (const char *line = text, *end; *line && rows < screen->rows; line = end + 1, rows++) {
        end = strchrnul(line, '\n');
        /* A line is erased before it is written: behind a full one the cursor stands on its last
         * column. No line break follows the last row, or the screen would scroll. */
        fprintf(output, "%s\033[K%.*s", rows ? "\r\n" : "", (int)(end - line), line);
        if (!*end) {
            rows++;
            break;
        }
    }
    if (rows < screen->rows)
        fputs("\r\n\033[J", output);
    if (fclose(output) == 0)
        terminal_write(drawn, size);
}

static size_t line_room(const struct screen_line *line)
{
    size_t columns = line->display->columns;

    return columns == 0 ? LINE_BYTES : columns > line->used ? columns - line->used : 0;
}

static void line_put(struct screen_line *line, enum style style, const char *text)
{
    char escaped[2 * LINE_BYTES];

    text_escape_controls(text, escaped, sizeof escaped - 4);
    display_cut(escaped, line_room(line), line->display->unicode);
    if (!*escaped)
        return;
    fprintf(line->output, "%s%s%s", display_style(line->display, style), escaped,
            display_style_end(line->display, style));
    line->used += display_width(escaped);
}

void screen_line_add(struct screen_line *line, enum style style, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_make_utf8(text); /* a name may be cut within a character */
    line_put(line, style, text);
}

void screen_line_pad(struct screen_line *line, size_t column)
{
    size_t room = line_room(line), blanks = column > line->used ? column - line->used : 0;

    if (blanks > room)
        blanks = room;
    fprintf(line->output, "%*s", (int)blanks, "");
    line->used += blanks;
}

void screen_line_add_right(struct screen_line *line, enum style style, const char *text)
{
    size_t width = display_width(text);

    if (line->display->columns == 0 || width + 1 > line_room(line))
        return;
    screen_line_pad(line, line->display->columns - width);
    line_put(line, style, text);
}

void screen_line_end(struct screen_line *line)
{
    fputc('\n', line->output);
    line->used = 0;
}
