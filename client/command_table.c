/* command_table.c: see command_table.h. A file client/commands/NAME.c defines command_NAME. The
 * build (Makefile) writes a line COMMAND(NAME) for each file into command_list.h, so a new command
 * needs only a new file. */
#include "client/command_table.h"

#include <stddef.h>
#include <stdlib.h>

#define COMMAND(name) extern const struct command command_##name;
#include "client/command_list.h"
#undef COMMAND

#define COMMAND(name) &command_##name,
static const struct command *table[] = {
#include "client/command_list.h"
    NULL};
#undef COMMAND

enum { COMMAND_COUNT = sizeof table / sizeof *table - 1 };

static int compare_places(const void *first, const void *second)
{
    const struct command *const *one = first, *const *other = second;

    return ((*one)->place > (*other)->place) - ((*one)->place < (*other)->place);
}

const struct command *const *command_table(void)
{
    qsort(table, COMMAND_COUNT, sizeof *table, compare_places);
    return table;
}
