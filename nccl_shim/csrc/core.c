/* Counting: the hot path. Law: relaxed atomic adds into mapped memory, one vDSO clock read, nothing
 * else but a look at hostd's connection, once a second. */
#define _GNU_SOURCE
#include "core.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define ADD(field, amount) atomic_fetch_add_explicit(&(field), (amount), memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

int pls_abi_version(void) { return PLS_ABI; }

uint64_t pls_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static struct pls_record *records_of(struct pls_header *header) {
    return (struct pls_record *)((char *)header + PLS_HEADER_BYTES);
}

static int same_flow(const struct pls_record *record, uint32_t kind, uint32_t source, uint64_t comm_id,
                     int32_t rank, int32_t peer) {
    return record->kind == kind && record->source == source && record->comm_id == comm_id &&
           record->rank == rank && record->peer == peer;
}

/* Slow path, once per flow: callers keep the pointer. The lock is private to the process, so a killed writer
 * cannot leave it held for another process. */
static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;

void pls_reset_lock_in_child(void) { pthread_mutex_init(&claiming, NULL); }

struct pls_record *pls_find(struct pls_header *header, uint32_t kind, uint32_t source, uint64_t comm_id,
                            int32_t rank, int32_t nranks, int32_t peer) {
    if (!header)
        return NULL;
    struct pls_record *records = records_of(header), *found = NULL;
    pthread_mutex_lock(&claiming);
    uint32_t claimed = GET(header->records_claimed);
    for (uint32_t i = 1; i < claimed && !found; i++)
        if (same_flow(&records[i], kind, source, comm_id, rank, peer))
            found = &records[i];
    if (found) {
        SET(found->state, PLS_PUBLISHED);
    } else if (claimed < PLS_RECORD_COUNT) {
        found = &records[claimed];
        found->kind = kind;
        found->source = source;
        found->comm_id = comm_id;
        found->rank = rank;
        found->nranks = nranks;
        found->peer = peer;
        atomic_store_explicit(&found->state, PLS_PUBLISHED, memory_order_release);
        atomic_store_explicit(&header->records_claimed, claimed + 1, memory_order_release);
    } else {
        ADD(header->dropped_records, 1);
        /* Inbound bytes must not enter the outbound overflow sum: those are not counted at all. */
        found = kind == PLS_RECV || kind == PLS_PULL ? NULL : &records[0];
    }
    pthread_mutex_unlock(&claiming);
    return found;
}

struct pls_record *pls_overflow(struct pls_header *header) { return header ? records_of(header) : NULL; }

void pls_enqueue(struct pls_header *header, struct pls_record *record, uint64_t bytes, uint64_t expected_tx_bytes) {
    if (!header || !record)
        return;
    uint64_t now_ns = pls_now_ns();
    ADD(record->expected_tx_bytes, expected_tx_bytes);
    ADD(record->enqueued_bytes, bytes);
    ADD(record->enqueued_ops, 1);
    SET(record->enqueued_ns, now_ns);
    SET(header->heartbeat_ns, now_ns);
    if (now_ns >= GET(pls_tend_ns))
        pls_tend(now_ns);
}

void pls_transmit(struct pls_header *header, struct pls_record *record, uint64_t tx_bytes, uint64_t rx_bytes) {
    if (!header || !record)
        return;
    uint64_t now_ns = pls_now_ns();
    if (tx_bytes) {
        ADD(record->tx_bytes, tx_bytes);
        ADD(record->tx_steps, 1);
    }
    if (rx_bytes) {
        ADD(record->rx_bytes, rx_bytes);
        ADD(record->rx_steps, 1);
    }
    SET(record->transmit_ns, now_ns);
    SET(header->heartbeat_ns, now_ns);
}

struct pls_record *pls_find_address(struct pls_header *header, const uint8_t address[PLS_ADDRESS_BYTES]) {
    static const uint8_t none[PLS_ADDRESS_BYTES];
    uint64_t halves[2];
    memcpy(halves, address, sizeof halves);
    uint64_t mixed = (halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
    struct pls_record *record = pls_find(header, PLS_ADDRESS, PLS_NCCL, mixed, -1, 0, -1);
    if (!record || record->kind != PLS_ADDRESS)
        return NULL;
    if (memcmp(record->address, none, sizeof none) == 0)
        memcpy(record->address, address, sizeof none);
    return memcmp(record->address, address, sizeof none) == 0 ? record : NULL;
}

void pls_hold(struct pls_header *header, uint64_t since_ns) {
    if (!header)
        return;
    SET(header->held_ns, since_ns);
    SET(header->heartbeat_ns, pls_now_ns());
}

void pls_close_record(struct pls_record *record) {
    if (record)
        atomic_store_explicit(&record->state, PLS_CLOSED, memory_order_release);
}

uint64_t pls_check(const uint64_t words[7]) {
    uint64_t mixed = PLS_MAGIC;
    for (int i = 0; i < 7; i++) {
        mixed = (mixed ^ words[i]) * 0x9e3779b97f4a7c15ull;
        mixed ^= mixed >> 32;
    }
    return mixed;
}

/* The next iteration starts now, and `ended` (0 or 1) have ended with that; returns the number finished so far. */
static uint64_t start_iteration(struct pls_header *header, uint64_t ended) {
    struct pls_iteration *counter = &header->iteration;
    uint64_t enqueued = 0, tx = 0, now_ns = pls_now_ns();
    uint32_t claimed = atomic_load_explicit(&header->records_claimed, memory_order_acquire);
    struct pls_record *records = records_of(header);
    for (uint32_t i = 0; i < claimed; i++) {
        if (records[i].kind < PLS_RECV)
            enqueued += GET(records[i].enqueued_bytes);
        tx += GET(records[i].tx_bytes);
    }
    /* Two threads that end an iteration at once end one: the second leaves instead of waiting. */
    uint64_t seq = GET(counter->seq);
    if (seq & 1 || !atomic_compare_exchange_strong_explicit(&counter->seq, &seq, seq + 1, memory_order_relaxed,
                                                            memory_order_relaxed))
        return GET(counter->iteration);
    atomic_thread_fence(memory_order_release);
    uint64_t start_ns = GET(counter->start_ns);
    uint64_t words[7] = {seq + 2, GET(counter->iteration) + ended, now_ns, enqueued, tx};
    words[5] = ended ? enqueued - GET(counter->enqueued_at_start) : GET(counter->last_enqueued);
    words[6] = ended ? now_ns - start_ns : GET(counter->last_duration_ns);
    SET(counter->iteration, words[1]);
    SET(counter->start_ns, words[2]);
    SET(counter->enqueued_at_start, words[3]);
    SET(counter->tx_at_start, words[4]);
    SET(counter->last_enqueued, words[5]);
    SET(counter->last_duration_ns, words[6]);
    SET(counter->check, pls_check(words));
    atomic_store_explicit(&counter->seq, seq + 2, memory_order_release);
    SET(header->heartbeat_ns, now_ns);
    if (now_ns >= GET(pls_tend_ns))
        pls_tend(now_ns);
    return words[1];
}

uint64_t pls_end_iteration(struct pls_header *header) { return header ? start_iteration(header, 1) : 0; }

void pls_begin_iterations(struct pls_header *header) {
    if (header && GET(header->iteration.iteration) == 0)
        start_iteration(header, 0);
}

void pls_finish(struct pls_header *header) {
    if (header)
        atomic_fetch_or_explicit(&header->flags, PLS_FINISHED, memory_order_release);
}

int pls_read_iteration(const struct pls_header *shared, uint64_t out[7]) {
    struct pls_iteration *counter = &((struct pls_header *)shared)->iteration;
    for (int attempt = 0; attempt < 64; attempt++) {
        out[0] = atomic_load_explicit(&counter->seq, memory_order_acquire);
        out[1] = GET(counter->iteration);
        out[2] = GET(counter->start_ns);
        out[3] = GET(counter->enqueued_at_start);
        out[4] = GET(counter->tx_at_start);
        out[5] = GET(counter->last_enqueued);
        out[6] = GET(counter->last_duration_ns);
        uint64_t check = GET(counter->check);
        atomic_thread_fence(memory_order_acquire);
        if (!(out[0] & 1) && GET(counter->seq) == out[0] && check == pls_check(out))
            return 1;
    }
    return 0;
}
