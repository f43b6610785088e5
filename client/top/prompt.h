/* prompt.h: the question in the last line of the screen: a text that is typed, or yes or no. */
#pragma once

#include "client/top/keys.h"

#include <stdbool.h>

enum { PROMPT_BYTES = 128, PROMPT_CHOICES_MAX = 64 };

enum prompt_kind { PROMPT_NONE, PROMPT_TEXT, PROMPT_CONFIRM };

struct prompt {
    enum prompt_kind kind;
    char question[640];
    char text[PROMPT_BYTES];
    char *choices[PROMPT_CHOICES_MAX]; /* that the tabulator goes through; owned */
    size_t choice_count, choice;
};

enum prompt_result { PROMPT_GOES_ON, PROMPT_DONE, PROMPT_GIVEN_UP };

/* Begins a question; `text` is what may be edited. */
void prompt_ask(struct prompt *prompt, const char *question, const char *text);
void prompt_confirm(struct prompt *prompt, const char *question);
/* Adds what the tabulator offers; too many are left out. */
void prompt_add_choice(struct prompt *prompt, const char *choice);
/* Ends the question. */
void prompt_close(struct prompt *prompt);

/* Takes a key. PROMPT_DONE: `text` is the answer, or the answer is yes. The caller closes the
 * prompt in both cases of an end. */
enum prompt_result prompt_take(struct prompt *prompt, const struct key_event *event);
