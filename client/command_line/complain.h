/* complain.h: prints errors for the person who runs trainctl. */
#pragma once

/* Prints "trainctl: <sentence>" on standard error, with control characters escaped. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
