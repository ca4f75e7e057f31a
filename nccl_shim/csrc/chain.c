/*
 * Handles. An event has two of them, ours and theirs, and NCCL keeps one word. It may use an event as a parent
 * long after stopping it, so an entry cannot be freed at its stop; instead a fixed ring is reused and
 * the word holds a sequence number. A word whose entry was reused in between is refused, never misread.
 */
#define _GNU_SOURCE
#include "chain.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { ENTRIES = 1 << 16 };

struct entry {
    _Atomic uint64_t sequence; /* the handle's value; 0 while being written */
    _Atomic(void *) ours;
    _Atomic(void *) theirs;
};

static struct entry entries[ENTRIES];
static _Atomic uint64_t next_sequence = 1;
static const struct nccl_profiler *other;
static int nccl_version, other_version;
/* Theirs to write whenever they like, as NCCL's own word is: plugins keep its address, set it at the first communicator
 * only, and change it when their user tells them to start or stop. */
static int their_mask;

static const struct nccl_profiler *open_plugin(const char *name, int version) {
    char path[512];
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library && !strchr(name, '/')) { /* NCCL accepts the short name too */
        snprintf(path, sizeof path, "libnccl-profiler-%s.so", name);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        return NULL;
    for (other_version = version; other_version >= 4; other_version--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", other_version);
        const struct nccl_profiler *found = dlsym(library, symbol);
        if (found)
            return found;
    }
    return NULL;
}

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

int chain_load(int version) {
    static int tried;
    pthread_mutex_lock(&loading);
    const char *name = getenv("NCCL_SHIM_CHAIN");
    if (!tried && name && name[0]) {
        nccl_version = version;
        other = open_plugin(name, version);
        if (!other) {
            char message[400];
            snprintf(message, sizeof message, "no profiler plugin to chain in %.300s", name);
            pls_note_once(message);
        }
    }
    tried = 1;
    pthread_mutex_unlock(&loading);
    return other != NULL;
}

int chain_mask(void) { return __atomic_load_n(&their_mask, __ATOMIC_RELAXED); }

/* What it asked for, with the ancestors NCCL would send along. */
static uint64_t their_events(void) {
    uint64_t mask = (uint32_t)chain_mask();
    if (mask & (EVENT_NET_PLUGIN))
        mask |= EVENT_PROXY_STEP;
    if (mask & EVENT_PROXY_STEP)
        mask |= EVENT_PROXY_OP;
    if (mask & (EVENT_PROXY_OP | EVENT_KERNEL_CH))
        mask |= EVENT_COLL | EVENT_P2P;
    if (mask & EVENT_COLL)
        mask |= EVENT_GROUP | EVENT_COLL_API;
    if (mask & EVENT_P2P)
        mask |= EVENT_GROUP | EVENT_P2P_API;
    if (mask & (EVENT_COLL_API | EVENT_P2P_API))
        mask |= EVENT_GROUP_API;
    return other_version == 4 ? mask & 0xff : mask; /* later kinds do not fit its one-byte type */
}

int chain_init(const struct chain_init *a, void **ctx) {
    *ctx = NULL;
    int *mask = &their_mask;
    return 0 == (other_version >= 5
                     ? other->init.v5(ctx, a->comm_id, mask, a->comm_name, a->nodes, a->nranks, a->rank, a->log)
                     : other->init.v4(ctx, mask, a->comm_name, a->comm_id, a->nodes, a->nranks, a->rank, a->log));
}

void chain_finalize(void *their_ctx) {
    if (other->finalize)
        other->finalize(their_ctx);
}

static struct entry *entry_of(void *handle) {
    uint64_t sequence = (uint64_t)handle;
    struct entry *entry = &entries[sequence % ENTRIES];
    return sequence && atomic_load_explicit(&entry->sequence, memory_order_acquire) == sequence ? entry : NULL;
}

static void *side_of(void *handle, int theirs) {
    struct entry *entry = entry_of(handle);
    if (!entry)
        return NULL;
    void *side = atomic_load_explicit(theirs ? &entry->theirs : &entry->ours, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return entry_of(handle) ? side : NULL; /* reused while we looked */
}

void *chain_ours(void *handle) { return side_of(handle, 0); }

void *chain_theirs(void *handle) { return side_of(handle, 1); }

/* As their version of the interface has it: before version 5 a collective belonged to its group. */
static void *parent_for_them(const struct nccl_event_descriptor *event, uint64_t type) {
    void *parent = event->parent;
    int at = type == EVENT_COLL ? GROUP_OF_COLL_AT_V5 : GROUP_OF_P2P_AT_V5;
    if (nccl_version >= 5 && other_version == 4 && (type == EVENT_COLL || type == EVENT_P2P))
        memcpy(&parent, (const char *)event + at, sizeof parent);
    return side_of(parent, 1);
}

/* The group as version 4 had it, which version 5 still names: one of ours, that is, until here. */
static void translate_group(char *at) {
    void *group;
    memcpy(&group, at, sizeof group);
    group = side_of(group, 1);
    memcpy(at, &group, sizeof group);
}

void *chain_start(void *their_ctx, struct nccl_event_descriptor *event, uint64_t type, void *ours) {
    void *theirs = NULL;
    if (type & their_events()) {
        /* Copy as much as the version that NCCL speaks guarantees to be there. */
        union {
            struct nccl_event_descriptor event;
            char bytes[DESCRIPTOR_BYTES_V5];
        } copy;
        memset(&copy, 0, sizeof copy);
        memcpy(copy.bytes, event, other_version >= 5 ? DESCRIPTOR_BYTES_V5 : DESCRIPTOR_BYTES_V4);
        copy.event.parent = parent_for_them(event, type);
        if (other_version >= 5 && (type == EVENT_COLL || type == EVENT_P2P))
            translate_group(copy.bytes + (type == EVENT_COLL ? GROUP_OF_COLL_AT_V5 : GROUP_OF_P2P_AT_V5));
        if (other->start_event(their_ctx, &theirs, &copy.event) != 0)
            theirs = NULL;
    }
    uint64_t sequence = atomic_fetch_add_explicit(&next_sequence, 1, memory_order_relaxed);
    struct entry *entry = &entries[sequence % ENTRIES];
    atomic_store_explicit(&entry->sequence, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->ours, ours, memory_order_relaxed);
    atomic_store_explicit(&entry->theirs, theirs, memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, sequence, memory_order_release);
    return (void *)sequence;
}

void chain_stop(void *handle) {
    void *theirs = side_of(handle, 1);
    if (theirs)
        other->stop_event(theirs);
}

void chain_record(void *handle, int state, union nccl_state_args *args) {
    void *theirs = side_of(handle, 1);
    if (theirs)
        other->record_event_state(theirs, state, args);
}
