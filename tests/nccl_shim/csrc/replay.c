/*
 * Replays NCCL's calls on the plugin: replay PLUGIN SCENARIO [NUMBER].
 *
 * Descriptors are written byte by byte at the offsets NCCL uses, not through the plugin's own structs, so that
 * a wrong struct is a wrong count. Every return value must be 0; anything else ends with status 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 1, COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16, NET_PLUGIN = 0x80, GROUP_API = 0x100, COLL_API = 0x200, P2P_API = 0x400 };
enum { STALE = 0x7fffffff }; /* what transSize holds at the states where it means nothing */
#define UNWRITTEN ((void *)0x5eed5eed5eed) /* a plugin that forgets an output is caught */

struct plugin {
    const char *name;
    int (*init)(void **, ...);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};

static const struct plugin *plugin;
static int version = 5;
static void *library;

static void must(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "replay: %s\n", what);
        exit(1);
    }
}

static void put(char *event, size_t at, const void *value, size_t size) { memcpy(event + at, value, size); }
static void put32(char *event, size_t at, int32_t value) { put(event, at, &value, 4); }
static void put64(char *event, size_t at, uint64_t value) { put(event, at, &value, 8); }
static void put_text(char *event, size_t at, const char *text) { put(event, at, &text, 8); }

static void *start(void *ctx, uint64_t type, void *parent, char *event) {
    void *handle = UNWRITTEN;
    if (version >= 5)
        put64(event, 0, type);
    else {
        memset(event, 0xee, 8); /* only the first byte is the type */
        event[0] = (char)type;
    }
    put(event, 8, &parent, 8);
    must(plugin->start(ctx, &handle, event) == 0, "startEvent returned an error");
    must(handle != UNWRITTEN, "startEvent left the handle unwritten");
    return handle;
}

static void stop(void *handle) { must(plugin->stop(handle) == 0, "stopEvent returned an error"); }

static void record(void *handle, int state, size_t size) {
    size_t args[4] = {size, 0, 0, 0};
    must(plugin->record(handle, state, args) == 0, "recordEventState returned an error");
}

static void *init(uint64_t comm, int nranks, int rank, int *mask) {
    void *ctx = UNWRITTEN;
    int rc = version >= 5
                 ? ((int (*)(void **, uint64_t, int *, const char *, int, int, int, void *))plugin->init)(
                       &ctx, comm, mask, "comm", 2, nranks, rank, NULL)
                 : ((int (*)(void **, int *, const char *, uint64_t, int, int, int, void *))plugin->init)(
                       &ctx, mask, "comm", comm, 2, nranks, rank, NULL);
    must(rc == 0 && ctx != UNWRITTEN, "init failed or left the context unwritten");
    return ctx;
}

static void *coll_of(void *ctx, void *parent, void *group, const char *func, size_t count, const char *datatype) {
    char event[112] = {0};
    if (version >= 5)
        put(event, 104, &group, 8);
    put_text(event, 32, func);
    put64(event, 56, count);
    put_text(event, 72, datatype);
    event[80] = 2;
    put_text(event, 88, "RING");
    put_text(event, 96, "SIMPLE");
    return start(ctx, COLL, parent, event);
}

static void *coll(void *ctx, void *parent, const char *func, size_t count, const char *datatype) {
    return coll_of(ctx, parent, NULL, func, count, datatype);
}

static void p2p(void *ctx, const char *func, size_t count, const char *datatype, int peer) {
    char event[112] = {0};
    put_text(event, 24, func);
    put_text(event, 40, datatype);
    put64(event, 48, count);
    put32(event, 56, peer);
    stop(start(ctx, P2P, NULL, event));
}

static void *proxy_op(void *ctx, void *parent, int32_t pid, int channel, int peer, int is_send) {
    char event[112] = {0};
    put32(event, 24, pid);
    event[28] = (char)channel;
    put32(event, 32, peer);
    put32(event, 36, 4);
    put32(event, 40, 1 << 19);
    put32(event, 44, is_send);
    return start(ctx, PROXY_OP, parent, event);
}

/* The states of one step in NCCL's order; only one of them carries the true size. */
static void step(void *ctx, void *op, int number, int is_send, size_t size) {
    char event[112] = {0};
    put32(event, 24, number);
    void *handle = start(ctx, PROXY_STEP, op, event);
    if (is_send) {
        record(handle, 8, STALE);
        record(handle, 20, STALE);
        record(handle, 20, STALE);
        record(handle, 9, size);
    } else {
        record(handle, 10, STALE);
        record(handle, 11, size);
    }
    stop(handle);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The call of an all-reduce, which NCCL reports before it launches anything. */
static void *coll_api(void *ctx, void *parent, size_t count, int captured) {
    char event[112] = {0};
    put_text(event, 24, "AllReduce");
    put64(event, 32, count);
    put_text(event, 40, "ncclFloat32");
    event[64] = (char)captured;
    return start(ctx, COLL_API, parent, event);
}

/* One all-reduce of `count` floats as NCCL reports it: API events, group, collective, then the proxy. */
static void all_reduce(void *ctx, size_t count, int peer) {
    char group_api[112] = {0}, group[112] = {0};
    void *parent = NULL, *api = NULL;
    if (version >= 5) {
        parent = start(ctx, GROUP_API, NULL, group_api);
        api = coll_api(ctx, parent, count, 0);
    }
    void *g = start(ctx, GROUP, parent, group);
    void *c = coll_of(ctx, version >= 5 ? api : g, g, "AllReduce", count, "ncclFloat32");
    stop(c);
    stop(g);
    if (version >= 5) {
        stop(api);
        stop(parent);
    }
    for (int is_send = 0; is_send < 2; is_send++) {
        void *op = proxy_op(ctx, c, getpid(), is_send, peer, is_send);
        for (int i = 0; i < 4; i++)
            step(ctx, op, i, is_send, count); /* 4 steps of count bytes: 4 * count in all */
        stop(op);
    }
}

static void finalize(void *ctx) { must(plugin->finalize(ctx) == 0, "finalize returned an error"); }

static void order(void) {
    int mask = 0;
    void *ctx = init(77, 2, 1, &mask);
    must(mask == (COLL | P2P | PROXY_STEP), "mask");
    for (int i = 0; i < 10; i++)
        all_reduce(ctx, 1000, 0);
    coll(ctx, NULL, "AllGather", 100, "ncclInt8");
    coll(ctx, NULL, "ReduceScatter", 100, "ncclBfloat16");
    coll(ctx, NULL, "Broadcast", 100, "Unknown");
    coll(ctx, NULL, "AllReduce", 100, "ncclFloat8e4m3");
    coll(ctx, NULL, "AllReduce", 100, "ncclUint64");
    p2p(ctx, "Send", 10, "ncclFloat16", 0);
    p2p(ctx, "Recv", 20, "ncclFloat64", 0);
    finalize(ctx);
}

static void chained_order(void) {
    int mask = 0;
    void *ctx = init(77, 2, 1, &mask);
    must(mask == (COLL | P2P | PROXY_STEP), "mask");
    for (int i = 0; i < 10; i++)
        all_reduce(ctx, 1000, 0);
    finalize(ctx);
}

/* The other plugin says what it wants once, for all communicators, and changes its mind later. */
static void chained_wishes(void) {
    int mask = 0; /* NCCL has one for all communicators */
    void *ctx = init(77, 2, 1, &mask);
    void *other = dlopen(getenv("NCCL_SHIM_CHAIN"), RTLD_NOW | RTLD_NOLOAD);
    must(other != NULL, "the other plugin is not there");
    void (*wants)(int) = (void (*)(int))dlsym(other, "chained_wants");
    wants(PROXY_STEP | NET_PLUGIN);
    void *second = init(77, 2, 1, &mask);
    must(mask == (COLL | P2P | PROXY_STEP | NET_PLUGIN), "the second communicator forgot what the other plugin wants");
    wants(0);
    all_reduce(second, 1000, 0);
    must(mask == (COLL | P2P | PROXY_STEP), "what it does not want any more is still asked for");
    wants(PROXY_STEP | NET_PLUGIN);
    all_reduce(ctx, 1000, 0);
    must(mask == (COLL | P2P | PROXY_STEP | NET_PLUGIN), "what it wants again is not asked for");
    finalize(second);
    finalize(ctx);
}

/* More communicators than we keep: the other plugin never sees a context that is not its own. */
static void chained_many(void) {
    int mask = 0;
    for (int i = 0; i < 520; i++) {
        void *ctx = init(77, 2, 1, &mask);
        all_reduce(ctx, 1000, 0);
        finalize(ctx);
    }
}

static void null_ctx(void) {
    int mask = 0;
    void *ctx = init(78, 2, 0, &mask);
    all_reduce(NULL, 1000, 1);
    p2p(NULL, "Send", 10, "ncclFloat16", 1);
    stop(NULL);
    record(NULL, 9, 1000);
    must(plugin->record(NULL, 9, NULL) == 0, "NULL args");
    char event[112] = {0};
    put64(event, 0, COLL);
    must(plugin->start(ctx, NULL, event) == 0, "NULL handle");
    void *handle = UNWRITTEN;
    must(plugin->start(ctx, &handle, NULL) == 0 && handle == NULL, "NULL descriptor");
    void *c = coll(ctx, NULL, NULL, 50, NULL); /* no function, no datatype */
    void *op = proxy_op(ctx, c, getpid(), 200, 1, 1);
    must(plugin->record(op, 9, NULL) == 0, "NULL args on a live handle");
    char odd[112] = {0};
    must(start(ctx, 0x80, op, odd) != UNWRITTEN, "an unknown kind"); /* NetPlugin and later kinds */
    char odder[112] = {0};
    if (version >= 5)
        stop(start(ctx, 1ull << 40, NULL, odder));
    finalize(NULL);
}

/* PXN: the operation belongs to another process, whose context pointer means nothing here. */
static void foreign(void) {
    int mask = 0;
    init(79, 4, 0, &mask);
    void *op = proxy_op((void *)0xdead0000, (void *)0xbeef0000, getpid() + 1, 0, 2, 1);
    for (int i = 0; i < 3; i++)
        step((void *)0xdead0000, op, i, 1, 500);
    stop(op);
}

static void *hammer(void *ctx) {
    for (int i = 0; i < 5000; i++) {
        all_reduce(ctx, 100, i % 100); /* more peers than the context's table holds */
        p2p(ctx, "Send", 1, "ncclFloat32", i % 100);
    }
    return NULL;
}

static void threads(void) {
    int mask = 0;
    void *ctx = init(80, 101, 100, &mask);
    pthread_t workers[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&workers[i], NULL, hammer, ctx);
    for (int i = 0; i < 8; i++)
        pthread_join(workers[i], NULL);
    finalize(ctx);
}

static void reinit(int times) {
    for (int i = 0; i < times; i++) {
        int mask = 0;
        void *ctx = init(1000 + (uint64_t)i, 2, 0, &mask);
        void *late = proxy_op(ctx, NULL, getpid(), 0, 1, 1);
        all_reduce(ctx, 10, 1);
        finalize(ctx);
        step(ctx, late, 0, 1, 7); /* a proxy thread that has not heard yet */
        coll(ctx, NULL, "AllReduce", 10, "ncclFloat32");
    }
}

static void many_peers(int peers) {
    int mask = 0;
    void *ctx = init(83, peers, 0, &mask);
    for (int peer = 0; peer < peers; peer++) {
        p2p(ctx, "Send", 1, "ncclFloat32", peer);
        p2p(ctx, "Recv", 1, "ncclFloat32", peer);
        void *op = proxy_op(ctx, NULL, getpid(), 0, peer, 1);
        step(ctx, op, 0, 1, 5);
    }
    finalize(ctx);
}

static void until_killed(void) {
    int mask = 0;
    void *ctx = init(81, 2, 0, &mask);
    void *(*process)(void) = (void *(*)(void))dlsym(library, "pls_process");
    uint64_t (*end_iteration)(void *) = (uint64_t(*)(void *))dlsym(library, "pls_end_iteration");
    for (;;) {
        coll(ctx, NULL, "AllReduce", 250, "ncclFloat32");
        end_iteration(process());
    }
}

static void timing(void) {
    enum { ROUNDS = 15, CALLS = 100000 };
    int mask = 0;
    void *ctx = init(82, 2, 0, &mask);
    double best_coll = 1e18, best_step = 1e18, best_clock = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double from = now_ns();
        for (int i = 0; i < CALLS; i++)
            now_ns();
        double clock = (now_ns() - from) / CALLS; /* the yardstick: what the machine takes to read its clock just now */
        best_clock = clock < best_clock ? clock : best_clock;
        from = now_ns();
        for (int i = 0; i < CALLS; i++)
            stop(coll(ctx, NULL, "AllReduce", 1000, "ncclFloat32"));
        double cost = (now_ns() - from) / CALLS;
        best_coll = cost < best_coll ? cost : best_coll;
        void *op = proxy_op(ctx, NULL, getpid(), 0, 1, 1);
        from = now_ns();
        for (int i = 0; i < CALLS; i++)
            step(ctx, op, i, 1, 1000);
        cost = (now_ns() - from) / CALLS;
        best_step = cost < best_step ? cost : best_step;
    }
    const char *found = "{\"ns_per_collective\": %.1f, \"ns_per_proxy_step\": %.1f, \"ns_per_clock\": %.1f}\n";
    printf(found, best_coll, best_step, best_clock);
}

#include "gate_scenario.h"

int main(int argc, char **argv) {
    must(argc >= 3, "usage: replay PLUGIN SCENARIO [NUMBER]");
    const char *asked = getenv("REPLAY_VERSION");
    version = asked ? atoi(asked) : 5;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    must(library != NULL, "cannot open the plugin");
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
    plugin = dlsym(library, symbol);
    must(plugin != NULL && plugin->name != NULL, "no profiler of that version");
    const char *scenario = argv[2];
    int number = argc > 3 ? atoi(argv[3]) : 1;
    if (strcmp(scenario, "order") == 0)
        order();
    else if (strcmp(scenario, "chained-order") == 0)
        chained_order();
    else if (strcmp(scenario, "chained-wishes") == 0)
        chained_wishes();
    else if (strcmp(scenario, "chained-many") == 0)
        chained_many();
    else if (strcmp(scenario, "null") == 0)
        null_ctx();
    else if (strcmp(scenario, "foreign") == 0)
        foreign();
    else if (strcmp(scenario, "threads") == 0)
        threads();
    else if (strcmp(scenario, "reinit") == 0)
        reinit(number);
    else if (strcmp(scenario, "many-peers") == 0)
        many_peers(number);
    else if (strcmp(scenario, "until-killed") == 0)
        until_killed();
    else if (strcmp(scenario, "gate") == 0)
        gate(argc > 3 ? number : 0);
    else if (strcmp(scenario, "timing") == 0)
        timing();
    else
        must(0, "no such scenario");
    return 0;
}
