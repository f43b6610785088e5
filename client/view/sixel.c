/* sixel.c: see sixel.h. A band of six rows is written once for each of its colours (DEC STD 070,
 * chapter 9). */
#include "client/view/sixel.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    BAND_ROWS = 6,
    FIRST_LETTER = 63, /* stands for no pixel; bits are added */
    RUN_MIN = 4,       /* a shorter run is not worth its count */
    ANSWER_MILLISECONDS = 200,
    ANSWER_BYTES = 256,
    ATTRIBUTE_SIXEL = 4,
    CELL_MAX = 256 /* pixels of a character: what says more is wrong */
};

static void run_write(int letter, size_t count, FILE *output)
{
    if (count >= RUN_MIN)
        fprintf(output, "!%zu%c", count, letter);
    else
        while (count-- > 0)
            fputc(letter, output);
}

/* The letter of a column of the band: a bit for each row that has the colour. */
static int letter_of(const uint8_t *pixels, size_t width, size_t rows, size_t column, size_t colour)
{
    int bits = 0;

    for (size_t row = 0; row < rows; row++)
        bits |= (pixels[row * width + column] == colour) << row;
    return FIRST_LETTER + bits;
}

static void band_write(const uint8_t *pixels, size_t width, size_t rows, size_t colours,
                       FILE *output)
{
    for (size_t colour = 1; colour <= colours; colour++) {
        size_t count = 0;
        int last = 0;

        if (!memchr(pixels, (int)colour, rows * width))
            continue;
        fprintf(output, "#%zu", colour);
        for (size_t column = 0; column < width; column++) {
            int letter = letter_of(pixels, width, rows, column, colour);

            if (count > 0 && letter != last) {
                run_write(last, count, output);
                count = 0;
            }
            last = letter;
            count++;
        }
        if (last != FIRST_LETTER)
            run_write(last, count, output);
        fputc('$', output); /* back to the left edge */
    }
    fputc('-', output);
}

void sixel_write(const uint8_t *pixels, size_t width, size_t height, const uint8_t (*palette)[3],
                 size_t colours, FILE *output)
{
    /* 0;1: pixels that are not set stay as they are; then the shape of a pixel, and the size */
    fprintf(output, "\033P0;1q\"1;1;%zu;%zu", width, height);
    for (size_t i = 0; i < colours; i++)
        fprintf(output, "#%zu;2;%d;%d;%d", i + 1, palette[i][0], palette[i][1], palette[i][2]);
    for (size_t row = 0; row < height; row += BAND_ROWS)
        band_write(pixels + row * width, width, height - row < BAND_ROWS ? height - row : BAND_ROWS,
                   colours, output);
    fputs("\033\\", output);
}

/* Reads until the answer's last letter, or until the terminal has been silent for long. */
static void answer_read(char *answer, size_t size)
{
    size_t used = 0;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    while (used + 1 < size && poll(&input, 1, ANSWER_MILLISECONDS) > 0) {
        ssize_t got = read(STDIN_FILENO, answer + used, 1);

        if (got <= 0 || answer[used++] == 'c')
            break;
    }
    answer[used] = '\0';
}

/* Whether one of the attributes of "ESC [ ? 62 ; 4 ; 22 c" says so. The first is the terminal's
 * level. */
static bool answer_has_sixel(const char *answer)
{
    const char *attribute = strstr(answer, "\033[?");

    while (attribute && (attribute = strchr(attribute, ';')) != NULL)
        if (strtol(++attribute, NULL, 10) == ATTRIBUTE_SIXEL)
            return true;
    return false;
}

bool sixel_terminal_has(void)
{
    char answer[ANSWER_BYTES] = "";
    struct termios before, raw;

    /* a process in the background may not change the terminal: it would be stopped */
    if (!isatty(STDOUT_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &before) < 0)
        return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
        return false;
    if (write(STDOUT_FILENO, "\033[c", 3) == 3)
        answer_read(answer, sizeof answer);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return answer_has_sixel(answer);
}

bool sixel_terminal_cell(size_t *width, size_t *height)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
        return false;
    *width = size.ws_xpixel / size.ws_col;
    *height = size.ws_ypixel / size.ws_row;
    return *width > 0 && *height > 0 && *width <= CELL_MAX && *height <= CELL_MAX;
}
