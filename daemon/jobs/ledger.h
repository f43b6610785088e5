/* ledger.h: the memory of the devices: what our jobs have booked, and what others hold. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct jobs;

/* Counts an attempt in and out of the ledgers of its devices, which are set already. */
void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory);
void jobs_unbook(struct jobs *jobs, struct attempt *attempt);
/* Measures what others hold of every device; not more often than is worth it. Where attempts are on
 * the CPU, that is read on the thread pool with what they hold, and arrives a moment later: who
 * holds more than it has booked is booked with that. True: such a reading is under way. */
bool jobs_measure_outside(struct jobs *jobs);
