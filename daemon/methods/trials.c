/* trials.c: Trials: a page of the jobs of a sweep as trials: what they were given, and what came of
 * it. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/methods/methods.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/search_rows.h"
#include "daemon/store/sweep_rows.h"
#include "daemon/work/search.h"

#include <stdlib.h>

enum { TRIALS_LIMIT = 200, TRIALS_LIMIT_MAX = 500 };

struct trials_query {
    struct call *call;
    int64_t id, first, limit, next; /* next: 0 if all have been listed */
    size_t bytes;                   /* of the trials */
    struct json_object *reply;      /* owned */
};

static void describe_search(struct json_object *reply, const struct search *search, int64_t best,
                            bool settled)
{
    struct json_object *described = json_object_new_object();

    json_set_string(described, "algorithm", search_algorithm_to_string(search->algorithm));
    json_set_string(described, "sampler", search_sampler_to_string(search->sampler));
    json_set_string(described, "metric", search->metric);
    json_set_string(described, "mode", search->falls ? "min" : "max");
    json_set_string(described, "unit", search_unit(search));
    if (search->most > 0)
        json_set_double(described, "max", search->most);
    else
        json_set(described, "max", NULL);
    if (best)
        json_set_int(described, "best", best);
    else
        json_set(described, "best", NULL);
    json_set_bool(described, "settled", settled);
    json_set(reply, "search", described);
}

/* Adds a trial while it fits; the values of one may be most of a message. */
static bool take_trial(void *data, struct json_object *trial)
{
    struct trials_query *query = data;
    struct json_object *trials = json_get(query->reply, "trials");
    size_t count = json_object_array_length(trials);

    if ((int64_t)count < query->limit &&
        (reply_fits(trial, &query->bytes, REPLY_LIST_BYTES) || count == 0)) {
        json_object_array_add(trials, trial);
        return true;
    }
    query->next = json_get_int(trial, "job", 0);
    json_object_put(trial);
    return false;
}

static int fill_in(struct store_connection *connection, struct trials_query *query,
                   const struct sweep_points *points, struct error *error)
{
    const struct search *search = sweep_points_search(points);
    int64_t best = 0;
    bool settled = false;
    int result;

    json_set(query->reply, "trials", json_object_new_array());
    result =
        search_trials_list(connection, query->id, query->first, points, take_trial, query, error);
    if (result == 0 && search)
        result = search_settled_read(connection, query->id, &settled, error);
    if (result == 0 && search)
        result = search_best_find(connection, query->id, search, &best, error);
    if (result < 0)
        return result;
    json_set(query->reply, "search", NULL);
    if (search)
        describe_search(query->reply, search, best, settled);
    json_set(query->reply, "next", NULL);
    if (query->next)
        json_set_int(query->reply, "next", query->next);
    return 0;
}

static int trials_work(struct store_connection *connection, void *data, struct error *error)
{
    struct trials_query *query = data;
    JSON_AUTO struct json_object *axes = NULL;
    struct json_object *sweep = NULL;
    struct sweep_points *points = NULL;
    int result = sweep_row_find(connection, query->id, &sweep, NULL, &axes, error);

    json_set(query->reply, "sweep", sweep);
    if (result < 0)
        return result;
    if (!axes || sweep_points_read(axes, INT64_MAX, &points, NULL, error) < 0)
        return error_set(error, -ERROR_DAMAGED, "the row of sweep %lld is damaged",
                         (long long)query->id);
    result = fill_in(connection, query, points, error);
    sweep_points_free(points);
    return result;
}

static void on_trials(void *data, int result, const struct error *error)
{
    struct trials_query query = *(struct trials_query *)data;

    free(data);
    if (result == 0) {
        call_reply(query.call, query.reply);
        return;
    }
    json_object_put(query.reply);
    if (result == -ERROR_NO_SUCH_JOB)
        call_fail_no_sweep(query.call, query.id);
    else
        call_fail_storage(query.call, error);
}

static void handle_trials(struct call *call)
{
    struct trials_query *query = memory_zero(sizeof *query);
    int64_t limit = json_get_int(call->parameters, "limit", TRIALS_LIMIT);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    query->first = json_get_int(call->parameters, "first", 0);
    query->limit = limit < 1 ? 1 : limit > TRIALS_LIMIT_MAX ? TRIALS_LIMIT_MAX : limit;
    query->reply = json_object_new_object();
    store_read(call->daemon->store, trials_work, on_trials, query);
}

METHOD(Trials, handle_trials, ACCESS_SWEEP_OWNER, METHOD_LONG);
