/*
 * The writer's core: create a segment, find a record, add to it, end an iteration.
 * Law: every function tolerates NULL, returns nothing that a training job must check, and blocks on no lock
 * once a record exists.
 */
#ifndef PACELINE_CORE_H
#define PACELINE_CORE_H

#include <stddef.h>

#include "paceline_shm.h"

#define PLS_ABI 4
#define PLS_API __attribute__((visibility("default")))

struct pls_identity {
    char job[PLS_JOB_BYTES];
    char dir[256];
    char socket[108]; /* of hostd; empty: none, counters go into a file in dir */
    int32_t global_rank;
    int32_t world_size;
    int32_t local_rank;
    uint32_t role;
};

/* identity.c: job, ranks and directory out of the environment (launcher, torchrun, Slurm, MPI, Kubernetes). */
PLS_API void pls_identity_from_env(struct pls_identity *identity);
/* PACELINE_WEIGHT in thousandths: a number such as 2 or 0.25, or a class; 0: none, or no such thing. */
PLS_API uint32_t pls_weight_milli_from_env(void);
PLS_API uint64_t pls_iterations_from_env(void);
/* job_name.c: the same on all hosts of a job. */
void pls_job_name_from_env(char text[PLS_JOB_BYTES]);

/* ---- segment.c: the file or memory; uses identity.c, core.c and registration.c ---- */

/* A new segment in identity->dir, or NULL with one line in `error`. Never unmapped: stray writers stay safe. */
PLS_API struct pls_header *pls_create(const struct pls_identity *identity, char *error, size_t error_bytes);
/* The segment of this process, created on first use; NULL after one warning line if that failed. */
PLS_API struct pls_header *pls_process(void);
/* The same, with an identity the caller knows better than the environment; the first caller wins. */
PLS_API struct pls_header *pls_process_as(const struct pls_identity *identity);
/* At most one line per process on standard error, prefixed "paceline: ". */
PLS_API void pls_warn_once(const char *message);
/* The same for something smaller: this process is observed, but not all of it. */
PLS_API void pls_note_once(const char *message);
int32_t pls_pid(void); /* cached getpid(), right after fork too */

/* ---- registration.c: handing memory to hostd ---- */

/* Memory that nothing but this map can write and nothing can resize; NULL with a reason. */
void *pls_memory(int *fd, const char **why);
/* A connection to hostd's socket; -1 with errno, EAGAIN if hostd is there and busy. */
int pls_connect(const char *path);
/* This process's memory is to be registered at `path`, now through `connection` (-1: later), and again whenever
 * hostd has gone and come back. */
void pls_register(const char *path, int memory, int connection, uint64_t now_ns);
/* Looks after the connection; called by whichever thread counts when it is due. Never waits. */
void pls_tend(uint64_t now_ns);
void pls_forget_registration(void); /* in a forked child: it is the parent's */
extern _Atomic uint64_t pls_tend_ns; /* when pls_tend is due */

/* ---- core.c: counting; uses registration.c once a second ---- */

PLS_API int pls_abi_version(void);
PLS_API struct pls_record *pls_find(struct pls_header *header, uint32_t kind, uint32_t source, uint64_t comm_id,
                                    int32_t rank, int32_t nranks, int32_t peer);
struct pls_record *pls_overflow(struct pls_header *header); /* record 0 */
PLS_API void pls_enqueue(struct pls_header *header, struct pls_record *record, uint64_t bytes,
                         uint64_t expected_tx_bytes);
PLS_API void pls_transmit(struct pls_header *header, struct pls_record *record, uint64_t tx_bytes,
                          uint64_t rx_bytes);
/* Where bytes for this address are counted; NULL: no record is left. */
PLS_API struct pls_record *pls_find_address(struct pls_header *header, const uint8_t address[PLS_ADDRESS_BYTES]);
/* A launch or a send waits for its turn since then; 0: none does any more. */
PLS_API void pls_hold(struct pls_header *header, uint64_t since_ns);
PLS_API void pls_close_record(struct pls_record *record);
/* Ends the current iteration and starts the next; returns the number finished so far. */
PLS_API uint64_t pls_end_iteration(struct pls_header *header);
/* The first iteration starts here: what was moved until now prepared it. Nothing once an iteration has ended. */
PLS_API void pls_begin_iterations(struct pls_header *header);
PLS_API void pls_finish(struct pls_header *header);
/* seq, iteration, start_ns, enqueued_at_start, tx_at_start, last_enqueued, last_duration_ns; 0 when torn. */
PLS_API int pls_read_iteration(const struct pls_header *header, uint64_t out[7]);
void pls_reset_lock_in_child(void); /* a thread may have held it when the process forked */
uint64_t pls_now_ns(void);
uint64_t pls_check(const uint64_t words[7]);

#endif
