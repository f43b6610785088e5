/* store.c: the storage threads and their queues from and to the loop. store.h explains the
 * design. The writer takes its whole queue at once, which makes the group commit. */
#include "daemon/store/store.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/store/connection.h"
#include "daemon/store/request_list.h"
#include "daemon/store/statement.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    TRANSACTION_REQUESTS_MAX = 2048, /* limits how long the first request of a group waits */
    TRANSACTION_BULK_MAX = 1000,     /* rows of bulk requests, for the same reason: some 10 ms */
    SOON_MILLISECONDS = 10,
    LOG_PAGES_WHEN_IDLE =
        1000,            /* pages of write-ahead log that are copied back when no request waits */
    LOG_PAGES_MAX = 8000 /* … and even if one does */
};

static const char begin[] = "BEGIN", commit[] = "COMMIT", rollback[] = "ROLLBACK";
static const char savepoint[] = "SAVEPOINT request";
static const char rollback_to_savepoint[] = "ROLLBACK TO request";
static const char release_savepoint[] = "RELEASE request";

/* The first reader keeps the order of store_read(). Of the queries that any reader may take it
 * takes one only while all others are busy, so that one long query holds up nothing. */
enum { READERS = 2 };

struct storage_thread {
    struct store *store;
    struct store_connection *connection; /* only the thread uses it while it runs */
    pthread_t thread;
    pthread_cond_t wake;
    /* under store->mutex */
    struct request_list queue;
    struct request_list bulk; /* the writer's: it takes a few at a time once `queue` is empty */
    bool due;                 /* something in the queue must not wait any longer */
    bool busy;                /* of a reader: it runs a query */
};

struct store {
    uv_async_t finished_some;
    uv_timer_t soon; /* runs out when the writer must begin although no caller waits */
    pthread_mutex_t mutex;
    pthread_cond_t finished_wake; /* for store_close() */
    struct storage_thread writer, readers[READERS];
    struct request_list beside;   /* under mutex: queries for whichever reader has time */
    struct request_list finished; /* under mutex */
    bool stopping;                /* under mutex */
    bool damaged;                 /* under mutex: a request found the database damaged */
    bool full;                    /* under mutex: store_disk_is_full() */
    size_t pending;               /* used by the loop only */
    int open_handles;             /* likewise */
};

static void request_fail(struct request *request, int result, const struct error *error)
{
    if (request->result < 0) /* its own failure says more */
        return;
    request->result = result;
    request->error = malloc(sizeof *request->error);
    if (request->error)
        *request->error = *error;
}

static void request_run(struct request *request, struct store_connection *connection)
{
    struct error error = {0};
    int result = request->work(connection, request->data, &error);

    if (result < 0)
        request_fail(request, result, &error);
}

/* ---- the writer ------------------------------------------------------------------------------ */

/* Marks the requests from `first` up to, but without, `end` as failed: the transaction that held
 * them was rolled back. */
static void fail_range(struct request *first, struct request *end, int result,
                       const struct error *error)
{
    for (; first != end; first = first->next)
        request_fail(first, result, error);
}

/* Runs one request in a savepoint. Returns false if SQLite rolled back the whole transaction, as it
 * does on a full disk; `error` then says why. */
static bool run_in_savepoint(struct request *request, struct store_connection *connection,
                             struct error *error)
{
    int result = store_connection_run(connection, savepoint, error);

    if (result < 0) {
        request_fail(request, result, error);
        return !sqlite3_get_autocommit(store_database(connection));
    }
    request_run(request, connection);
    if (sqlite3_get_autocommit(store_database(connection))) {
        *error =
            request->error ? *request->error : (struct error){-EIO, "the transaction was lost"};
        return false;
    }
    if (request->result < 0) {
        result = store_connection_run(connection, rollback_to_savepoint, error);
        if (result < 0)
            return false;
    }
    return store_connection_run(connection, release_savepoint, error) == 0;
}

/* Runs a request that is alone in its transaction and needs no savepoint. Returns as
 * run_in_savepoint() does. */
static bool run_alone(struct request *request, struct store_connection *connection,
                      struct error *error)
{
    request_run(request, connection);
    if (sqlite3_get_autocommit(store_database(connection))) {
        *error =
            request->error ? *request->error : (struct error){-EIO, "the transaction was lost"};
        return false;
    }
    if (request->result < 0)
        return store_connection_run(connection, rollback, error) == 0 &&
               store_connection_run(connection, begin, error) == 0;
    return true;
}

/* Runs requests from `first` on in one transaction, up to the first that causes its rollback.
 * Returns the request to go on with; NULL: all ran. */
static struct request *run_transaction(struct request *first, struct store_connection *connection,
                                       struct log_throttle *throttle)
{
    struct error error = {0};
    char note[LOG_NOTE_MAX];
    struct request *request = first;
    int result = store_connection_run(connection, begin, &error);

    if (result < 0) {
        fail_range(first, NULL, result, &error);
        return NULL;
    }
    for (; request; request = request->next) {
        if (first->next ? run_in_savepoint(request, connection, &error)
                        : run_alone(request, connection, &error))
            continue;
        request = request->next;
        result = error.code ? error.code : -EIO;
        goto fail;
    }
    result = store_connection_run(connection, commit, &error);
    if (result < 0)
        goto fail;
    return NULL;

fail:
    if (!sqlite3_get_autocommit(store_database(connection)))
        sqlite3_exec(store_database(connection), rollback, NULL, NULL, NULL);
    fail_range(first, request, result, &error);
    if (log_throttle_pass(throttle, result, note))
        log_error("a transaction failed: %s%s", error.text, note);
    return request;
}

static void hand_back(struct store *store, struct request_list *list)
{
    bool damaged = false;

    for (const struct request *request = list->first; request; request = request->next)
        damaged = damaged || request->result == -ERROR_DAMAGED;
    pthread_mutex_lock(&store->mutex);
    store->damaged = store->damaged || damaged;
    request_list_join(&store->finished, list);
    pthread_cond_signal(&store->finished_wake);
    pthread_mutex_unlock(&store->mutex);
    uv_async_send(&store->finished_some);
}

/* Waits for requests. Returns an empty list when the store closes. */
static struct request_list wait_for_requests(struct storage_thread *thread, size_t limit)
{
    struct store *store = thread->store;
    struct request_list taken;

    pthread_mutex_lock(&store->mutex);
    while (!(thread->queue.first && thread->due) && !thread->bulk.first && !store->stopping)
        pthread_cond_wait(&thread->wake, &store->mutex);
    taken = request_list_take(&thread->queue, limit);
    if (!thread->queue.first && thread->bulk.first) {
        struct request_list bulk = request_list_take_bulk(&thread->bulk, TRANSACTION_BULK_MAX);

        request_list_join(&taken, &bulk);
    }
    thread->due = thread->queue.first != NULL;
    pthread_mutex_unlock(&store->mutex);
    return taken;
}

static bool queue_is_empty(struct storage_thread *thread)
{
    pthread_mutex_lock(&thread->store->mutex);
    bool empty = !(thread->queue.first && thread->due) && !thread->bulk.first;
    pthread_mutex_unlock(&thread->store->mutex);
    return empty;
}

/* The last request that succeeded or found the disk full decides. Other failures say nothing about
 * space. */
static void look_at_space(struct store *store, const struct request_list *written)
{
    pthread_mutex_lock(&store->mutex);
    for (const struct request *request = written->first; request; request = request->next)
        if (request->result == 0 || request->result == -ENOSPC)
            store->full = request->result == -ENOSPC;
    pthread_mutex_unlock(&store->mutex);
}

static void *run_writer(void *data)
{
    struct storage_thread *thread = data;
    struct log_throttle throttle = {0};

    for (;;) {
        struct request_list taken = wait_for_requests(thread, TRANSACTION_REQUESTS_MAX);
        if (!taken.first)
            return NULL;
        for (struct request *next = taken.first; next;)
            next = run_transaction(next, thread->connection, &throttle);
        look_at_space(thread->store, &taken);
        hand_back(thread->store, &taken);

        /* after the answers, so that no caller waits for it */
        int pages = store_connection_log_pages(thread->connection);
        if (pages > LOG_PAGES_MAX || (pages > LOG_PAGES_WHEN_IDLE && queue_is_empty(thread)))
            store_connection_fold_log(thread->connection);
    }
}

/* ---- the readers ----------------------------------------------------------------------------- */

static void wake_readers(struct store *store)
{
    for (int i = 0; i < READERS; i++)
        pthread_cond_signal(&store->readers[i].wake);
}

/* The queue from which the reader takes its next query; NULL: none is for it. */
static struct request_list *queue_for(struct storage_thread *thread)
{
    struct store *store = thread->store;
    bool idle = false; /* another reader is */

    if (thread->queue.first)
        return &thread->queue;
    for (int i = 1; thread == store->readers && i < READERS; i++)
        idle = idle || !store->readers[i].busy;
    return store->beside.first && !idle ? &store->beside : NULL;
}

/* Waits for a query: the thread's own, or one that any reader may take. Returns an empty list when
 * the store closes. */
static struct request_list wait_for_query(struct storage_thread *thread)
{
    struct store *store = thread->store;
    struct request_list *queue, taken = {0};

    pthread_mutex_lock(&store->mutex);
    thread->busy = false;
    while (!(queue = queue_for(thread)) && !store->stopping)
        pthread_cond_wait(&thread->wake, &store->mutex);
    if (queue)
        taken = request_list_take(queue, 1);
    thread->busy = true;
    if (store->beside.first) /* the first reader may take it now */
        wake_readers(store);
    pthread_mutex_unlock(&store->mutex);
    return taken;
}

static void run_query(struct request *request, struct store_connection *connection)
{
    struct error error = {0};
    int result = store_connection_run(connection, begin, &error);

    if (result < 0) {
        request_fail(request, result, &error);
        return;
    }
    request_run(request, connection);
    if (store_connection_run(connection, commit, &error) < 0)
        sqlite3_exec(store_database(connection), rollback, NULL, NULL, NULL);
    if (sqlite3_txn_state(store_database(connection), NULL) != SQLITE_TXN_NONE)
        log_error("a reader's transaction did not end: the next queries may see old data");
}

static void *run_reader(void *data)
{
    struct storage_thread *thread = data;

    for (;;) {
        struct request_list taken = wait_for_query(thread);
        if (!taken.first)
            return NULL;
        run_query(taken.first, thread->connection);
        hand_back(thread->store, &taken);
    }
}

/* ---- the loop's side ------------------------------------------------------------------------- */

bool store_disk_is_full(struct store *store)
{
    pthread_mutex_lock(&store->mutex);
    bool full = store->full;
    pthread_mutex_unlock(&store->mutex);
    return full;
}

static void deliver_finished(struct store *store)
{
    struct request_list list;

    pthread_mutex_lock(&store->mutex);
    list = store->finished;
    store->finished = (struct request_list){0};
    pthread_mutex_unlock(&store->mutex);
    for (struct request *request = list.first, *next; request; request = next) {
        static const struct error no_memory = {-ENOMEM, "no memory left"};

        next = request->next;
        store->pending--;
        if (request->done)
            request->done(request->data, request->result,
                          request->error || request->result == 0 ? request->error : &no_memory);
        free(request->error);
        free(request);
    }
}

static void on_finished_some(uv_async_t *async)
{
    deliver_finished(async->data);
}

static void thread_wake(struct storage_thread *thread)
{
    thread->due = true;
    pthread_cond_signal(&thread->wake);
}

static struct request *request_make(store_work work, store_done done, void *data)
{
    struct request *request = malloc(sizeof *request);

    if (!request) {
        log_error("no memory left for a storage request");
        abort(); /* going on would lose a change that its caller relies on */
    }
    *request = (struct request){.work = work, .done = done, .data = data};
    return request;
}

static void hand_in(struct storage_thread *thread, bool due, store_work work, store_done done,
                    void *data)
{
    struct store *store = thread->store;
    struct request *request = request_make(work, done, data);

    store->pending++;
    pthread_mutex_lock(&store->mutex);
    request_list_append(&thread->queue, request);
    if (due)
        thread_wake(thread);
    pthread_mutex_unlock(&store->mutex);
}

void store_write(struct store *store, store_work work, store_done done, void *data)
{
    hand_in(&store->writer, true, work, done, data);
}

void store_write_bulk(struct store *store, unsigned cost, store_work work, store_done done,
                      void *data)
{
    struct request *request = request_make(work, done, data);

    request->cost = cost;
    store->pending++;
    pthread_mutex_lock(&store->mutex);
    request_list_append(&store->writer.bulk, request);
    pthread_cond_signal(&store->writer.wake);
    pthread_mutex_unlock(&store->mutex);
}

void store_read(struct store *store, store_work work, store_done done, void *data)
{
    hand_in(&store->readers[0], true, work, done, data);
}

void store_read_beside(struct store *store, store_work work, store_done done, void *data)
{
    struct request *request = request_make(work, done, data);

    store->pending++;
    pthread_mutex_lock(&store->mutex);
    request_list_append(&store->beside, request);
    wake_readers(store);
    pthread_mutex_unlock(&store->mutex);
}

static void writer_wake(struct store *store)
{
    pthread_mutex_lock(&store->mutex);
    if (store->writer.queue.first)
        thread_wake(&store->writer);
    pthread_mutex_unlock(&store->mutex);
}

static void on_soon(uv_timer_t *timer)
{
    writer_wake(timer->data);
}

void store_write_soon(struct store *store, store_work work, store_done done, void *data)
{
    hand_in(&store->writer, false, work, done, data);
    if (!uv_is_active((uv_handle_t *)&store->soon))
        uv_timer_start(&store->soon, on_soon, SOON_MILLISECONDS, 0);
}

size_t store_pending(const struct store *store)
{
    return store->pending;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static const char replace_clean_end[] =
    "INSERT OR REPLACE INTO setting (name, value) VALUES ('clean_end', :clean)";

static void set_clean_end(struct store_connection *connection, bool clean)
{
    struct error error = {0};
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, replace_clean_end, &error);
    int result;

    statement_bind_int(&statement, ":clean", clean);
    result = statement_run(&statement);
    if (result < 0)
        log_warning("cannot note the %s: %s", clean ? "clean end" : "start", error.text);
}

static int thread_begin(struct storage_thread *thread, struct store *store, void *(*run)(void *),
                        struct error *error)
{
    int result;

    thread->store = store;
    pthread_cond_init(&thread->wake, NULL);
    result = pthread_create(&thread->thread, NULL, run, thread);
    return result ? error_set_errno(error, -result, "cannot start a storage thread") : 0;
}

static void thread_end(struct storage_thread *thread)
{
    pthread_mutex_lock(&thread->store->mutex);
    thread->store->stopping = true;
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->store->mutex);
    pthread_join(thread->thread, NULL);
    pthread_cond_destroy(&thread->wake);
}

static void free_closed_store(uv_handle_t *handle)
{
    struct store *store = handle->data;

    if (--store->open_handles > 0)
        return;
    pthread_cond_destroy(&store->finished_wake);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

static void connections_close(struct store *store)
{
    for (int i = 0; i < READERS; i++)
        store_connection_close(store->readers[i].connection);
    store_connection_close(store->writer.connection);
}

static int connections_open(struct store *store, const char *directory, struct error *error)
{
    int result =
        store_connection_open(directory, STORE_READ_WRITE, &store->writer.connection, error);

    if (result == 0)
        set_clean_end(store->writer.connection, false);
    for (int i = 0; result == 0 && i < READERS; i++)
        result =
            store_connection_open(directory, STORE_READ_ONLY, &store->readers[i].connection, error);
    return result;
}

/* The first `count` of the readers, and the writer. */
static void threads_end(struct store *store, int count)
{
    thread_end(&store->writer);
    for (int i = 0; i < count; i++)
        thread_end(&store->readers[i]);
}

static int threads_begin(struct store *store, struct error *error)
{
    int result = thread_begin(&store->writer, store, run_writer, error);

    for (int i = 0; result == 0 && i < READERS; i++) {
        result = thread_begin(&store->readers[i], store, run_reader, error);
        if (result < 0)
            threads_end(store, i);
    }
    return result;
}

int store_open(uv_loop_t *loop, const char *directory, store_progress progress,
               struct store **store, struct error *error)
{
    struct store *opened = memory_zero(sizeof *opened);
    int result = store_prepare(directory, progress, error);

    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->finished_wake, NULL);
    if (result == 0)
        result = connections_open(opened, directory, error);
    if (result == 0)
        result = threads_begin(opened, error);
    if (result < 0) {
        connections_close(opened);
        pthread_cond_destroy(&opened->finished_wake);
        pthread_mutex_destroy(&opened->mutex);
        free(opened);
        return result;
    }
    uv_async_init(loop, &opened->finished_some, on_finished_some);
    uv_timer_init(loop, &opened->soon);
    uv_unref((uv_handle_t *)&opened->soon);
    opened->finished_some.data = opened->soon.data = opened;
    opened->open_handles = 2;
    *store = opened;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    while (store->pending > 0) { /* a `done` may submit another request */
        writer_wake(store);
        pthread_mutex_lock(&store->mutex);
        while (!store->finished.first)
            pthread_cond_wait(&store->finished_wake, &store->mutex);
        pthread_mutex_unlock(&store->mutex);
        deliver_finished(store);
    }
    threads_end(store, READERS);
    /* without this mark the next start checks all of it */
    set_clean_end(store->writer.connection, !store->damaged);
    connections_close(store);
    uv_close((uv_handle_t *)&store->finished_some, free_closed_store);
    uv_close((uv_handle_t *)&store->soon, free_closed_store);
}
