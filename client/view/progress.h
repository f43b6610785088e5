/* progress.h: the line with a job's progress, which is redrawn in place. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stdio.h>

/* Writes the line for a Job into `output`, a few columns narrower than the screen. On a narrow
 * screen it leaves out the least important parts; the bar takes the columns that are left. */
void progress_render(struct json_object *job, const struct display *display, char *output,
                     size_t size);

struct progress_bar {
    FILE *output;
    struct display display;
    size_t shown; /* columns of the line on the screen; 0: there is no line */
};

/* Draws the line over the previous one. */
void progress_bar_draw(struct progress_bar *bar, struct json_object *job);
/* Removes the line, so that other lines can be printed. */
void progress_bar_clear(struct progress_bar *bar);
/* Call it after the screen's size changed: the terminal may have wrapped the old line. */
void progress_bar_resize(struct progress_bar *bar);
