/* top.h: the live view of devices and jobs. top.c runs it, draw.c draws it, actions.c does what is
 * asked for. */
#pragma once

#include "client/connection/stream.h"
#include "client/top/job_list.h"
#include "client/top/measurements.h"
#include "client/top/picture.h"
#include "client/top/prompt.h"
#include "client/top/screen.h"

/* What a key asks for, of the job that was selected then. */
enum action {
    ACTION_NONE,
    ACTION_CANCEL,
    ACTION_PAUSE,
    ACTION_RESUME,
    ACTION_MOVE,
    ACTION_PRIORITY,
    ACTION_FILTER /* of the list: it needs no job */
};

/* Where the parts of the picture lie, in rows from 0. */
struct layout {
    size_t device_rows;   /* of all devices that are shown, without their titles */
    size_t device_height; /* rows of each of them */
    size_t devices_begin; /* first row of the first one */
    size_t jobs_begin;    /* row of the first job */
    bool titles;          /* of the devices */
    bool gaps;            /* between the parts */
    bool detail;          /* a line about the selected job */
};

struct top {
    struct invocation *invocation;
    struct screen screen;
    struct stream changes;
    struct picture picture;
    struct job_list list;
    struct measurements *measurements;
    bool past_loaded; /* what the daemon knew before is in it */
    struct key_input input;
    struct prompt prompt;
    struct layout layout;
    size_t device_offset; /* the first device that is shown */
    bool help;            /* the keys are shown instead of the picture */
    bool changed;         /* the daemon has told of something new */
    bool stale;           /* what is shown differs from what is drawn */
    bool silent;          /* the daemon does not answer */
    double fetched;       /* when the picture was fetched last, or was to be */
    double fetch_seconds; /* how long that took */
    /* what a prompt is about */
    enum action action;
    int64_t action_job;
    char action_device[PROMPT_BYTES]; /* of a move that is asked about once more */
    bool action_force;
    /* what came of it, until the next key */
    char message[512];
    enum style message_style;
};

/* Draws the picture, or the help, on the screen. */
void top_draw(struct top *top);
/* Finds out where the parts lie; call it before keys and after the size or the devices changed. */
void top_arrange(struct top *top);

/* Begins what the key asks for, by a question where it needs one. */
void top_action_begin(struct top *top, enum action action);
/* Does what the prompt was about; it was answered. */
void top_action_finish(struct top *top);
/* Changes the priority of the selected job. */
void top_priority_step(struct top *top, int step);

/* Runs the view until it is ended. Prints every error. */
enum exit_status top_run(struct invocation *invocation);
