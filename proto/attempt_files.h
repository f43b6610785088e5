/* attempt_files.h: what lies beside the folder of an attempt, and is named after it: what the
 * daemon and the shim believe. The folder itself is the job's user's; what is beside it is in a
 * folder of the daemon's, where no user can make, replace, lock or remove anything. */
#pragma once

#define ATTEMPT_CONFIG_SUFFIX ".json"      /* attempt.json: what the shim reads and keeps locked */
#define ATTEMPT_SOCKET_SUFFIX ".sock"      /* worker.sock: io.traind.Worker */
#define ATTEMPT_RECORD_SUFFIX ".exit.json" /* exit.json: the exit record */
