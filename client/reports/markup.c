/* markup.c: see markup.h. */
#include "client/reports/markup.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

/* The bytes of the next character, which is printable; 0: it was not, and its escape was
 * written to `escaped`, and the bytes that it stands for to `*skipped`. */
static size_t character_take(const char *text, char escaped[5], size_t *skipped)
{
    size_t length = text_printable_length(text);

    if (length == 0)
        *skipped = text_escape_character(text, escaped);
    return length;
}

void markup_write_html(const char *text, FILE *output)
{
    while (*text) {
        char escaped[5];
        size_t skipped = 0, length = character_take(text, escaped, &skipped);

        if (length == 0)
            fputs(escaped, output);
        else if (*text == '&')
            fputs("&amp;", output);
        else if (*text == '<')
            fputs("&lt;", output);
        else if (*text == '>')
            fputs("&gt;", output);
        else if (*text == '"')
            fputs("&quot;", output);
        else if (*text == '\'')
            fputs("&#39;", output);
        else
            fwrite(text, 1, length, output);
        text += length ? length : skipped;
    }
}

/* Whether a link would begin by itself at this character: "://" of an address, "www.". */
static int link_begins(const char *start, const char *text)
{
    if (strncmp(text, "://", 3) == 0)
        return 1;
    return *text == '.' && text - start >= 3 && strncasecmp(text - 3, "www", 3) == 0;
}

void markup_write_markdown(const char *text, FILE *output)
{
    const char *start = text;

    while (*text) {
        char escaped[5];
        size_t skipped = 0, length = character_take(text, escaped, &skipped);

        if (length == 0) {
            fprintf(output, "\\%s", escaped); /* its own backslash is escaped */
        } else if (strchr("\\`*_[]<>#!|~&$@", *text) || link_begins(start, text)) {
            fprintf(output, "\\%c", *text);
        } else {
            fwrite(text, 1, length, output);
        }
        text += length ? length : skipped;
    }
}

void markup_write_link(const char *path, FILE *output)
{
    for (; *path; path++) {
        unsigned char byte = (unsigned char)*path;

        if (isalnum(byte) || strchr("-._~", byte))
            fputc(byte, output);
        else
            fprintf(output, "%%%02X", byte);
    }
}
