/* device_states.c: see device_states.h. */
#include "daemon/devices/device_states.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/devices/device.h"
#include "daemon/store/device_state_rows.h"
#include "daemon/store/store.h"

#include <stdlib.h>
#include <string.h>

struct device_state {
    struct device_state *next;
    struct device_state_row row;
};

struct device_states {
    struct device_state *first;
};

static struct device_state *state_find(const struct daemon *daemon, const char *id)
{
    struct device_state *state = daemon->device_states ? daemon->device_states->first : NULL;

    while (state && strcmp(state->row.id, id) != 0)
        state = state->next;
    return state;
}

/* ---- health ---------------------------------------------------------------------------------- */

void device_health_update(struct daemon *daemon, struct device *device)
{
    const struct device_state *state = state_find(daemon, device->id);
    enum device_health health = device->missing ? DEVICE_LOST
                                : state         ? state->row.health
                                                : DEVICE_HEALTHY;
    const char *reason = device->missing ? device->missing_reason : state ? state->row.reason : "";
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
    daemon->devices->listener->changed(daemon, device);
}

/* ---- loading --------------------------------------------------------------------------------- */

struct load {
    struct daemon *daemon;
    struct device_states *states;
    device_states_done done;
    void *data;
};

static int take_row(void *data, const struct device_state_row *row)
{
    struct load *load = data;
    struct device_state *state = memory_zero(sizeof *state);

    state->row = *row;
    state->next = load->states->first;
    load->states->first = state;
    return 0;
}

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    return device_states_read(connection, take_row, data, error);
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
    struct load *load = memory_zero(sizeof *load);

    daemon->device_states = memory_zero(sizeof *daemon->device_states);
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

/* ---- changing -------------------------------------------------------------------------------- */

struct change {
    struct daemon *daemon;
    struct device_state_row row; /* DEVICE_HEALTHY: delete the row */
    char name[DEVICE_NAME_MAX];
    uid_t uid;
    double time;
    device_states_done done;
    void *data;
};

static int change_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct change *change = data;

    return device_state_store(connection, &change->row, change->time, change->uid, error);
}

static void state_remove(struct device_states *states, const char *id)
{
    struct device_state **place = &states->first;

    while (*place && strcmp((*place)->row.id, id) != 0)
        place = &(*place)->next;
    if (*place) {
        struct device_state *state = *place;

        *place = state->next;
        free(state);
    }
}

static void state_put(struct daemon *daemon, const struct change *change)
{
    struct device_state *state = state_find(daemon, change->row.id);

    if (!state) {
        state = memory_zero(sizeof *state);
        snprintf(state->row.id, sizeof state->row.id, "%s", change->row.id);
        state->next = daemon->device_states->first;
        daemon->device_states->first = state;
    }
    state->row.health = change->row.health;
    snprintf(state->row.reason, sizeof state->row.reason, "%s", change->row.reason);
}

static void change_apply(const struct change *change)
{
    struct device *device = devices_find(change->daemon->devices, change->row.id);

    if (change->row.health == DEVICE_HEALTHY)
        state_remove(change->daemon->device_states, change->row.id);
    else
        state_put(change->daemon, change);
    if (device)
        device_health_update(change->daemon, device);
}

static void on_changed(void *data, int result, const struct error *error)
{
    struct change change = *(struct change *)data;

    free(data);
    /* applied in the order of the rows, even if it was in effect before it was stored */
    if ((result == 0 || !change.done) && change.daemon->device_states)
        change_apply(&change);
    if (change.done)
        change.done(change.data, result, error);
    else if (result < 0)
        log_error("%s is %s only until this daemon ends, because that could not be stored: %s",
                  change.name, device_health_to_string(change.row.health), error->text);
}

static void change_store(struct daemon *daemon, const struct device *device,
                         enum device_health health, const char *reason, uid_t uid,
                         device_states_done done, void *data)
{
    struct change *change = memory_zero(sizeof *change);

    *change = (struct change){.daemon = daemon,
                              .row = {.health = health},
                              .uid = uid,
                              .time = clock_now(),
                              .done = done,
                              .data = data};
    snprintf(change->row.id, sizeof change->row.id, "%s", device->id);
    snprintf(change->name, sizeof change->name, "%s", device->name);
    snprintf(change->row.reason, sizeof change->row.reason, "%s", reason);
    if (!done) /* no caller could learn that it is not in effect */
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
