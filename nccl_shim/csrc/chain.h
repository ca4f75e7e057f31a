/*
 * Another profiler plugin behind ours, called "they" below. NCCL loads one only and users want two.
 * Law: the other plugin sees the calls it would have seen alone, with its own handles and contexts; nothing it
 * returns reaches NCCL; without one, none of this code runs.
 */
#ifndef PACELINE_CHAIN_H
#define PACELINE_CHAIN_H

#include "nccl_abi.h"

/* Loads the plugin named by NCCL_SHIM_CHAIN once per process. `version` is the interface NCCL chose with us. */
int chain_load(int version);

struct chain_init {
    uint64_t comm_id;
    const char *comm_name;
    int nodes, nranks, rank;
    void *log;
};
/* Whether the other plugin takes part; then *their_ctx is its context, which may be NULL. */
int chain_init(const struct chain_init *arguments, void **their_ctx);
void chain_finalize(void *their_ctx);
/* The events it wants by now. */
int chain_mask(void);

/* Passes the event on; returns a handle carrying both sides. `ours` comes back from chain_ours. */
void *chain_start(void *their_ctx, struct nccl_event_descriptor *event, uint64_t type, void *ours);
void *chain_ours(void *handle);
void *chain_theirs(void *handle);
void chain_stop(void *handle);
void chain_record(void *handle, int state, union nccl_state_args *args);

#endif
