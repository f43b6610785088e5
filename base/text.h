/* text.h: small text helpers that several rooms need: escaping, the nearest valid name for an error
 * message, sizes and durations as people write and read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the well-formed UTF-8 character that `text`, which is not empty,
 * begins with; 0: none. */
size_t text_character_length(const char *text);
/* The same where the character may be shown to a person as it is; 0 where it may not. Refused are
 * control characters (C0, DEL, C1) and what is no UTF-8. So are characters that move text on a
 * terminal to another place or line: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069. */
size_t text_printable_length(const char *text);
/* Whether all of its characters are such: what every name that a user chooses has to be. */
bool text_is_printable(const char *text);

/* Writes a byte of what text_printable_length() refuses as \xNN, of a C1 control the one by which
 * terminals know it. Returns how many bytes of `text` that stands for. */
size_t text_escape_character(const char *text, char output[5]);

/* Copies `text`, writing the bytes of what text_printable_length() refuses as \xNN; always
 * terminated. What does not fit is cut, between characters. Returns `output`. */
char *text_escape_controls(const char *text, char *output, size_t size);

/* The entry of `names` (`count` strings) with the smallest Damerau-Levenshtein distance to `word`,
 * or NULL when even that one differs in more than a third of its letters (at least two). Of two
 * letters or more, the beginning of a word counts as close to it. */
const char *text_nearest(const char *word, const char *const *names, size_t count);

/* "1.5 GiB"; binary prefixes. */
char *text_format_bytes(uint64_t bytes, char *output, size_t size);

/* "12.3 ms", "4.5 s", "3 min 20 s", "2 h 5 min". */
char *text_format_duration(double seconds, char *output, size_t size);

/* "64 MiB", "1G", "512": bytes (binary prefixes, with or without "iB"/"B"). 0 or -EINVAL. */
int text_parse_bytes(const char *text, uint64_t *bytes);

/* "500 ms", "10 s", "5 min", "2 h", "1 d", "10" (seconds). 0 or -EINVAL. */
int text_parse_duration(const char *text, double *seconds);

/* Whether the `length` bytes are well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates). */
bool text_is_utf8(const char *text, size_t length);

/* Puts '?' in the place of every byte that is not part of well-formed UTF-8: for names of files,
 * and for text that was cut. Returns `text`. */
char *text_make_utf8(char *text);

/* Bytes of the longest well-formed UTF-8 that `text` begins with: `length` when all of it is. */
size_t text_utf8_prefix(const char *text, size_t length);

/* Prints `text` in lines of at most `width` bytes: the first begins with `first`, the others with
 * `prefix`. Lines end between words; a longer word has a line of its own. Nothing for "". */
void text_print_wrapped(const char *first, const char *prefix, const char *text, size_t width,
                        FILE *output);
