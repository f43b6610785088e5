/* keys.h: decodes what a terminal sends into keys and events of the mouse. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Keys that are no characters; those that are characters keep their code. */
enum key {
    KEY_NONE = 0,
    KEY_TAB = '\t',
    KEY_ENTER = '\r',
    KEY_ESCAPE = 0x1b,
    KEY_ERASE = 0x7f,
    KEY_UP = 0x110000, /* behind the last character of Unicode */
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_CLICK,
    KEY_WHEEL_UP,
    KEY_WHEEL_DOWN,
    KEY_PASTE_BEGIN, /* key_input_next() keeps these two for itself */
    KEY_PASTE_END,
    KEY_OTHER /* a sequence that means nothing here */
};

struct key_event {
    int key;            /* of enum key, or a character's code */
    bool pasted;        /* nobody has pressed it: it is part of a text that was pasted */
    size_t row, column; /* of the mouse, from 0 */
};

enum { KEY_BYTES_MAX = 512 };

/* What was read and is not decoded yet. */
struct key_input {
    unsigned char bytes[KEY_BYTES_MAX];
    size_t count;
    bool pasting; /* a paste has begun and not ended */
};

/* Reads what `descriptor` has. 0, or -errno; -EPIPE: the input has ended. */
int key_input_read(struct key_input *input, int descriptor);

/* Takes the next event. Returns 1; 0: the bytes end within a sequence, or there are none. With
 * `complete` an escape alone is the key, as nothing has followed it for a while. */
int key_input_next(struct key_input *input, int complete, struct key_event *event);
