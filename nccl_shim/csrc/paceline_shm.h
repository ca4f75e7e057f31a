/*
 * Shared-memory layout, version 1. Law: one file or memfd per process, written by that process alone, read by
 * any that may open it or was handed it; nccl_shim/segment/layout.py is its mirror and a test compares every offset.
 *
 * - Counters are independent, aligned, monotonic u64 atomics: no lock, so a writer killed at any instruction
 *   leaves nothing inconsistent. A reader may see bytes a moment before operations, never a torn value.
 * - A record is claimed once, published by a release store of its state and never given to another flow.
 * - Only the iteration counter needs several words at once: a seqlock, plus a check word so that a reader
 *   without memory barriers (plain Python on a weakly ordered CPU) also detects words of two iterations.
 * - `magic` is stored last with release order: a file without it does not exist yet.
 */
#ifndef PACELINE_SHM_H
#define PACELINE_SHM_H

#include <stdatomic.h>
#include <stdint.h>

#define PLS_MAGIC 0x314d485345434150ull /* "PACESHM1", little-endian */
#define PLS_VERSION 1u
#define PLS_HEADER_BYTES 256u
#define PLS_RECORD_BYTES 128u
#define PLS_RECORD_COUNT 1024u
#define PLS_FILE_BYTES (PLS_HEADER_BYTES + PLS_RECORD_COUNT * PLS_RECORD_BYTES)
#define PLS_JOB_BYTES 64u
#define PLS_ADDRESS_BYTES 16u

enum pls_source { PLS_NCCL = 1, PLS_TORCH = 2, PLS_PS = 3 };
enum pls_role { PLS_WORKER = 0, PLS_SERVER = 1 };
enum pls_flags { PLS_FINISHED = 1 };
enum pls_state { PLS_FREE = 0, PLS_PUBLISHED = 1, PLS_CLOSED = 2 };

/* Kinds below PLS_RECV leave this process, so they count towards an iteration; RECV and PULL come in. */
enum pls_kind {
    PLS_COLLECTIVE = 1, /* enqueued collectives of one communicator */
    PLS_SEND = 2,       /* enqueued point-to-point sends to one peer */
    PLS_PUSH = 3,       /* parameter server: bytes this process sends to one peer */
    PLS_OVERFLOW = 4,   /* record 0: what found no free record, so that sums stay exact */
    PLS_RECV = 5,
    PLS_PULL = 6,
    PLS_PROXY = 7,   /* transmit side only: what NCCL's proxy moved to and from one peer */
    PLS_FOREIGN = 8, /* transmit side only: moved by our proxy for another process (PXN) */
    PLS_ADDRESS = 9, /* enqueue side only: handed to the transport for one address, by the net plugin */
};

struct pls_iteration {
    _Atomic uint64_t seq;               /* odd while being written */
    _Atomic uint64_t iteration;         /* number of iterations finished */
    _Atomic uint64_t start_ns;          /* CLOCK_MONOTONIC when the last one ended, or the first began */
    _Atomic uint64_t enqueued_at_start; /* outbound enqueued bytes, all records, at start_ns */
    _Atomic uint64_t tx_at_start;       /* transmitted bytes, all records, at start_ns */
    _Atomic uint64_t last_enqueued;     /* bytes of the iteration that ended at start_ns */
    _Atomic uint64_t last_duration_ns;
    _Atomic uint64_t check; /* pls_check of the seven words above */
};

struct pls_header {
    _Atomic uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint32_t record_count;
    _Atomic uint32_t records_claimed;
    uint32_t role;
    int32_t pid; /* as the writer sees itself; see pid_namespace */
    uint32_t uid;
    uint64_t pid_start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid */
    uint64_t pid_namespace;   /* inode of /proc/self/ns/pid */
    int32_t global_rank;      /* -1 when unknown */
    int32_t world_size;       /* 0 when unknown */
    int32_t local_rank;       /* -1 when unknown */
    _Atomic uint32_t flags;
    uint64_t created_ns;
    _Atomic uint64_t heartbeat_ns; /* last event of any kind */
    uint32_t weight_milli; /* that the job asks for, in thousandths; 0: it asks for none */
    uint32_t writer; /* 1: this library, 2: pure Python */
    _Atomic uint64_t dropped_records;
    _Atomic uint64_t held_ns; /* since when a launch waits at the gate (page/launch_gate.c); 0: none does */
    uint64_t iterations; /* that the job says this process will do; 0: it does not say */
    uint64_t reserved[1];
    struct pls_iteration iteration;
    char job[PLS_JOB_BYTES];
};

struct pls_record {
    /* Enqueue side: one cache line, written by the threads that launch work. */
    _Atomic uint32_t state;
    uint32_t kind;
    uint64_t comm_id;
    int32_t rank;
    int32_t nranks;
    int32_t peer; /* rank inside the communicator; -1: all of them */
    uint32_t source;
    _Atomic uint64_t enqueued_bytes; /* payload, exact */
    _Atomic uint64_t enqueued_ops;
    _Atomic uint64_t expected_tx_bytes; /* what this rank should put on the wire for it, ring algorithm */
    _Atomic uint64_t enqueued_ns;
    /* Transmit side: its own cache line, written by proxy or completion threads. */
    _Atomic uint64_t tx_bytes;
    _Atomic uint64_t rx_bytes;
    _Atomic uint64_t tx_steps;
    _Atomic uint64_t rx_steps;
    _Atomic uint64_t channel_mask;
    _Atomic uint64_t transmit_ns;
    uint8_t address[PLS_ADDRESS_BYTES]; /* of PLS_ADDRESS: IPv6, or IPv4 within it; zeros until it is written */
};

_Static_assert(sizeof(struct pls_iteration) == 64, "iteration counter is one cache line");
_Static_assert(sizeof(struct pls_header) == PLS_HEADER_BYTES, "header size");
_Static_assert(sizeof(struct pls_record) == PLS_RECORD_BYTES, "record is two cache lines");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics must be lock-free to be shared");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "atomics carry no extra bytes");

#endif
