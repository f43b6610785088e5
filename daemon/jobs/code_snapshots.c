/* code_snapshots.c: see code_snapshots.h. The reader lists what is in use, then a thread of the
 * pool removes the rest (folder/code_snapshot.h says why nothing that is on its way goes). */
#include "daemon/jobs/code_snapshots.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/context/context.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/code_snapshot_rows.h"
#include "daemon/store/store.h"

#include <stdlib.h>

struct tidying {
    uv_work_t work;
    struct daemon *daemon;
    struct code_snapshot_use *uses;
    size_t count;
};

static const double tidy_seconds = 3600;

static bool under_way;
static double tidied_at; /* by the clock that never goes back */

static void tidying_end(struct tidying *tidying)
{
    under_way = false;
    free(tidying->uses);
    free(tidying);
}

static int uses_read(struct store_connection *connection, void *data, struct error *error)
{
    struct tidying *tidying = data;

    return code_snapshot_uses_read(connection, &tidying->uses, &tidying->count, error);
}

static void files_remove(uv_work_t *work)
{
    const struct tidying *tidying = work->data;

    code_snapshot_files_tidy(tidying->daemon->state_directory, tidying->uses, tidying->count);
}

static void on_removed(uv_work_t *work, int status)
{
    (void)status; /* never cancelled */
    tidying_end(work->data);
}

static void on_uses_read(void *data, int result, const struct error *error)
{
    struct tidying *tidying = data;

    if (result < 0)
        log_warning("frozen code of removed jobs stays until the next start: %s", error->text);
    if (result < 0 || tidying->daemon->jobs->stopping) {
        tidying_end(tidying);
        return;
    }
    daemon_queue_work(tidying->daemon, &tidying->work, files_remove, on_removed);
}

void code_snapshots_tidy(struct daemon *daemon)
{
    struct tidying *tidying;

    if (under_way)
        return;
    under_way = true;
    tidied_at = clock_monotonic();
    tidying = memory_zero(sizeof *tidying);
    tidying->daemon = daemon;
    tidying->work.data = tidying;
    store_read(daemon->store, uses_read, on_uses_read, tidying);
}

void code_snapshots_tidy_hourly(struct daemon *daemon)
{
    if (clock_monotonic() - tidied_at > tidy_seconds)
        code_snapshots_tidy(daemon);
}
