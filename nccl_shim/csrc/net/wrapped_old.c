/*
 * Plugins whose newest version is 8, 9 or 10. Law: their init is called once in a process, as NCCL of their time did;
 * the context that newer ones have is the communicator's configuration, which version 10 gets with connect.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "convert.h"
#include "transport.h"

enum { MOST_GROUPED = 32 }; /* receives in one call, more than any plugin offers */

static struct net_v10 *v10;
static struct net_v9 *v9;
static struct net_v8 *v8;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ready;

static int init(void **ctx, uint64_t comm_id, struct net_config *config, void *log, void *profile) {
    (void)comm_id;
    int result = NET_OK;
    pthread_mutex_lock(&lock);
    if (!ready) {
        result = v10 ? v10->init(log, profile) : v9 ? v9->init(log) : v8->init(log);
        ready = result == NET_OK;
    }
    pthread_mutex_unlock(&lock);
    if (result != NET_OK)
        return result;
    struct net_config *kept = malloc(sizeof *kept);
    if (!kept)
        return NET_SYSTEM_ERROR;
    kept->traffic_class = config ? config->traffic_class : NET_UNDEFINED;
    *ctx = kept;
    return NET_OK;
}

static int finalize(void *ctx) {
    free(ctx);
    return NET_OK;
}

static int properties_v9(int device, struct net_properties_v12 *properties) {
    struct net_properties_v9 theirs = {0};
    int result = v10 ? v10->properties(device, &theirs) : v9->properties(device, &theirs);
    COPY_FROM_V9(properties, &theirs);
    widen_virtual(&properties->virtual_device, &theirs.virtual_device);
    properties->most_multi_requests = 1;
    properties->rail = properties->plane = NET_UNDEFINED;
    return result;
}

static int properties_v8(int device, struct net_properties_v12 *properties) {
    struct net_properties_v8 theirs = {0};
    int result = v8->properties(device, &theirs);
    *properties = (struct net_properties_v12){.most_multi_requests = 1, .rail = NET_UNDEFINED, .plane = NET_UNDEFINED};
    COPY_COMMON(properties, &theirs);
    properties->virtual_device.count = 1;
    properties->virtual_device.devices[0] = device;
    properties->most_p2p_bytes = NET_MOST_BYTES_V8;
    properties->most_coll_bytes = NET_MOST_BYTES_V8 / 2;
    return result;
}

static int listen_old(void *ctx, int device, void *handle, void **listen_comm) {
    (void)ctx;
    net_listen_v8 *theirs = v10 ? v10->listen : v9 ? v9->listen : v8->listen;
    return theirs(device, handle, listen_comm);
}

static int connect_old(void *ctx, int device, struct net_config *config, void *handle, void **send_comm,
                       void **device_handle) {
    if (v10)
        return v10->connect(device, config ? config : ctx, handle, send_comm, device_handle);
    return (v9 ? v9->connect : v8->connect)(device, handle, send_comm, device_handle);
}

static int isend_v9(void *comm, void *data, size_t bytes, int tag, void *memory, void *event, void **request) {
    (void)event;
    return v9->isend(comm, data, bytes, tag, memory, request);
}

static int irecv_v9(void *comm, int n, void **data, size_t *bytes, int *tags, void **memories, void **events,
                    void **request) {
    (void)events;
    return v9->irecv(comm, n, data, bytes, tags, memories, request);
}

static int isend_v8(void *comm, void *data, size_t bytes, int tag, void *memory, void *event, void **request) {
    (void)event;
    return bytes > INT_MAX ? NET_INTERNAL_ERROR : v8->isend(comm, data, (int)bytes, tag, memory, request);
}

static int irecv_v8(void *comm, int n, void **data, size_t *bytes, int *tags, void **memories, void **events,
                    void **request) {
    (void)events;
    int narrow[MOST_GROUPED];
    if (n < 0 || n > MOST_GROUPED)
        return NET_INTERNAL_ERROR;
    for (int i = 0; i < n; i++) {
        if (bytes[i] > INT_MAX)
            return NET_INTERNAL_ERROR;
        narrow[i] = (int)bytes[i];
    }
    if (*request == (void *)1) /* "need not complete", which version 8 does not know */
        *request = NULL;
    return v8->irecv(comm, n, data, narrow, tags, memories, request);
}

static int make_virtual_v9(int *device, struct net_virtual_v12 *members) {
    struct net_virtual_v9 theirs;
    if (!narrow_virtual(&theirs, members))
        return NET_INTERNAL_ERROR;
    return (v10 ? v10->make_virtual : v9->make_virtual)(device, &theirs);
}

#define WRAP(PLUGIN)                                                                                               \
    do {                                                                                                           \
        transport->name = (PLUGIN)->name;                                                                          \
        transport->devices = (PLUGIN)->devices;                                                                    \
        transport->accept = (PLUGIN)->accept;                                                                      \
        transport->register_memory = (PLUGIN)->register_memory;                                                    \
        transport->register_dmabuf = (PLUGIN)->register_dmabuf;                                                    \
        transport->deregister_memory = (PLUGIN)->deregister_memory;                                                \
        transport->iflush = (PLUGIN)->iflush;                                                                      \
        transport->test = (PLUGIN)->test;                                                                          \
        transport->close_send = (PLUGIN)->close_send;                                                              \
        transport->close_receive = (PLUGIN)->close_receive;                                                        \
        transport->close_listen = (PLUGIN)->close_listen;                                                          \
        transport->device_memory = (PLUGIN)->device_memory;                                                        \
        transport->receive_consumed = (PLUGIN)->receive_consumed;                                                  \
    } while (0)

int wrap_old_plugin(void *library, struct transport *transport) {
    v10 = dlsym(library, "ncclNetPlugin_v10");
    v9 = v10 ? NULL : dlsym(library, "ncclNetPlugin_v9");
    v8 = v10 || v9 ? NULL : dlsym(library, "ncclNetPlugin_v8");
    if (v10) {
        WRAP(v10);
        transport->isend = v10->isend;
        transport->irecv = v10->irecv;
    } else if (v9) {
        WRAP(v9);
        transport->isend = isend_v9;
        transport->irecv = irecv_v9;
    } else if (v8) {
        WRAP(v8);
        transport->isend = isend_v8;
        transport->irecv = irecv_v8;
    } else {
        return 0;
    }
    transport->init = init;
    transport->finalize = finalize;
    transport->properties = v8 ? properties_v8 : properties_v9;
    transport->listen = listen_old;
    transport->connect = connect_old;
    if (!v8 && (v10 ? v10->make_virtual : v9->make_virtual))
        transport->make_virtual = make_virtual_v9;
    return 1;
}
