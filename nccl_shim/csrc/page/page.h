/*
 * The page: what hostd tells this process, version 1. nccl_shim/page/ is the same in Python and has the laws;
 * tests compare the two. Law: nothing here fails, waits or believes what it reads.
 */
#ifndef PACELINE_PAGE_H
#define PACELINE_PAGE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define PLP_API __attribute__((visibility("default")))
#define PLP_PEER_BYTES 16

enum { PLP_OPEN = 0, PLP_HELD = 1, PLP_RATE = 2, PLP_ASK = 3 };
enum { PLP_VERSION = 1, PLP_MOST_ENTRIES = 4096, PLP_STALE_SLOTS = 5, PLP_HOLD_SLOTS = 2 };
#define PLP_MOST_HOLD_NS INT64_C(2000000000)
#define PLP_LEAST_SLOT_NS INT64_C(1000000)
#define PLP_MOST_SLOT_NS INT64_C(1000000000)
#define PLP_LEAST_RATE 125000.0
#define PLP_MOST_RATE 1e12

struct plp_header {
    char magic[8];
    uint32_t version;
    uint32_t size;
    uint64_t sequence;
    int64_t heartbeat_ns;
    int64_t slot_ns;
    uint32_t capacity;
    int32_t pid;
    uint64_t pid_start_ticks;
    uint64_t zero;
};

struct plp_bank {
    uint64_t sequence;
    uint32_t count;
    uint32_t checksum;
};

struct plp_entry {
    uint8_t peer[PLP_PEER_BYTES];
    uint32_t state;
    uint32_t zero;
    int64_t held_until_ns;
    double rate;
};

_Static_assert(sizeof(struct plp_header) == 64, "header");
_Static_assert(offsetof(struct plp_header, sequence) == 16, "sequence");
_Static_assert(offsetof(struct plp_header, heartbeat_ns) == 24, "heartbeat");
_Static_assert(offsetof(struct plp_header, pid_start_ticks) == 48, "start");
_Static_assert(sizeof(struct plp_bank) == 16, "bank");
_Static_assert(sizeof(struct plp_entry) == 40, "entry");
_Static_assert(offsetof(struct plp_entry, held_until_ns) == 24, "held until");

/* Until where it is held or asks, bytes per second where it is paced; slot_ns is 0 without a page. */
struct plp_answer {
    int32_t state;
    int32_t zero;
    int64_t until_ns;
    double rate;
    int64_t slot_ns;
};

/* ---- decision.c: pure ---- */

int plp_header_believed(const struct plp_header *header, int64_t now_ns);
/* `length` bytes of the bank that the believed header names. */
int plp_bank_believed(const struct plp_bank *bank, size_t length, const struct plp_header *header);
struct plp_answer plp_entry_answer(const struct plp_bank *bank, const uint8_t peer[PLP_PEER_BYTES], int64_t now_ns,
                                   int64_t slot_ns);
size_t plp_bank_bytes(uint32_t capacity);
size_t plp_bank_at(uint64_t sequence, uint32_t capacity);
/* What a whole page in memory says. */
PLP_API void plp_decide(const void *page, size_t length, const uint8_t peer[PLP_PEER_BYTES], int64_t now_ns,
                        struct plp_answer *answer);

/* ---- hold.c: pure ---- */

struct plp_hold {
    int64_t began_ns;
    int64_t limit_ns;
    int32_t state;
    int32_t spent;
};
PLP_API int64_t plp_hold_remaining(struct plp_hold *hold, const struct plp_answer *answer, int64_t now_ns);

/* ---- reader.c: the file ---- */

struct plp_reader {
    pthread_mutex_t lock;
    int file; /* -1: none */
    int pid;  /* of the process that opened it */
    int64_t retry_ns;
    int known; /* whether `bank` is that of `sequence` */
    uint64_t sequence;
    struct plp_bank *bank;
    uint64_t device, inode; /* of the file */
    char path[512];         /* empty: of this process, by its environment ... */
    char own[512];          /* ... when it first looked */
};
#define PLP_READER {PTHREAD_MUTEX_INITIALIZER, -1, 0, 0, 0, 0, NULL, 0, 0, "", ""}

PLP_API struct plp_reader *plp_open(const char *path); /* for tests; NULL: no memory */
PLP_API void plp_close(struct plp_reader *reader);
PLP_API void plp_look(struct plp_reader *reader, const uint8_t peer[PLP_PEER_BYTES], int64_t now_ns,
                      struct plp_answer *answer);
int64_t plp_now_ns(void);

#endif
