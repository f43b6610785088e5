/* refusal.h: the answer that a daemon gives if it cannot start. */
#pragma once

/* Answers all clients that wait at the listening socket with the error io.traind.InternalError and
 * the sentence, and hangs up. systemd owns that socket: without an answer the clients would wait
 * for a daemon that does not come, and systemd would start it for them again and again. Takes two
 * seconds at most. */
void server_refuse_waiting(int descriptor, const char *sentence);
