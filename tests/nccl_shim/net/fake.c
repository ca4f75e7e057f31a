/*
 * A net plugin of version VERSION (8 to 12) that carries nothing: it notes what it is told in `fake`, for the test.
 * -DFULL_HANDLE: it uses all of the handle; -DBARE: it lacks what plugins may lack. Declares the interface itself.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct {
    long inits, finalizes, attributes, closed;
    long long comm_id, config, connect_config, device, bytes, tag, receive_bytes, receive_tag, members;
    void *context, *send_comm, *memory, *event, *receive_event, *request;
    unsigned char connect_handle[128];
} fake;

static int comms[2], busy = 0, connects;

#if VERSION >= 11
static int init(void **ctx, uint64_t id, int *config, void *log, void *profile) {
    (void)log, (void)profile;
    *ctx = fake.context = &comms[1];
    fake.comm_id = (long long)id;
    fake.config = *config;
    fake.inits++;
    return 0;
}
#elif VERSION == 10
static int init(void *log, void *profile) { (void)log, (void)profile; fake.inits++; return 0; }
#else
static int init(void *log) { (void)log; fake.inits++; return 0; }
#endif

static int devices(int *count) { *count = 3; return 0; }

struct properties {
    char *name, *pci;
    uint64_t guid;
    int pointers, global;
#if VERSION >= 9
    int flush;
#endif
    int speed, port;
    float latency;
    int comms, receives, type, version;
#if VERSION >= 9
    int count, members[VERSION >= 12 ? 8 : 4];
    size_t p2p, coll;
#endif
#if VERSION >= 11
    int multi;
#endif
#if VERSION >= 12
    int16_t rail, plane;
#endif
};

static int properties(int device, struct properties *p) {
    memset(p, 0, sizeof *p);
    p->name = "fake0";
    p->pci = "/sys/fake";
    p->guid = 0x1234567890abcdefULL + (uint64_t)device;
    p->pointers = 7;
    p->global = 1;
    p->speed = 400000;
    p->port = 2;
    p->latency = 1.5f;
    p->comms = 99;
    p->receives = 8;
    p->type = 1;
    p->version = 7;
#if VERSION >= 9
    p->flush = 1;
    p->count = 2;
    p->members[0] = 4;
    p->members[1] = 5;
    p->p2p = (size_t)1 << 35;
    p->coll = (size_t)1 << 34;
#endif
#if VERSION >= 11
    p->multi = 6;
#endif
#if VERSION >= 12
    p->rail = 3;
    p->plane = 4;
#endif
    return 0;
}

static int listened(int device, void *handle, void **comm) {
    fake.device = device;
    memset(handle, 0, 64);
    memcpy(handle, "fake handle", 11);
#ifdef FULL_HANDLE
    memset(handle, 0x77, 128);
#endif
    *comm = &comms[0];
    return 0;
}

/* Done at the second call, as transports are. */
static int connected(int device, void *handle, void **comm) {
    fake.device = device;
    memcpy(fake.connect_handle, handle, 128);
    *comm = connects++ % 2 ? &comms[0] : NULL;
    fake.send_comm = *comm;
    return 0;
}

#if VERSION >= 11
static int listen(void *ctx, int device, void *handle, void **comm) {
    fake.context = ctx;
    return listened(device, handle, comm);
}
static int connect(void *ctx, int device, void *handle, void **comm, void **offload) {
    (void)offload;
    fake.context = ctx;
    return connected(device, handle, comm);
}
#else
static int listen(int device, void *handle, void **comm) { return listened(device, handle, comm); }
#if VERSION == 10
static int connect(int device, int *config, void *handle, void **comm, void **offload) {
    (void)offload;
    fake.connect_config = *config;
    return connected(device, handle, comm);
}
#else
static int connect(int device, void *handle, void **comm, void **offload) {
    (void)offload;
    return connected(device, handle, comm);
}
#endif
#endif

static int accepted(void *l, void **comm, void **offload) { (void)l, (void)offload; *comm = &comms[1]; return 0; }
static int reg(void *c, void *data, size_t bytes, int type, void **memory) {
    (void)c, (void)bytes, (void)type;
    *memory = data;
    return 0;
}
#ifndef BARE
static int dmabuf(void *c, void *d, size_t n, int t, uint64_t o, int fd, void **m) {
    (void)c, (void)n, (void)t, (void)o, (void)fd;
    *m = d;
    return 0;
}
static int device_memory(void *c, void *m, void **d) { (void)c; *d = m; return 0; }
static int consumed(void *c, int n, void *r) { (void)c, (void)n, (void)r; return 0; }
#else
#define dmabuf NULL
#define device_memory NULL
#define consumed NULL
#endif
static int dereg(void *c, void *m) { (void)c, (void)m; return 0; }

static int sent(void *comm, size_t bytes, int tag, void *memory, void *event, void **request) {
    fake.send_comm = comm;
    fake.bytes = (long long)bytes;
    fake.tag = tag;
    fake.memory = memory;
    fake.event = event;
    *request = fake.request = busy++ ? &busy : NULL; /* busy at first */
    return 0;
}
static int received(size_t bytes, int tag, void *event, void **request) {
    fake.receive_bytes = (long long)bytes;
    fake.receive_tag = tag;
    fake.receive_event = event;
    *request = &busy;
    return 0;
}

#if VERSION >= 10
static int isend(void *c, void *d, size_t n, int tag, void *m, void *event, void **r) {
    (void)d;
    return sent(c, n, tag, m, event, r);
}
static int irecv(void *c, int n, void **d, size_t *bytes, int *tags, void **m, void **events, void **r) {
    (void)c, (void)n, (void)d, (void)m;
    return received(bytes[0], tags[0], events[0], r);
}
#elif VERSION == 9
static int isend(void *c, void *d, size_t n, int tag, void *m, void **r) {
    (void)d;
    return sent(c, n, tag, m, NULL, r);
}
static int irecv(void *c, int n, void **d, size_t *bytes, int *tags, void **m, void **r) {
    (void)c, (void)n, (void)d, (void)m;
    return received(bytes[0], tags[0], NULL, r);
}
#else
static int isend(void *c, void *d, int n, int tag, void *m, void **r) {
    (void)d;
    return sent(c, (size_t)n, tag, m, NULL, r);
}
static int irecv(void *c, int n, void **d, int *bytes, int *tags, void **m, void **r) {
    (void)c, (void)n, (void)d, (void)m;
    return received((size_t)bytes[0], tags[0], NULL, r);
}
#endif

static int iflush(void *c, int n, void **d, int *b, void **m, void **r) {
    (void)c, (void)n, (void)d, (void)b, (void)m;
    *r = &busy;
    return 0;
}
static int tested(void *request, int *done, int *bytes) { (void)request; *done = 1; *bytes = 4242; return 0; }
static int closed(void *c) { (void)c; fake.closed++; return 0; }

#if VERSION >= 9 && !defined BARE
static int make_virtual(int *device, int *members) {
    *device = 9;
    fake.members = members[0] * 100 + members[1] * 10 + members[2];
    return 0;
}
#endif
#if VERSION >= 11
static int finalize(void *ctx) { (void)ctx; fake.finalizes++; return 0; }
static int attributes(void *ctx, void *a) { (void)ctx, (void)a; fake.attributes++; return 0; }
#endif

#define JOINED(A, B) A##B
#define NAMED(VERSION) JOINED(ncclNetPlugin_v, VERSION)
void *NAMED(VERSION)[] = {
    "Fake", init, devices, properties, listen, connect, accepted, reg, dmabuf, dereg, isend, irecv, iflush, tested,
    closed, closed, closed, device_memory, consumed,
#if VERSION >= 9
#ifdef BARE
    NULL,
#else
    make_virtual,
#endif
#endif
#if VERSION >= 11
    finalize, attributes,
#endif
};
