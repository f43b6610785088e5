/* power.h: whether the kernel may put NVIDIA GPUs to sleep while nobody uses them (runtime power
 * management), as it does on laptops. A program that has NVML initialised keeps a GPU awake, and a
 * question to NVML wakes it. */
#pragma once

enum nvidia_power {
    NVIDIA_STAYS_ON,  /* a GPU that may not sleep is among them, or nothing is known */
    NVIDIA_MAY_SLEEP, /* all may sleep, and one is awake */
    NVIDIA_ASLEEP     /* all are asleep */
};

/* Reads /sys/bus/pci/drivers/nvidia below `root` ("" for the real one; tests pass a folder), which
 * wakes nothing. */
enum nvidia_power nvidia_power_read(const char *root);
