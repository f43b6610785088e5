/* question.h: asks the person at the terminal. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Prints "question [fallback]: " and reads a line of standard input without the blanks around it;
 * an empty one is the fallback. The caller frees it. NULL: the input has ended. */
char *question_ask(FILE *output, const char *question, const char *fallback);

struct question_word {
    const char *word, *about; /* about: NULL or "": nothing is said of it */
};

/* Lists the words and asks until one of them, or an unambiguous beginning of one, is answered.
 * Returns its index; -1: the input has ended. */
int question_choose(FILE *output, const char *question, const struct question_word *words,
                    int count, int fallback);

/* Whether the answer is yes; the fallback is no, and so is the end of the input. */
bool question_confirm(FILE *output, const char *question);
