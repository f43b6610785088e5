/* text.h: text helpers: escaping, the nearest valid name for an error message, and sizes and
 * durations as people write them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the UTF-8 character that `text` begins with; 0: it is not well formed. `text` must not
 * be empty. */
size_t text_character_length(const char *text);
/* The same, but 0 also if the character must not reach a terminal as it is. These are control
 * characters (C0, DEL, C1) and characters that reorder text or break lines: U+061C, U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069. */
size_t text_printable_length(const char *text);
/* Whether text_printable_length() accepts every character. Every name that a user chooses must pass
 * this. */
bool text_is_printable(const char *text);

/* Writes as \xNN the first byte of a character that text_printable_length() refuses; of a C1
 * control the second byte, which is its code point. Returns how many bytes of `text` that stands
 * for. */
size_t text_escape_character(const char *text, char output[5]);

/* Copies `text` and replaces what text_printable_length() refuses by \xNN. The copy is always
 * terminated; it is cut between characters if it does not fit. Returns `output`. */
char *text_escape_controls(const char *text, char *output, size_t size);

/* The same, cut after at most `width` characters; an escape counts as four. Returns how many there
 * are. */
size_t text_fit(const char *text, size_t width, char *output, size_t size);

/* The entry of `names` (`count` strings) with the smallest Damerau-Levenshtein distance to `word`,
 * or NULL if the distance exceeds a third of the length of `word` (at least 2). A prefix of at
 * least two letters counts as distance 1, in either direction. */
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

/* Replaces every byte that is not part of well-formed UTF-8 by '?'. For file names and for text
 * that was cut. Returns `text`. */
char *text_make_utf8(char *text);

/* Bytes of the longest well-formed UTF-8 prefix of `text`; `length` if all of it is well formed. */
size_t text_utf8_prefix(const char *text, size_t length);

/* Prints `text` in lines of at most `width` bytes: the first begins with `first`, the others with
 * `prefix`. Lines break between words; a word that is too long has its own line. Prints nothing for
 * "". */
void text_print_wrapped(const char *first, const char *prefix, const char *text, size_t width,
                        FILE *output);
