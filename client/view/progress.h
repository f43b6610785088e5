/* progress.h: the line that shows how far a job is, drawn again and again in one place. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stdio.h>

/* Writes the line for a Job into `output`, a few columns narrower than the screen. What matters
 * least goes first where the screen is narrow; the bar takes what is left. */
void progress_render(struct json_object *job, const struct display *display, char *output,
                     size_t size);

struct progress_bar {
    FILE *output;
    struct display display;
    size_t shown; /* columns of the line on the screen, 0 when there is none */
};

/* Draws over the line drawn before. */
void progress_bar_draw(struct progress_bar *bar, struct json_object *job);
/* Removes it, so that other lines can be printed. */
void progress_bar_clear(struct progress_bar *bar);
/* The screen's size changed: the old line may have been wrapped by it. */
void progress_bar_resize(struct progress_bar *bar);
