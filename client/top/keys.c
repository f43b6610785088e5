/* keys.c: see keys.h. The sequences are those of ECMA-48, and of xterm for keys and for the mouse
 * in SGR mode: ESC [ < button ; column ; row M, or m when it is released. What is pasted stands
 * between ESC [ 200 ~ and ESC [ 201 ~. */
#include "client/top/keys.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    PARAMETERS_MAX = 3,
    PARAMETER_GREATEST = 100000, /* of a row or a column: larger ones mean nothing */
    BUTTON_LEFT = 0,
    BUTTON_WHEEL_UP = 64,
    BUTTON_WHEEL_DOWN = 65,
    BUTTON_MODIFIERS = 4 | 8 | 16 /* Shift, Alt and Control */
};

int key_input_read(struct key_input *input, int descriptor)
{
    ssize_t got;

    if (input->count == sizeof input->bytes) /* no sequence is that long */
        input->count = 0;
    got = read(descriptor, input->bytes + input->count, sizeof input->bytes - input->count);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (got == 0)
        return -EPIPE;
    input->count += (size_t)got;
    return 0;
}

static void input_drop(struct key_input *input, size_t bytes)
{
    input->count -= bytes;
    memmove(input->bytes, input->bytes + bytes, input->count);
}

static int key_of_letter(unsigned char letter)
{
    switch (letter) {
    case 'A':
        return KEY_UP;
    case 'B':
        return KEY_DOWN;
    case 'C':
        return KEY_RIGHT;
    case 'D':
        return KEY_LEFT;
    case 'F':
        return KEY_END;
    case 'H':
        return KEY_HOME;
    default:
        return KEY_OTHER;
    }
}

static int key_of_number(long number)
{
    switch (number) {
    case 1:
    case 7:
        return KEY_HOME;
    case 4:
    case 8:
        return KEY_END;
    case 5:
        return KEY_PAGE_UP;
    case 6:
        return KEY_PAGE_DOWN;
    case 200:
        return KEY_PASTE_BEGIN;
    case 201:
        return KEY_PASTE_END;
    default:
        return KEY_OTHER;
    }
}

static void mouse_decode(const long *parameters, size_t count, bool pressed,
                         struct key_event *event)
{
    long button = count > 0 ? parameters[0] & ~(long)BUTTON_MODIFIERS : -1;

    event->key = KEY_OTHER;
    if (count != PARAMETERS_MAX || !pressed || parameters[1] < 1 || parameters[2] < 1)
        return;
    event->column = (size_t)parameters[1] - 1;
    event->row = (size_t)parameters[2] - 1;
    event->key = button == BUTTON_LEFT         ? KEY_CLICK
                 : button == BUTTON_WHEEL_UP   ? KEY_WHEEL_UP
                 : button == BUTTON_WHEEL_DOWN ? KEY_WHEEL_DOWN
                                               : KEY_OTHER;
}

/* Decodes what follows ESC [. Returns its bytes; 0: it is not complete. */
static size_t sequence_decode(const unsigned char *bytes, size_t count, struct key_event *event)
{
    long parameters[PARAMETERS_MAX] = {0};
    size_t used = 0, parameter = 0;
    bool mouse = count > 0 && bytes[0] == '<';

    /* parameters and intermediate bytes, until the final one */
    for (; used < count && bytes[used] >= 0x20 && bytes[used] < 0x40; used++) {
        unsigned char byte = bytes[used];

        if (byte == ';')
            parameter++;
        else if (byte >= '0' && byte <= '9' && parameter < PARAMETERS_MAX &&
                 parameters[parameter] < PARAMETER_GREATEST)
            parameters[parameter] = 10 * parameters[parameter] + (byte - '0');
    }
    if (used == count)
        return 0;
    if (mouse && (bytes[used] == 'M' || bytes[used] == 'm'))
        mouse_decode(parameters, parameter + 1, bytes[used] == 'M', event);
    else if (bytes[used] == '~')
        event->key = key_of_number(parameters[0]);
    else
        event->key = key_of_letter(bytes[used]);
    return used + 1;
}

/* Decodes what begins with ESC. */
static size_t escape_decode(const unsigned char *bytes, size_t count, int complete,
                            struct key_event *event)
{
    size_t used;

    if (count == 1) {
        event->key = KEY_ESCAPE;
        return complete ? 1 : 0;
    }
    if (bytes[1] == 'O') { /* keys in the application's mode */
        if (count < 3)
            return complete ? count : 0;
        event->key = key_of_letter(bytes[2]);
        return 3;
    }
    if (bytes[1] != '[') { /* a second escape, or a key with Alt: the escape stands alone */
        event->key = KEY_ESCAPE;
        return 1;
    }
    used = sequence_decode(bytes + 2, count - 2, event);
    if (used > 0)
        return 2 + used;
    return complete ? count : 0;
}

/* The code of a character of several bytes. */
static int character_decode(const unsigned char *bytes, size_t length)
{
    int code = length == 2 ? bytes[0] & 0x1f : length == 3 ? bytes[0] & 0x0f : bytes[0] & 0x07;

    for (size_t i = 1; i < length; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    return code;
}

/* Takes what begins with ESC; returns as key_input_next(). */
static int escape_take(struct key_input *input, int complete, struct key_event *event)
{
    size_t used = escape_decode(input->bytes, input->count, complete, event);

    if (used == 0)
        return 0;
    input_drop(input, used);
    if (event->key == KEY_PASTE_BEGIN || event->key == KEY_PASTE_END) {
        input->pasting = event->key == KEY_PASTE_BEGIN;
        event->key = KEY_OTHER;
    }
    return 1;
}

int key_input_next(struct key_input *input, int complete, struct key_event *event)
{
    char text[8] = "";
    size_t length = input->count < 4 ? input->count : 4, used;

    *event = (struct key_event){.key = KEY_OTHER, .pasted = input->pasting};
    if (input->count == 0)
        return 0;
    if (input->bytes[0] == KEY_ESCAPE)
        return escape_take(input, complete, event);
    if (input->bytes[0] < 0x80) {
        event->key = input->bytes[0] == '\n'   ? KEY_ENTER
                     : input->bytes[0] == 8    ? KEY_ERASE
                     : input->bytes[0] == '\0' ? KEY_OTHER
                                               : input->bytes[0];
        input_drop(input, 1);
        return 1;
    }
    memcpy(text, input->bytes, length);
    used = text_character_length(text);
    if (used == 0 && length < 4 && !complete) /* the character may go on */
        return 0;
    if (used > 0)
        event->key = character_decode(input->bytes, used);
    input_drop(input, used ? used : 1);
    return 1;
}
