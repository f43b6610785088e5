/* device_energy.c: see device_energy.h. */
#include "daemon/devices/device_energy.h"

#include "daemon/devices/device.h"

#include <math.h>

/* Longest time between two regular readings, in seconds, with some margin. */
static const double reading_interval = 2;

/* The claim's entry for the device. */
static struct energy_use *use_of(struct device_claim *claim, const struct device *device)
{
    for (int i = 0; i < claim->device_count; i++)
        if (claim->devices[i] == device)
            return &claim->energy[i];
    return NULL;
}

void device_energy_mark(struct device *device, double now)
{
    struct energy_meter *meter = &device->energy;
    double seconds = now - meter->marked_at;

    meter->marked_at = now;
    for (size_t i = 0; seconds > 0 && i < device->claim_count; i++) {
        struct energy_use *use = use_of(device->claims[i], device);

        use->waiting_seconds += seconds;
        use->waiting_portion += seconds / (double)device->claim_count;
    }
}

static void use_count(struct energy_use *use, double watts)
{
    use->metered = true;
    use->device_joules += watts * use->waiting_seconds;
    use->joules += watts * use->waiting_portion;
    use->waiting_seconds = use->waiting_portion = 0;
}

void device_energy_read(struct device *device, double joules, double watts, double now)
{
    struct energy_meter *meter = &device->energy;
    double before = meter->read_at;

    if (!(joules >= 0))
        return;
    if (meter->known && joules >= meter->joules && now > before) /* else the driver was reloaded and
                                                                  * counts from 0 */
        meter->watts = (joules - meter->joules) / (now - before);
    else
        meter->watts = watts >= 0 ? watts : 0;
    if (!meter->known)
        meter->marked_at = now;
    meter->known = true;
    meter->joules = joules;
    meter->read_at = now;
    device_energy_mark(device, now);
    for (size_t i = 0; i < device->claim_count; i++)
        use_count(use_of(device->claims[i], device), meter->watts);
    if (now - before > reading_interval && watts >= 0)
        meter->watts = watts; /* most of the interval lies before the first attempt began */
}

void device_claim_settle_energy(struct device_claim *claim, double now)
{
    for (int i = 0; i < claim->device_count; i++) {
        struct device *device = claim->devices[i];

        device_energy_mark(device, now);
        if (device->energy.known)
            use_count(&claim->energy[i], device->energy.watts);
    }
}

void device_energy_begin(struct energy_use *use, double joules, double busy_seconds)
{
    use->divided_by_time = true;
    use->first_joules = joules;
    use->first_busy = busy_seconds;
}

void device_energy_end(struct energy_use *use, double joules, double busy_seconds)
{
    if (!use->divided_by_time)
        return;
    use->device_joules = joules - use->first_joules;
    use->busy_seconds = busy_seconds - use->first_busy;
    use->metered = use->device_joules >= 0 && use->busy_seconds >= 0;
}

/* The part of the machine's busy time that was the attempt's. Both are counted in steps, so that of
 * a short attempt may come out as more than all. */
static double time_share(const struct energy_use *use, double cpu_seconds)
{
    return cpu_seconds < use->busy_seconds ? cpu_seconds / use->busy_seconds
           : isnan(cpu_seconds)            ? NAN
                                           : 1;
}

double device_claim_energy(const struct device_claim *claim, bool whole, double cpu_seconds)
{
    double joules = claim->device_count ? 0 : NAN;

    for (int i = 0; i < claim->device_count; i++) {
        const struct energy_use *use = &claim->energy[i];

        if (!use->metered)
            joules = NAN;
        else if (use->divided_by_time)
            joules += use->device_joules * (whole ? 1 : time_share(use, cpu_seconds));
        else
            joules += whole ? use->device_joules : use->joules;
    }
    return joules;
}
