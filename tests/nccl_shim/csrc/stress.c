/*
 * Writers that make every torn or mixed read visible: stress PLUGIN SECONDS.
 * Three threads add 2^32 + 1 to counters, so both halves of a whole value are equal; one thread sends 7 bytes
 * per iteration on a fourth record, so a whole iteration counter has 7 bytes an iteration. A mapped C reader
 * checks it too and prints how many it read and how many were wrong.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../nccl_shim/csrc/core.h"

static struct pls_header *segment;
static atomic_int stop;
static const uint64_t BOTH_HALVES = (1ull << 32) + 1;

static void *add(void *number) {
    /* PLS_RECV: outside the iteration's sum. */
    struct pls_record *record = pls_find(segment, PLS_RECV, PLS_NCCL, 1, 0, 2, (int32_t)(intptr_t)number);
    while (!stop) {
        pls_enqueue(segment, record, BOTH_HALVES, BOTH_HALVES);
        pls_transmit(segment, record, 0, BOTH_HALVES);
    }
    return NULL;
}

static void *iterate(void *unused) {
    struct pls_record *record = pls_find(segment, PLS_PUSH, PLS_PS, 1, 0, 2, 1);
    while (!stop) {
        pls_enqueue(segment, record, 7, 7);
        pls_end_iteration(segment);
    }
    return unused;
}

static uint64_t reads, wrong, given_up;

static void *read_counter(void *unused) {
    uint64_t words[7];
    while (!stop) {
        if (!pls_read_iteration(segment, words)) {
            given_up++;
            continue;
        }
        reads++;
        wrong += words[3] != 7 * words[1] || (words[1] && words[5] != 7);
    }
    return unused;
}

int main(int argc, char **argv) {
    segment = pls_process();
    if (argc < 2 || !segment)
        return 1;
    pthread_t threads[5];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, add, (void *)(intptr_t)i);
    pthread_create(&threads[3], NULL, iterate, NULL);
    pthread_create(&threads[4], NULL, read_counter, NULL);
    puts("ready");
    fflush(stdout);
    usleep((useconds_t)(atof(argv[1]) * 1e6));
    stop = 1;
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    printf("{\"reads\": %lu, \"wrong\": %lu, \"given_up\": %lu}\n", reads, wrong, given_up);
    return 0;
}
