/* device_states.c: see device_states.h. */
#include "daemon/device_states.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/device.h"
#include "daemon/jobs.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct device_state {
    struct device_state *next;
    char id[DEVICE_ID_MAX];
    enum device_health health;
    char reason[DEVICE_REASON_MAX];
};

struct device_states {
    struct device_state *first;
};

static struct device_state *state_find(const struct daemon *daemon, const char *id)
{
    struct device_state *state = daemon->device_states ? daemon->device_states->first : NULL;

    while (state && strcmp(state->id, id) != 0)
        state = state->next;
    return state;
}

/* ---- what the device is ------------------------------------------------------------------------
 */

void device_health_update(struct daemon *daemon, struct device *device)
{
    const struct device_state *state = state_find(daemon, device->id);
    enum device_health health = device->missing ? DEVICE_LOST
                                : state         ? state->health
                                                : DEVICE_HEALTHY;
    const char *reason = device->missing ? device->missing_reason : state ? state->reason : "";
    bool changed = device->health != health;

    if (!changed && strcmp(device->health_reason, reason) == 0)
        return;
    device->health = health;
    snprintf(device->health_reason, sizeof device->health_reason, "%s", reason);
    watches_devices_changed(&daemon->watches);
    if (!changed || !daemon->jobs)
        return;
    if (health != DEVICE_HEALTHY)
        log_warning("%s is %s: %s", device->name, device_health_to_string(health), reason);
    else
        log_info("%s is healthy", device->name);
    jobs_device_changed(daemon, device);
}

/* ---- loading -----------------------------------------------------------------------------------
 */

struct load {
    struct daemon *daemon;
    struct device_states *states;
    device_states_done done;
    void *data;
};

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    struct load *load = data;
    sqlite3_stmt *statement =
        store_statement(connection, "SELECT device, health, reason FROM device_state", error);
    int result;

    if (!statement)
        return error->code;
    while ((result = store_statement_next(statement, error)) > 0) {
        struct device_state *state = calloc(1, sizeof *state);
        int health = device_health_from_string((const char *)sqlite3_column_text(statement, 1));

        if (!state)
            return error_set(error, -ENOMEM, "not enough memory to load the devices' states");
        snprintf(state->id, sizeof state->id, "%s", sqlite3_column_text(statement, 0));
        state->health = health < 0 ? DEVICE_DRAINING : (enum device_health)health;
        snprintf(state->reason, sizeof state->reason, "%s", sqlite3_column_text(statement, 2));
        state->next = load->states->first;
        load->states->first = state;
    }
    return result;
}

static void on_loaded(void *data, int result, const struct error *error)
{
    struct load load = *(struct load *)data;

    free(data);
    for (size_t i = 0; i < load.daemon->devices->count; i++)
        device_health_update(load.daemon, load.daemon->devices->list[i]);
    load.done(load.data, result, error);
}

void device_states_load(struct daemon *daemon, device_states_done done, void *data)
{
    struct load *load = calloc(1, sizeof *load);

    daemon->device_states = calloc(1, sizeof *daemon->device_states);
    if (!load || !daemon->device_states) {
        log_error("not enough memory to begin; ending");
        abort();
    }
    *load = (struct load){
        .daemon = daemon, .states = daemon->device_states, .done = done, .data = data};
    store_read(daemon->store, load_work, on_loaded, load);
}

void device_states_free(struct daemon *daemon)
{
    struct device_state *state = daemon->device_states ? daemon->device_states->first : NULL;

    while (state) {
        struct device_state *next = state->next;

        free(state);
        state = next;
    }
    free(daemon->device_states);
    daemon->device_states = NULL;
}

/* ---- changing ----------------------------------------------------------------------------------
 */

struct change {
    struct daemon *daemon;
    char id[DEVICE_ID_MAX], name[DEVICE_NAME_MAX], reason[DEVICE_REASON_MAX];
    enum device_health health; /* DEVICE_HEALTHY: no row */
    uid_t uid;
    double time;
    device_states_done done;
    void *data;
};

static int change_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct change *change = data;
    sqlite3_stmt *statement =
        change->health == DEVICE_HEALTHY
            ? store_statement(connection, "DELETE FROM device_state WHERE device = ?", error)
            : store_statement(connection,
                              "INSERT OR REPLACE INTO device_state (device, health, reason, time, "
                              "uid) VALUES (?, ?, ?, ?, ?)",
                              error);

    if (!statement)
        return error->code;
    store_bind_text(statement, 1, change->id);
    if (change->health != DEVICE_HEALTHY) {
        store_bind_text(statement, 2, device_health_to_string(change->health));
        store_bind_text(statement, 3, change->reason);
        store_bind_double(statement, 4, change->time);
        store_bind_int(statement, 5, change->uid);
    }
    return store_statement_run(statement, error);
}

static void state_remove(struct device_states *states, const char *id)
{
    struct device_state **place = &states->first;

    while (*place && strcmp((*place)->id, id) != 0)
        place = &(*place)->next;
    if (*place) {
        struct device_state *state = *place;

        *place = state->next;
        free(state);
    }
}

static void state_put(struct daemon *daemon, const struct change *change)
{
    struct device_state *state = state_find(daemon, change->id);

    if (!state) {
        state = calloc(1, sizeof *state);
        if (!state) {
            log_error("not enough memory to keep the state of %s; ending", change->name);
            abort();
        }
        snprintf(state->id, sizeof state->id, "%s", change->id);
        state->next = daemon->device_states->first;
        daemon->device_states->first = state;
    }
    state->health = change->health;
    snprintf(state->reason, sizeof state->reason, "%s", change->reason);
}

static void change_apply(const struct change *change)
{
    struct device *device = devices_find(change->daemon->devices, change->id);

    if (change->health == DEVICE_HEALTHY)
        state_remove(change->daemon->device_states, change->id);
    else
        state_put(change->daemon, change);
    if (device)
        device_health_update(change->daemon, device);
}

static void on_changed(void *data, int result, const struct error *error)
{
    struct change change = *(struct change *)data;

    free(data);
    /* in the order of the rows, for one that was in effect before it was stored as well */
    if ((result == 0 || !change.done) && change.daemon->device_states)
        change_apply(&change);
    if (change.done)
        change.done(change.data, result, error);
    else if (result < 0)
        log_error("that %s is %s could not be stored and ends with this daemon: %s", change.name,
                  device_health_to_string(change.health), error->text);
}

static void change_store(struct daemon *daemon, const struct device *device,
                         enum device_health health, const char *reason, uid_t uid,
                         device_states_done done, void *data)
{
    struct change *change = calloc(1, sizeof *change);

    if (!change) {
        log_error("not enough memory to store the state of %s; ending", device->name);
        abort();
    }
    *change = (struct change){.daemon = daemon,
                              .health = health,
                              .uid = uid,
                              .time = clock_now(),
                              .done = done,
                              .data = data};
    snprintf(change->id, sizeof change->id, "%s", device->id);
    snprintf(change->name, sizeof change->name, "%s", device->name);
    snprintf(change->reason, sizeof change->reason, "%s", reason);
    if (!done) /* nobody could be told that it is not in effect */
        change_apply(change);
    store_write(daemon->store, change_work, on_changed, change);
}

void device_state_set(struct daemon *daemon, struct device *device, enum device_health health,
                      const char *reason, uid_t uid, device_states_done done, void *data)
{
    change_store(daemon, device, health, reason, uid, done, data);
}

void device_state_clear(struct daemon *daemon, struct device *device, device_states_done done,
                        void *data)
{
    change_store(daemon, device, DEVICE_HEALTHY, "", 0, done, data);
}
