/* temporary_folder.c: see temporary_folder.h. */
#include "tests/support/temporary_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATHS = 4, DESCRIPTORS = 8 };

char temporary_folder[256];

int temporary_folder_make(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(temporary_folder, sizeof temporary_folder, "%s/traind-test.XXXXXX",
             temporary ? temporary : "/tmp");
    return mkdtemp(temporary_folder) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

int temporary_folder_remove(void **state)
{
    (void)state;
    return nftw(temporary_folder, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

const char *temporary_path(const char *name)
{
    static char paths[PATHS][sizeof temporary_folder + 256];
    static int next;
    char *path = paths[next++ % PATHS];

    snprintf(path, sizeof paths[0], "%s/%s", temporary_folder, name);
    return path;
}
