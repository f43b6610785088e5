/* sixel.h: images for terminals that show DEC's sixels. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes an image at the cursor. `pixels`: row by row, 0 for what stays as it is, else the number
 * of a colour from 1 on. `palette`: red, green and blue of each of them in percent. */
void sixel_write(const uint8_t *pixels, size_t width, size_t height, const uint8_t (*palette)[3],
                 size_t colours, FILE *output);

/* Asks the terminal at standard input and output whether it shows sixels, by its primary device
 * attributes (DA1), of which 4 says so. A terminal that does not answer is waited for a moment;
 * what the person has typed meanwhile is lost. */
bool sixel_terminal_has(void);
/* The pixels of one character of that terminal; false: it does not tell. */
bool sixel_terminal_cell(size_t *width, size_t *height);
