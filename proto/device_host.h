/* device_host.h: the name of the device that every machine has. */
#pragma once

/* The machine's processor, and the kind of device that it is. It always exists, what has no device
 * runs on it, and its memory is the machine's. */
#define DEVICE_HOST "cpu"
