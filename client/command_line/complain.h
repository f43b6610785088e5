/* complain.h: what goes wrong, said to the person who runs trainctl. */
#pragma once

/* "trainctl: <sentence>" on standard error, control characters escaped. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
