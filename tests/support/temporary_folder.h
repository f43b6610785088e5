/* temporary_folder.h: the folder of a test program, below $TMPDIR or /tmp. */
#pragma once

/* "" before it is made. */
extern char temporary_folder[256];

/* Setup and teardown for cmocka, of a group or of each test: an empty folder is made, and removed
 * with all that is in it. They leave `state` alone, which may be NULL. */
int temporary_folder_make(void **state);
int temporary_folder_remove(void **state);

/* "<folder>/<name>". The text lives for the next 3 calls. */
const char *temporary_path(const char *name);
