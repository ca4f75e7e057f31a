/*
 * What NCCL hands to the transport, by the peer's address, in the segment that the shim writes for hostd: the flows of
 * a job that has no sockets. The segment is the profiler plugin's, which is the same library in this process whoever
 * opens it; without that plugin nothing is counted. Law: as core.h's.
 */
#ifndef PACELINE_COUNTS_H
#define PACELINE_COUNTS_H

#include "../paceline_shm.h"

struct pls_record *counts_of(const uint8_t peer[PLS_ADDRESS_BYTES]); /* NULL: not counted */
void counts_sent(struct pls_record *record, uint64_t bytes);
/* A send waits for its turn since then; 0: none does any more. */
void counts_held(int64_t since_ns);

#endif
