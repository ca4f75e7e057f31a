/*
 * What we rely on of NCCL's profiler interface, versions 4 to 6: our own declarations, pinned below.
 * Law: only fields we read are named; the rest is padding. Versions 4 and 5 share every offset and differ in
 * the width of `type` (8 or 64 bits), the descriptor's size and the order of init's arguments. Version 6 (NCCL 2.29 and
 * 2.30) is version 5 with further kinds of events, for collectives of copy engines, which use no network.
 */
#ifndef PACELINE_NCCL_ABI_H
#define PACELINE_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

enum nccl_event {
    EVENT_GROUP = 0x1,
    EVENT_COLL = 0x2,
    EVENT_P2P = 0x4,
    EVENT_PROXY_OP = 0x8,
    EVENT_PROXY_STEP = 0x10,
    EVENT_PROXY_CTRL = 0x20,
    EVENT_KERNEL_CH = 0x40,
    EVENT_NET_PLUGIN = 0x80,
    EVENT_GROUP_API = 0x100,
    EVENT_COLL_API = 0x200,
    EVENT_P2P_API = 0x400,
};

/* The two moments at which a proxy step's transSize is final; at other states it is a leftover. */
enum nccl_state { STATE_SENT = 9, STATE_RECEIVED = 11 };

enum { DESCRIPTOR_BYTES_V4 = 104, DESCRIPTOR_BYTES_V5 = 112 };

/* Where version 5 keeps what version 4 calls the parent of a collective or of a send. */
enum { GROUP_OF_COLL_AT_V5 = 104, GROUP_OF_P2P_AT_V5 = 64 };

struct nccl_event_descriptor {
    uint64_t type; /* version 4: the first byte only */
    void *parent;
    int32_t rank;
    int32_t pad_rank;
    union {
        struct {
            uint64_t sequence;
            const char *func;
            const void *send_buffer;
            void *receive_buffer;
            size_t count;
            int32_t root;
            const char *datatype;
            uint8_t channels;
            const char *algorithm;
            const char *protocol;
        } coll;
        struct {
            const char *func;
            void *buffer;
            const char *datatype;
            size_t count;
            int32_t peer;
        } p2p;
        struct { /* version 5: the call of a collective, on the caller's thread, before it is launched */
            const char *func;
            size_t count;
            const char *datatype;
            int32_t root;
            void *stream;
            uint8_t captured; /* in a graph: nothing is launched now */
        } coll_api;
        struct {
            const char *func;
            size_t count;
            const char *datatype;
            void *stream;
            uint8_t captured;
        } p2p_api;
        struct {
            int32_t pid;
            uint8_t channel;
            int32_t peer;
            int32_t steps;
            int32_t chunk_bytes;
            int32_t is_send;
        } proxy_op;
        struct {
            int32_t step;
        } proxy_step;
    };
};

union nccl_state_args {
    struct {
        size_t transferred_bytes;
    } proxy_step;
};

typedef int (*nccl_init_v5)(void **ctx, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int nranks,
                            int rank, void *log);
typedef int (*nccl_init_v4)(void **ctx, int *mask, const char *comm_name, uint64_t comm_hash, int nodes, int nranks,
                            int rank, void *log);

struct nccl_profiler {
    const char *name;
    union {
        nccl_init_v5 v5;
        nccl_init_v4 v4;
    } init;
    int (*start_event)(void *ctx, void **handle, struct nccl_event_descriptor *event);
    int (*stop_event)(void *handle);
    int (*record_event_state)(void *handle, int state, union nccl_state_args *args);
    int (*finalize)(void *ctx);
};

#define AT(member, where) _Static_assert(offsetof(struct nccl_event_descriptor, member) == (where), #member)
AT(type, 0);
AT(parent, 8);
AT(rank, 16);
AT(coll.sequence, 24);
AT(coll.func, 32);
AT(coll.count, 56);
AT(coll.root, 64);
AT(coll.datatype, 72);
AT(coll.channels, 80);
AT(coll.algorithm, 88);
AT(coll.protocol, 96);
AT(p2p.func, 24);
AT(p2p.datatype, 40);
AT(p2p.count, 48);
AT(p2p.peer, 56);
AT(coll_api.func, 24);
AT(coll_api.count, 32);
AT(coll_api.datatype, 40);
AT(coll_api.captured, 64);
AT(p2p_api.func, 24);
AT(p2p_api.count, 32);
AT(p2p_api.datatype, 40);
AT(p2p_api.captured, 56);
AT(proxy_op.pid, 24);
AT(proxy_op.channel, 28);
AT(proxy_op.peer, 32);
AT(proxy_op.steps, 36);
AT(proxy_op.chunk_bytes, 40);
AT(proxy_op.is_send, 44);
AT(proxy_step.step, 24);
#undef AT
_Static_assert(sizeof(struct nccl_event_descriptor) == DESCRIPTOR_BYTES_V4, "what we read lies within version 4");
_Static_assert(offsetof(union nccl_state_args, proxy_step.transferred_bytes) == 0, "state args");
_Static_assert(sizeof(struct nccl_profiler) == 48, "exported struct");
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "LP64");

#endif
