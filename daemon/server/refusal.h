/* refusal.h: the answer of a daemon that cannot start. */
#pragma once

/* Answers whoever waits at the listening socket with the error io.traind.InternalError
 * and the sentence, and hangs up: systemd holds the socket, so that callers would wait
 * for a daemon that does not come, and systemd would start one for them again and again.
 * Takes two seconds at most. */
void server_refuse_waiting(int descriptor, const char *sentence);
