/* display.c: see display.h. */
#include "client/view/display.h"

#include "base/text.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static bool locale_is_unicode;

void display_set_locale(void)
{
    setlocale(LC_CTYPE, "");
    locale_is_unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    /* All internal text is UTF-8, whatever the terminal's locale. mbrtowc() and wcwidth() must
     * interpret it. */
    setlocale(LC_CTYPE, "C.UTF-8");
}

/* COLUMNS of the environment; 0: it is not a width. */
static size_t columns_wanted(void)
{
    enum { COLUMNS_MAX = 1000000 };
    const char *text = getenv("COLUMNS");
    char *end;
    long columns = text ? strtol(text, &end, 10) : 0;

    return columns > 0 && columns < COLUMNS_MAX && *end == '\0' ? (size_t)columns : 0;
}

void display_look(int descriptor, struct display *display)
{
    const char *terminal = getenv("TERM"), *plain = getenv("NO_COLOR");
    struct winsize size = {0};

    *display = (struct display){
        .terminal = isatty(descriptor), .unicode = locale_is_unicode, .columns = columns_wanted()};
    if (!display->terminal)
        return;
    display->colour = !(plain && *plain) && terminal && strcmp(terminal, "dumb") != 0;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        display->columns = size.ws_col;
    else if (display->columns == 0)
        display->columns = 80;
}

const char *display_style(const struct display *display, enum style style)
{
    static const char *const sequences[] = {
        [STYLE_PLAIN] = "",        [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
        [STYLE_RED] = "\033[31m",  [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
        [STYLE_CYAN] = "\033[36m",
    };

    return display->colour ? sequences[style] : "";
}

const char *display_style_end(const struct display *display, enum style style)
{
    return display->colour && style != STYLE_PLAIN ? "\033[0m" : "";
}

/* The bytes of the first character of `text`, and its columns. A byte that is not part of a
 * character counts as one column. */
static size_t display_character(const char *text, size_t *columns)
{
    mbstate_t state = {0};
    wchar_t character;
    size_t bytes = mbrtowc(&character, text, strlen(text), &state);
    int width;

    if (bytes == 0 || bytes == (size_t)-1 || bytes == (size_t)-2) {
        *columns = 1;
        return 1;
    }
    width = wcwidth(character);
    *columns = width < 0 ? 1 : (size_t)width;
    return bytes;
}

size_t display_width(const char *text)
{
    size_t total = 0, columns;

    while (*text) {
        text += display_character(text, &columns);
        total += columns;
    }
    return total;
}

void display_cut(char *text, size_t columns, bool unicode)
{
    size_t used = 0, width;
    char *position = text;

    if (display_width(text) <= columns)
        return;
    while (*position) {
        size_t bytes = display_character(position, &width);

        if (used + width + 1 > columns)
            break;
        used += width;
        position += bytes;
    }
    strcpy(position, columns == 0 ? "" : unicode ? "…" : "~");
}

void display_print_word(const char *word, FILE *output)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,:/=@%";
    char shown[2048];

    text_escape_controls(word, shown, sizeof shown);
    if (*shown && strspn(shown, plain) == strlen(shown)) {
        fputs(shown, output);
        return;
    }
    fputc('\'', output);
    for (const char *at = shown; *at; at++)
        fputs(*at == '\'' ? "'\\''" : (char[]){*at, '\0'}, output);
    fputc('\'', output);
}

char *display_format_ago(double time, double now, char *output, size_t size)
{
    double seconds = now - time;

    if (seconds < 1)
        snprintf(output, size, "now");
    else if (seconds < 60)
        snprintf(output, size, "%.0f s ago", floor(seconds));
    else if (seconds < 3600)
        snprintf(output, size, "%.0f min ago", floor(seconds / 60));
    else if (seconds < 2 * 86400)
        snprintf(output, size, "%.0f h ago", floor(seconds / 3600));
    else
        snprintf(output, size, "%.0f d ago", floor(seconds / 86400));
    return output;
}

char *display_format_time(double time, char *output, size_t size)
{
    time_t seconds = (time_t)time;
    struct tm parts;

    if (!localtime_r(&seconds, &parts) || !strftime(output, size, "%F %T", &parts))
        snprintf(output, size, "?");
    return output;
}

char *display_format_value(double value, char *output, size_t size)
{
    if (isnan(value))
        snprintf(output, size, "nan");
    else if (value != 0 && (fabs(value) >= 1e6 || fabs(value) < 1e-3))
        snprintf(output, size, "%.3e", value);
    else if (fabs(value) >= 1000)
        snprintf(output, size, "%.0f", value);
    else
        snprintf(output, size, "%.4f", value);
    return output;
}

char *display_format_count(double count, char *output, size_t size)
{
    char digits[32];
    size_t length, used = 0;

    snprintf(digits, sizeof digits, "%.0f", count);
    length = strlen(digits);
    for (size_t i = 0; i < length && used + 2 < size; i++) {
        output[used++] = digits[i];
        if (i + 1 < length && (length - i - 1) % 3 == 0 && digits[i] != '-')
            output[used++] = ' ';
    }
    output[used] = '\0';
    return output;
}
