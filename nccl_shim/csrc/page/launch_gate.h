/*
 * The gate for NCCL: a burst's first launch waits on the thread that calls NCCL, before the kernel is on the GPU.
 * nccl_shim/page/gate.py is the same for what torch launches from Python. Law: never longer than hold.c's bounds; after
 * a wait that such a bound has ended, the next burst does not wait.
 *
 *     begins a burst   the first launch of an iteration that carries a part of it worth waiting for; of a program that
 *                      marks no iterations, one after a rest
 *     is held          unless earlier bursts let the network rest for long after their launch: Python runs ahead of
 *                      the GPU then, and when it launches says nothing about when the network is needed
 */
#ifndef PACELINE_LAUNCH_GATE_H
#define PACELINE_LAUNCH_GATE_H

#include <stdint.h>

#include "../paceline_shm.h"

/* About to launch `bytes` of payload. Returns when it may. */
void plp_before_launch(struct pls_header *header, uint64_t bytes);
/* So many bytes have gone; called by NCCL's proxy threads. */
void plp_sent(uint64_t bytes);

#endif
