/* devices_reload.c: SIGHUP makes traind read the sections of devices again, without a restart. A
 * simulated device whose section is gone is lost, like a card that was pulled out: its jobs leave
 * it, and it returns with its section. Changes of other keys take effect at the next start. */
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/devices/device_states.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char vanished[] = "its section of the configuration is gone";

/* A device keeps a pointer to its old section while a process may just be started with it. So old
 * configurations live as long as the daemon. */
struct old_config {
    struct old_config *next;
    struct config config;
};

struct reload {
    uv_work_t work;
    struct daemon *daemon;
    struct config config;
    struct error error;
    int result;
};

/* ---- applying the new sections --------------------------------------------------------------- */

static void apply_to(struct daemon *daemon, struct device *device)
{
    const struct device_config *section = config_device(&daemon->config, device->name);

    bool by_section = device->driver->kind.naming == DEVICE_NAMED_BY_SECTION;

    if (by_section && (!section || !section->enabled)) {
        device->missing = true;
        snprintf(device->missing_reason, sizeof device->missing_reason, "%s", vanished);
    } else {
        if (by_section)
            device->missing = false;
        devices_configure(daemon->devices, device, &daemon->config);
    }
    device_health_update(daemon, device);
}

static void add_new(struct daemon *daemon)
{
    struct error error;

    for (size_t i = 0; i < daemon->config.device_count; i++) {
        const struct device_config *section = &daemon->config.devices[i];

        if (device_section_makes_device(section) && !devices_find(daemon->devices, section->name) &&
            !devices_add_section(daemon->devices, &daemon->config, section, &error))
            log_error("%s", error.text);
    }
}

static void take_over(struct daemon *daemon, struct config *fresh)
{
    struct old_config *old = malloc(sizeof *old);
    struct device_config *devices = daemon->config.devices;
    size_t count = daemon->config.device_count;

    if (!old) {
        log_error("the configuration stays as it was: no memory left");
        config_release(fresh);
        return;
    }
    daemon->config.devices = fresh->devices;
    daemon->config.device_count = fresh->device_count;
    fresh->devices = devices;
    fresh->device_count = count;
    *old = (struct old_config){daemon->old_configs, *fresh};
    daemon->old_configs = old;
    for (size_t i = 0; i < daemon->devices->count; i++)
        apply_to(daemon, daemon->devices->list[i]);
    add_new(daemon);
    log_info("the sections of the devices were read again");
    watches_devices_changed(&daemon->watches);
    jobs_reconsider(daemon);
}

/* ---- reading, beside the loop ---------------------------------------------------------------- */

static void read_again(uv_work_t *work)
{
    struct reload *reload = work->data;

    config_init(&reload->config, reload->daemon->config.kind_at);
    reload->result = config_read(&reload->config, reload->daemon->config_path, &reload->error);
}

static void on_read_again(uv_work_t *work, int status)
{
    struct reload *reload = work->data;

    (void)status;
    if (reload->result == 0) {
        take_over(reload->daemon, &reload->config);
    } else {
        log_error("the configuration stays as it was: %s", reload->error.text);
        config_release(&reload->config);
    }
    free(reload);
}

void devices_reload(struct daemon *daemon)
{
    struct reload *reload = daemon->config_path ? calloc(1, sizeof *reload) : NULL;

    if (!reload)
        return;
    reload->daemon = daemon;
    reload->work.data = reload;
    daemon_queue_work(daemon, &reload->work, read_again, on_read_again);
}

void devices_reload_release(struct daemon *daemon)
{
    while (daemon->old_configs) {
        struct old_config *old = daemon->old_configs;

        daemon->old_configs = old->next;
        config_release(&old->config);
        free(old);
    }
}
