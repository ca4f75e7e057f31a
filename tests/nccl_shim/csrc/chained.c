/*
 * Another profiler plugin, for the chain: strict about its own handles and rude in its return values.
 * Writes "inits starts stops records finalizes wrong" to the file named by CHAINED_REPORT when it is unloaded.
 * Build with -DVERSION=4, 5 or 6.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int inits, starts, stops, records, finalizes, wrong;
static int live[200000]; /* a handle is the address of its own cell, which holds the event's type */
static _Atomic int used;
static int context_mark;
static int *kept_mask; /* as NVIDIA's example does: set at the first communicator, changed later */

static int is_ours(const void *handle) {
    return (const int *)handle >= live && (const int *)handle < live + used;
}

static int started(void *ctx, void **handle, char *event) {
    uint64_t type;
    void *parent;
    memcpy(&type, event, 8);
    memcpy(&parent, event + 8, 8);
    if (VERSION == 4)
        type &= 0xff;
    if (ctx != &context_mark || (parent && !is_ours(parent)))
        wrong++;
    if (type & 0x1a && !parent) /* a collective, a proxy operation or a step always has a parent here */
        wrong++;
    if (VERSION == 4 && type == 2 && parent && *(int *)parent != 1) /* which then was the group */
        wrong++;
    if (VERSION >= 5 && (type == 2 || type == 4)) { /* the group is still named, at another place */
        memcpy(&parent, event + (type == 2 ? 104 : 64), 8);
        wrong += parent && (!is_ours(parent) || *(int *)parent != 1);
    }
    if (type == 0x20 || type == 0x40) /* never asked for, nor an ancestor of what was */
        wrong++;
    int at = used++;
    live[at] = (int)type;
    *handle = &live[at];
    starts++;
    return 0;
}

static int stopped(void *handle) {
    stops++;
    wrong += !is_ours(handle);
    return 3;
}

static int recorded(void *handle, int state, void *args) {
    (void)state, (void)args;
    records++;
    wrong += !is_ours(handle) || *(int *)handle != 0x10;
    return 3;
}

static int finalized(void *ctx) {
    finalizes++;
    wrong += ctx != &context_mark;
    return 3;
}

#if VERSION >= 5
static int init(void **ctx, uint64_t comm, int *mask, const char *name, int nodes, int nranks, int rank, void *log) {
    (void)log;
    wrong += comm != 77 || nodes != 2 || nranks != 2 || rank != 1 || strcmp(name, "comm") != 0;
#else
static int init(void **ctx, int *mask, const char *name, uint64_t comm, int nodes, int nranks, int rank, void *log) {
    (void)log;
    wrong += comm != 77 || nodes != 2 || nranks != 2 || rank != 1 || strcmp(name, "comm") != 0;
#endif
    *ctx = &context_mark;
    if (inits++ == 0) {
        kept_mask = mask;
        *mask = 0x10;
    }
    return 0;
}

void chained_wants(int mask) { *kept_mask = mask; } /* its user has told it to */

__attribute__((destructor)) static void report(void) {
    FILE *file = fopen(getenv("CHAINED_REPORT"), "w");
    fprintf(file, "%d %d %d %d %d %d", inits, starts, stops, records, finalizes, wrong);
    fclose(file);
}

struct profiler {
    const char *name;
    void *functions[5];
};
#define SYMBOL_(v) ncclProfiler_v##v
#define SYMBOL(v) SYMBOL_(v)
const struct profiler SYMBOL(VERSION) = {"other", {(void *)init, (void *)started, (void *)stopped, (void *)recorded, (void *)finalized}};
