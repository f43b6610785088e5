/* graph_load.c: see graph_load.h. */
#include "daemon/jobs/graph_load.h"

#include "base/memory.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/groups.h"
#include "daemon/jobs/job_users.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/start_times.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/store/dependency_rows.h"
#include "daemon/store/group_rows.h"
#include "daemon/store/live_rows.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_store.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct loaded_links {
    int64_t job;
    int64_t sweep; /* 0: it belongs to none */
    double at;     /* when it may start; 0: at once */
    bool held, notifies;
    char *group; /* owned, or NULL */
};

struct loaded_dependency {
    int64_t job;
    struct dependency dependency;
};

struct loaded_limit {
    uid_t uid;
    char *name; /* owned */
    int64_t limit;
};

struct graph_load {
    struct loaded_links *links; /* in the order of ids, as the dependencies are */
    struct loaded_dependency *dependencies;
    struct loaded_limit *limits;
    size_t link_count, dependency_count, limit_count;
    struct sweep_run *sweeps;          /* owned until they are restored */
    size_t next_link, next_dependency; /* where job_graph_restore() goes on */
};

void graph_load_free(struct graph_load *load)
{
    if (!load)
        return;
    for (size_t i = 0; i < load->link_count; i++)
        free(load->links[i].group);
    for (size_t i = 0; i < load->limit_count; i++)
        free(load->limits[i].name);
    while (load->sweeps) {
        struct sweep_run *run = load->sweeps;

        load->sweeps = run->next;
        sweep_run_free(run);
    }
    free(load->links);
    free(load->dependencies);
    free(load->limits);
    free(load);
}

/* ---- on a storage thread --------------------------------------------------------------------- */

static int sweep_take(void *data, struct sweep *sweep)
{
    struct graph_load *load = data;
    struct sweep_run *run = memory_zero(sizeof *run);

    run->sweep = *sweep;
    run->next = load->sweeps;
    load->sweeps = run;
    return 0;
}

/* Room for one more element; the array grows by doubling. */
static int array_reserve(void **array, size_t count, size_t size)
{
    void *grown;

    if (count & (count - 1) || count == 1)
        return 0; /* not a power of two: there is room */
    grown = realloc(*array, (count ? 2 * count : 2) * size);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    return 0;
}

static int links_take(void *data, const struct live_links *links)
{
    struct graph_load *load = data;
    int result = array_reserve((void **)&load->links, load->link_count, sizeof *load->links);

    if (result == 0)
        load->links[load->link_count++] = (struct loaded_links){
            .job = links->job,
            .sweep = links->sweep,
            .at = links->at,
            .held = links->held,
            .notifies = links->notifies,
            .group = memory_copy_text(links->group),
        };
    return result;
}

static int dependency_take(void *data, int64_t job, const struct dependency *dependency)
{
    struct graph_load *load = data;
    int result = array_reserve((void **)&load->dependencies, load->dependency_count,
                               sizeof *load->dependencies);

    if (result == 0)
        load->dependencies[load->dependency_count++] =
            (struct loaded_dependency){.job = job, .dependency = *dependency};
    return result;
}

static int limit_take(void *data, uid_t uid, const char *name, int64_t limit)
{
    struct graph_load *load = data;
    int result = array_reserve((void **)&load->limits, load->limit_count, sizeof *load->limits);

    if (result == 0)
        load->limits[load->limit_count++] =
            (struct loaded_limit){.uid = uid, .name = memory_copy_text(name), .limit = limit};
    return result;
}

struct graph_load *job_graph_read(struct store_connection *connection, struct error *error)
{
    struct graph_load *load = memory_zero(sizeof *load);
    int result;

    result = live_links_read(connection, links_take, load, error);
    if (result == 0)
        result = dependencies_live_read(connection, dependency_take, load, error);
    if (result == 0)
        result = group_limits_read(connection, limit_take, load, error);
    if (result == 0)
        result = sweeps_read(connection, sweep_take, load, error);
    if (result < 0) {
        graph_load_free(load);
        return NULL;
    }
    return load;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void restore_dependencies(struct jobs *jobs, struct job *job, struct graph_load *load)
{
    size_t first = load->next_dependency, count = 0;

    while (first < load->dependency_count && load->dependencies[first].job < job->id)
        first++;
    while (first + count < load->dependency_count &&
           load->dependencies[first + count].job == job->id)
        count++;
    load->next_dependency = first + count;
    for (size_t i = first; i < first + count; i++) {
        const struct dependency *dependency = &load->dependencies[i].dependency;
        struct job_links *links;

        if (dependency_judge(dependency->condition, dependency->state) == DEPENDENCY_MET)
            continue;
        links = job_links_of(job);
        if (!links->unmet)
            links->unmet = memory_zero(count * sizeof *links->unmet);
        links->unmet[links->unmet_count++] = *dependency;
        job_users_count_unmet(jobs, job->uid, 1);
    }
}

void job_graph_restore(struct jobs *jobs, struct job *job, bool runs, struct graph_load *load)
{
    const struct loaded_links *loaded = NULL;
    struct job_links *links;
    struct sweep_run *run;

    sweeps_restore(jobs, TAKE_POINTER(load->sweeps));
    while (load->next_link < load->link_count && load->links[load->next_link].job < job->id)
        load->next_link++;
    if (load->next_link < load->link_count && load->links[load->next_link].job == job->id)
        loaded = &load->links[load->next_link];
    if (!runs)
        restore_dependencies(jobs, job, load);
    if (job->links)
        job_wait_forget(jobs->table, job); /* it does not wait for a device yet */
    if (!loaded)
        return;
    job->notifies = loaded->notifies;
    run = loaded->sweep ? sweep_find(jobs, loaded->sweep) : NULL;
    if (!loaded->held && !loaded->group && !run && loaded->at <= 0)
        return;
    links = job_links_of(job);
    links->held = loaded->held;
    if (loaded->at > 0 && !runs)
        job_start_at(jobs, job, loaded->at);
    if (links->held || links->at > 0)
        job_wait_forget(jobs->table, job);
    links->sweep = run;
    if (run)
        run->live++;
    if (!loaded->group)
        return;
    links->group = group_find(jobs, job->uid, loaded->group, true);
    group_restore(links->group, runs ? job : NULL);
}

void job_graph_connect(struct jobs *jobs, struct graph_load *load)
{
    sweeps_restore(jobs, TAKE_POINTER(load->sweeps)); /* if there was no job */
    for (size_t i = 0; i < load->limit_count; i++)
        if (load->limits[i].name)
            jobs_group_set(jobs->daemon, load->limits[i].uid, load->limits[i].name,
                           load->limits[i].limit);
    for (size_t i = 0; i < load->dependency_count; i++) {
        const struct dependency *dependency = &load->dependencies[i].dependency;
        struct job *job = job_table_find(jobs->table, load->dependencies[i].job);

        if (!job || !job->links || job->links->unmet_count == 0)
            continue;
        if (job_state_is_final(dependency->state))
            graph_tell(jobs, job->id, dependency->on_job, dependency->state);
        else
            graph_wait_for(jobs, dependency->on_job, dependency->condition, job->id);
    }
    sweeps_resume(jobs);
    graph_settle_soon(jobs);
}
