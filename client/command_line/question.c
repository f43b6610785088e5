/* question.c: see question.h. */
#include "client/command_line/question.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <string.h>

/* Cuts the blanks and the line break off, in place. */
static char *trim(char *line)
{
    size_t before = strspn(line, " \t\r\n"), length;

    memmove(line, line + before, strlen(line + before) + 1);
    for (length = strlen(line); length && strchr(" \t\r\n", line[length - 1]);)
        line[--length] = '\0';
    return line;
}

char *question_ask(FILE *output, const char *question, const char *fallback)
{
    AUTO_FREE char *line = NULL;
    char shown[256];
    size_t size = 0;

    fprintf(output, "%s [%s]: ", question, text_escape_controls(fallback, shown, sizeof shown));
    fflush(output);
    if (getline(&line, &size, stdin) < 0) {
        fputc('\n', output);
        return NULL;
    }
    trim(line);
    return *line ? TAKE_POINTER(line) : strdup(fallback);
}

/* The word that the answer begins; -1: none or several. */
static int word_find(const struct question_word *words, int count, const char *answer)
{
    int found = -1;

    for (int i = 0; i < count; i++) {
        if (strcmp(words[i].word, answer) == 0)
            return i;
        if (strncmp(words[i].word, answer, strlen(answer)) == 0)
            found = found == -1 ? i : -2;
    }
    return found < 0 ? -1 : found;
}

int question_choose(FILE *output, const char *question, const struct question_word *words,
                    int count, int fallback)
{
    int widest = 0;

    for (int i = 0; i < count; i++)
        widest = (int)strlen(words[i].word) > widest ? (int)strlen(words[i].word) : widest;
    for (int i = 0; i < count; i++)
        fprintf(output, "  %-*s  %s\n", widest, words[i].word,
                words[i].about ? words[i].about : "");
    for (;;) {
        AUTO_FREE char *answer = question_ask(output, question, words[fallback].word);
        int index = answer ? word_find(words, count, answer) : -1;

        if (!answer || index >= 0)
            return index;
        fprintf(output, "Please answer with one of the words above.\n");
    }
}

bool question_confirm(FILE *output, const char *question)
{
    AUTO_FREE char *answer = question_ask(output, question, "no");

    return answer && (*answer == 'y' || *answer == 'Y');
}
