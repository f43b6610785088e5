/* prompt.c: see prompt.h. */
#include "client/top/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void prompt_close(struct prompt *prompt)
{
    for (size_t i = 0; i < prompt->choice_count; i++)
        free(prompt->choices[i]);
    *prompt = (struct prompt){0};
}

void prompt_ask(struct prompt *prompt, const char *question, const char *text)
{
    prompt_close(prompt);
    prompt->kind = PROMPT_TEXT;
    snprintf(prompt->question, sizeof prompt->question, "%s", question);
    snprintf(prompt->text, sizeof prompt->text, "%s", text);
}

void prompt_confirm(struct prompt *prompt, const char *question)
{
    prompt_close(prompt);
    prompt->kind = PROMPT_CONFIRM;
    snprintf(prompt->question, sizeof prompt->question, "%s", question);
}

void prompt_add_choice(struct prompt *prompt, const char *choice)
{
    char *copy = prompt->choice_count < PROMPT_CHOICES_MAX ? strdup(choice) : NULL;

    if (copy)
        prompt->choices[prompt->choice_count++] = copy;
}

/* Removes the last character. */
static void text_erase(char *text)
{
    size_t length = strlen(text);

    while (length > 0 && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
        length--;
    text[length > 0 ? length - 1 : 0] = '\0';
}

/* Appends a character of Unicode, if there is room. */
static void text_append(char *text, int code)
{
    size_t length = strlen(text);
    unsigned character = (unsigned)code;
    char bytes[5] = {0};

    if (character < 0x80) {
        bytes[0] = (char)character;
    } else if (character < 0x800) {
        bytes[0] = (char)(0xc0 | character >> 6);
        bytes[1] = (char)(0x80 | (character & 0x3f));
    } else if (character < 0x10000) {
        bytes[0] = (char)(0xe0 | character >> 12);
        bytes[1] = (char)(0x80 | (character >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (character & 0x3f));
    } else {
        bytes[0] = (char)(0xf0 | character >> 18);
        bytes[1] = (char)(0x80 | (character >> 12 & 0x3f));
        bytes[2] = (char)(0x80 | (character >> 6 & 0x3f));
        bytes[3] = (char)(0x80 | (character & 0x3f));
    }
    if (length + strlen(bytes) < PROMPT_BYTES)
        strcpy(text + length, bytes);
}

static void choice_next(struct prompt *prompt)
{
    if (prompt->choice_count == 0)
        return;
    /* from the choice that stands there to the one behind it */
    for (size_t i = 0; i < prompt->choice_count; i++)
        if (strcmp(prompt->choices[i], prompt->text) == 0)
            prompt->choice = i + 1;
    prompt->choice %= prompt->choice_count;
    snprintf(prompt->text, sizeof prompt->text, "%s", prompt->choices[prompt->choice]);
}

enum prompt_result prompt_take(struct prompt *prompt, const struct key_event *event)
{
    enum { CONTROL_C = 3, CONTROL_U = 21 };
    int key = event->key;

    /* a paste writes characters; it gives no answer, and ends no question */
    if (event->pasted && (prompt->kind != PROMPT_TEXT || key < ' ' || key == KEY_ERASE))
        return PROMPT_GOES_ON;
    if (key == KEY_OTHER || key == KEY_CLICK || key == KEY_WHEEL_UP || key == KEY_WHEEL_DOWN)
        return PROMPT_GOES_ON;
    if (key == KEY_ESCAPE || key == CONTROL_C)
        return PROMPT_GIVEN_UP;
    if (prompt->kind == PROMPT_CONFIRM)
        return key == 'y' || key == 'Y' ? PROMPT_DONE : PROMPT_GIVEN_UP;
    if (key == KEY_ENTER)
        return PROMPT_DONE;
    if (key == KEY_TAB)
        choice_next(prompt);
    else if (key == KEY_ERASE)
        text_erase(prompt->text);
    else if (key == CONTROL_U)
        prompt->text[0] = '\0';
    else if (key >= ' ' && key < KEY_UP)
        text_append(prompt->text, key);
    return PROMPT_GOES_ON;
}
