/* ledger.h: the memory of the devices: how much our jobs have booked, and how much other programs
 * hold. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct jobs;

/* Books and unbooks an attempt on its devices, which are set already. `memory`: bytes on each
 * device; 0: not known. */
void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory);
void jobs_unbook(struct jobs *jobs, struct attempt *attempt);
/* Measures how much memory other programs hold on every device, unless it was measured a moment
 * ago. If attempts are on the CPU, the thread pool reads their memory too, and the result arrives a
 * moment later; an attempt that holds more than it has booked is then booked with that. True: such
 * a reading is under way. */
bool jobs_measure_outside(struct jobs *jobs);
