/* attempt_files.h: the suffixes of files that lie beside an attempt's folder and have its name.
 * The daemon and the shim trust these files: they lie in a folder of the daemon's, where no user
 * can create, replace, lock or remove anything. The attempt's folder itself belongs to the job's
 * user. */
#pragma once

#define ATTEMPT_CONFIG_SUFFIX ".json" /* attempt.json: the shim's input, which it keeps locked */
#define ATTEMPT_SOCKET_SUFFIX ".sock" /* worker.sock: io.traind.Worker */
#define ATTEMPT_RECORD_SUFFIX ".exit.json" /* exit.json: the exit record */
