/*
 * NCCL profiler plugin, interfaces 6, 5 and 4. Law: every function returns success, writes its outputs, allocates
 * nothing and takes no lock per event.
 *
 * A collective adds its payload to its communicator's record when it is launched; a proxy operation hands out
 * the persistent record of (communicator, peer) as its handle; each of its steps inherits that handle and adds
 * the bytes it moved at the one state where they are final.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "core.h"
#include "page/launch_gate.h"
#include "payload.h"

enum { CONTEXTS = 512, MAX_SLOTS = 1 << 14, OUR_EVENTS = EVENT_COLL | EVENT_P2P | EVENT_PROXY_STEP };

struct peer_slot {
    _Atomic int64_t key; /* peer * 4 + which of the three records, plus 1; 0: empty */
    _Atomic(struct pls_record *) record;
};

/* One per communicator, never given back: NCCL's proxy threads may still report to a communicator that was
 * finalized. The table of peers is allocated when the communicator is made, with room for every peer. */
struct context {
    struct pls_header *header;
    struct pls_record *collective;
    uint64_t comm_id;
    int32_t rank, nranks;
    int *mask;
    int their_mask_applied;
    int passes_on; /* the chained plugin takes part, with its own context */
    void *theirs;
    struct peer_slot *slots;
    uint64_t slot_count;
};

static struct context contexts[CONTEXTS];
static _Atomic uint32_t contexts_used;
static _Atomic int chained;

enum peer_use { USE_PROXY = 0, USE_SEND = 1, USE_RECV = 2 };

/* Where inbound bytes go when records have run out: no reader sees it, but the look-up has an answer to keep. */
static struct pls_record nowhere;

static struct pls_record *find_peer(struct context *c, enum peer_use use, int32_t peer) {
    static const uint32_t KIND[] = {PLS_PROXY, PLS_SEND, PLS_RECV};
    struct pls_record *found =
        pls_find(c->header, KIND[use], PLS_NCCL, c->comm_id, c->rank, c->nranks, peer);
    return found ? found : &nowhere;
}

static void make_slots(struct context *c) {
    uint64_t wanted = 64; /* three uses a peer, at most half full */
    while (wanted < MAX_SLOTS && wanted < 6 * (uint64_t)(c->nranks > 0 ? c->nranks : 1))
        wanted *= 2;
    c->slots = calloc(wanted, sizeof *c->slots);
    c->slot_count = c->slots ? wanted : 0;
}

/* Lock-free; the segment is searched once per peer. A full table (thousands of ranks) counts as overflow. */
static struct pls_record *record_of_peer(struct context *c, enum peer_use use, int32_t peer) {
    int64_t key = (int64_t)peer * 4 + use + 1;
    if (!c->header)
        return NULL;
    for (uint64_t probe = 0; probe < c->slot_count; probe++) {
        struct peer_slot *slot = &c->slots[((uint64_t)key + probe) % c->slot_count];
        int64_t seen = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (seen == 0 && atomic_compare_exchange_strong(&slot->key, &seen, key))
            seen = key;
        if (seen != key)
            continue;
        struct pls_record *record = atomic_load_explicit(&slot->record, memory_order_acquire);
        if (!record) { /* two threads may both ask: the segment gives both the same record */
            record = find_peer(c, use, peer);
            atomic_store_explicit(&slot->record, record, memory_order_release);
        }
        return record;
    }
    return use == USE_RECV ? &nowhere : pls_overflow(c->header);
}

/* The chained plugin may change its mask at any time: one kind of event is asked for always, at which we look. */
static int their_mask(void) { return chained ? chain_mask() | EVENT_COLL : 0; }

static int init(void **ctx, const struct chain_init *a, int *mask, int version) {
    chained = chain_load(version);
    if (ctx)
        *ctx = NULL;
    struct pls_header *header = pls_process();
    uint32_t at = atomic_fetch_add(&contexts_used, 1);
    if (at < CONTEXTS && ctx) {
        struct context *c = &contexts[at];
        c->header = header;
        c->comm_id = a->comm_id;
        c->rank = a->rank;
        c->nranks = a->nranks;
        c->collective = pls_find(header, PLS_COLLECTIVE, PLS_NCCL, a->comm_id, a->rank, a->nranks, -1);
        make_slots(c);
        c->mask = mask;
        c->passes_on = chained && chain_init(a, &c->theirs);
        c->their_mask_applied = their_mask();
        *ctx = c;
    } else {
        atomic_store(&contexts_used, CONTEXTS);
        pls_note_once("more than 512 communicators in one process: the rest are not counted");
    }
    if (mask)
        *mask = their_mask() | (header ? OUR_EVENTS : 0);
    return 0;
}

static void follow_their_mask(struct context *c) {
    int theirs = their_mask();
    if (!c->mask || theirs == c->their_mask_applied)
        return;
    c->their_mask_applied = theirs;
    __atomic_store_n(c->mask, theirs | (c->header ? OUR_EVENTS : 0), __ATOMIC_RELAXED);
}

static void on_collective(struct context *c, const struct nccl_event_descriptor *event) {
    uint64_t bytes = event->coll.count * element_bytes(event->coll.datatype);
    pls_enqueue(c->header, c->collective, bytes, ring_wire_bytes(event->coll.func, bytes, c->nranks));
}

static void on_p2p(struct context *c, const struct nccl_event_descriptor *event) {
    uint64_t bytes = event->p2p.count * element_bytes(event->p2p.datatype);
    int inbound = event->p2p.func && strncmp(event->p2p.func, "Recv", 4) == 0;
    struct pls_record *record = record_of_peer(c, inbound ? USE_RECV : USE_SEND, event->p2p.peer);
    pls_enqueue(c->header, record, bytes, inbound || event->p2p.peer == c->rank ? 0 : bytes);
}

/* Since version 5 NCCL tells of a call before it launches anything, on the caller's thread: there a burst can wait. */
static void on_coll_api(struct context *c, const struct nccl_event_descriptor *event) {
    if (!event->coll_api.captured)
        plp_before_launch(c->header, event->coll_api.count * element_bytes(event->coll_api.datatype));
}

static void on_p2p_api(struct context *c, const struct nccl_event_descriptor *event) {
    if (!event->p2p_api.captured && event->p2p_api.func && strncmp(event->p2p_api.func, "Recv", 4) != 0)
        plp_before_launch(c->header, event->p2p_api.count * element_bytes(event->p2p_api.datatype));
}

static struct pls_record *foreign_record(void) {
    static _Atomic(struct pls_record *) known;
    struct pls_record *record = atomic_load_explicit(&known, memory_order_acquire);
    if (!record) {
        record = pls_find(pls_process(), PLS_FOREIGN, PLS_NCCL, 0, -1, 0, -1);
        atomic_store_explicit(&known, record ? record : &nowhere, memory_order_release);
    }
    return record;
}

static struct pls_record *on_proxy_op(struct context *c, const struct nccl_event_descriptor *event) {
    if (event->proxy_op.pid != pls_pid()) {
        /* PXN: `c` is an address in another process. The sockets are ours, so the bytes are counted here. */
        return foreign_record();
    }
    if (!c)
        return NULL;
    struct pls_record *record = record_of_peer(c, USE_PROXY, event->proxy_op.peer);
    if (record)
        atomic_fetch_or_explicit(&record->channel_mask, 1ull << (event->proxy_op.channel & 63), memory_order_relaxed);
    return record;
}

static int start(void *ctx, void **handle, struct nccl_event_descriptor *event, uint64_t type) {
    struct context *c = ctx;
    void *ours = NULL;
    int pass_on = 0;
    if (handle)
        *handle = NULL;
    if (!event || !handle)
        return 0;
    switch (type) {
    case EVENT_COLL:
        pass_on = c && c->passes_on;
        if (c)
            follow_their_mask(c);
        if (c && c->header)
            on_collective(c, event);
        break;
    case EVENT_P2P:
        pass_on = c && c->passes_on;
        if (c && c->header)
            on_p2p(c, event);
        break;
    case EVENT_PROXY_OP:
        pass_on = event->proxy_op.pid == pls_pid() && c && c->passes_on;
        ours = on_proxy_op(c, event);
        break;
    case EVENT_PROXY_STEP:
    case EVENT_NET_PLUGIN: /* may carry a foreign context too: its parent knows, having no handle of theirs */
        pass_on = chained && c && chain_theirs(event->parent) != NULL;
        ours = chained ? chain_ours(event->parent) : event->parent;
        break;
    case EVENT_COLL_API:
        pass_on = c && c->passes_on;
        if (c && c->header)
            on_coll_api(c, event);
        break;
    case EVENT_P2P_API:
        pass_on = c && c->passes_on;
        if (c && c->header)
            on_p2p_api(c, event);
        break;
    default: /* parents and kinds we did not ask for */
        pass_on = c && c->passes_on;
        break;
    }
    if (chained)
        ours = chain_start(pass_on ? c->theirs : NULL, event, pass_on ? type : 0, ours);
    *handle = ours;
    return 0;
}

static int stop_event(void *handle) {
    if (chained && handle)
        chain_stop(handle);
    return 0;
}

static int record_event_state(void *handle, int state, union nccl_state_args *args) {
    struct pls_record *record = chained ? chain_ours(handle) : handle;
    if (record && args && (state == STATE_SENT || state == STATE_RECEIVED)) {
        uint64_t bytes = args->proxy_step.transferred_bytes;
        pls_transmit(pls_process(), record, state == STATE_SENT ? bytes : 0, state == STATE_SENT ? 0 : bytes);
        if (state == STATE_SENT)
            plp_sent(bytes);
    }
    if (chained && handle)
        chain_record(handle, state, args);
    return 0;
}

static int finalize(void *ctx) {
    struct context *c = ctx;
    if (!c)
        return 0;
    pls_close_record(c->collective);
    for (uint64_t i = 0; i < c->slot_count; i++)
        pls_close_record(atomic_load(&c->slots[i].record));
    if (c->passes_on)
        chain_finalize(c->theirs);
    return 0;
}

static int init_v5(void **ctx, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int nranks, int rank,
                   void *log) {
    struct chain_init a = {comm_id, comm_name, nodes, nranks, rank, log};
    return init(ctx, &a, mask, 5);
}

static int init_v6(void **ctx, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int nranks, int rank,
                   void *log) {
    struct chain_init a = {comm_id, comm_name, nodes, nranks, rank, log};
    return init(ctx, &a, mask, 6);
}

static int init_v4(void **ctx, int *mask, const char *comm_name, uint64_t comm_hash, int nodes, int nranks, int rank,
                   void *log) {
    struct chain_init a = {comm_hash, comm_name, nodes, nranks, rank, log};
    return init(ctx, &a, mask, 4);
}

static int start_v5(void *ctx, void **handle, struct nccl_event_descriptor *event) {
    return start(ctx, handle, event, event ? event->type : 0);
}

static int start_v4(void *ctx, void **handle, struct nccl_event_descriptor *event) {
    return start(ctx, handle, event, event ? event->type & 0xff : 0);
}

PLS_API const struct nccl_profiler ncclProfiler_v6 = {
    "paceline", {.v5 = init_v6}, start_v5, stop_event, record_event_state, finalize};
PLS_API const struct nccl_profiler ncclProfiler_v5 = {
    "paceline", {.v5 = init_v5}, start_v5, stop_event, record_event_state, finalize};
PLS_API const struct nccl_profiler ncclProfiler_v4 = {
    "paceline", {.v4 = init_v4}, start_v4, stop_event, record_event_state, finalize};
