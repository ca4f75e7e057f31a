/*
 * What NCCL finds: ncclNetPlugin_v12 … v8; it takes the newest that it knows. Law: before NCCL looks at them, the
 * structs are those of the transport that carries the bytes: its name, and NULL where it has no function. NCCL copies
 * them before it calls init, so this is done when the library is loaded.
 *
 *   PACELINE_NET_WRAPS=NAME    the plugin behind ours: a path, or libnccl-net-NAME.so; of several (commas) the first
 *                              that loads
 *   unset                      libnccl-net.so, which NCCL would load by itself, where there is one; else our own TCP
 *   none                       our own TCP
 *
 * A plugin that is named and cannot be loaded makes our init fail: NCCL goes on with its built-in transports, as it
 * would without us.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../page/page.h"
#include "convert.h"
#include "transport.h"

struct transport transport;
static void *context; /* of versions that have none */

/* ---- versions 11 and 12: as the transport has it ---- */

static int connect_v11(void *ctx, int device, void *handle, void **send_comm, void **device_handle) {
    return paced_connect(ctx, device, NULL, handle, send_comm, device_handle);
}

static int finalize(void *ctx) {
    return transport.finalize ? transport.finalize(ctx) : NET_OK;
}

static int properties_v11(int device, struct net_properties_v11 *properties) {
    struct net_properties_v12 wide = {0};
    int result = transport.properties(device, &wide);
    COPY_FROM_V9(properties, &wide);
    narrow_virtual(&properties->virtual_device, &wide.virtual_device);
    properties->most_multi_requests = wide.most_multi_requests;
    return result;
}

static int make_virtual_v9(int *device, struct net_virtual_v9 *members) {
    struct net_virtual_v12 wide;
    widen_virtual(&wide, members);
    return transport.make_virtual(device, &wide);
}

/* ---- versions 8 to 10: one context for the process ---- */

static int init_v10(void *log, void *profile) {
    struct net_config config = {NET_UNDEFINED};
    return context ? NET_OK : transport.init(&context, 0, &config, log, profile);
}

static int init_v8(void *log) {
    return init_v10(log, NULL);
}

static int properties_v9(int device, struct net_properties_v9 *properties) {
    struct net_properties_v12 wide = {0};
    int result = transport.properties(device, &wide);
    COPY_FROM_V9(properties, &wide);
    narrow_virtual(&properties->virtual_device, &wide.virtual_device);
    return result;
}

static int properties_v8(int device, struct net_properties_v8 *properties) {
    struct net_properties_v12 wide = {0};
    int result = transport.properties(device, &wide);
    COPY_COMMON(properties, &wide);
    return result;
}

static int listen_v8(int device, void *handle, void **listen_comm) {
    return paced_listen(context, device, handle, listen_comm);
}

static int connect_v10(int device, struct net_config *config, void *handle, void **send_comm, void **device_handle) {
    return paced_connect(context, device, config, handle, send_comm, device_handle);
}

static int connect_v8(int device, void *handle, void **send_comm, void **device_handle) {
    return paced_connect(context, device, NULL, handle, send_comm, device_handle);
}

static int isend_v9(void *comm, void *data, size_t bytes, int tag, void *memory, void **request) {
    return paced_isend(comm, data, bytes, tag, memory, NULL, request);
}

static int isend_v8(void *comm, void *data, int bytes, int tag, void *memory, void **request) {
    return bytes < 0 ? NET_INTERNAL_ERROR : paced_isend(comm, data, (size_t)bytes, tag, memory, NULL, request);
}

enum { MOST_GROUPED = 32 };

static int irecv_v9(void *comm, int n, void **data, size_t *bytes, int *tags, void **memories, void **request) {
    void *events[MOST_GROUPED] = {0};
    return n > MOST_GROUPED ? NET_INTERNAL_ERROR
                            : transport.irecv(comm, n, data, bytes, tags, memories, events, request);
}

static int irecv_v8(void *comm, int n, void **data, int *bytes, int *tags, void **memories, void **request) {
    size_t wide[MOST_GROUPED];
    if (n > MOST_GROUPED)
        return NET_INTERNAL_ERROR;
    for (int i = 0; i < n; i++)
        wide[i] = (size_t)bytes[i];
    return irecv_v9(comm, n, data, wide, tags, memories, request);
}

/* ---- the structs ---- */

#define EXPORT PLP_API
EXPORT struct net_v12 ncclNetPlugin_v12 = {.listen = paced_listen, .connect = connect_v11, .isend = paced_isend};
EXPORT struct net_v11 ncclNetPlugin_v11 = {.listen = paced_listen, .connect = connect_v11, .isend = paced_isend};
EXPORT struct net_v10 ncclNetPlugin_v10 = {.listen = listen_v8, .connect = connect_v10, .isend = paced_isend};
EXPORT struct net_v9 ncclNetPlugin_v9 = {.listen = listen_v8, .connect = connect_v8, .isend = isend_v9};
EXPORT struct net_v8 ncclNetPlugin_v8 = {.listen = listen_v8, .connect = connect_v8, .isend = isend_v8};

#define FILL(EXPORTED, INIT, PROPERTIES, IRECV)                                                                    \
    do {                                                                                                           \
        EXPORTED.name = transport.name;                                                                            \
        EXPORTED.init = INIT;                                                                                      \
        EXPORTED.devices = transport.devices;                                                                      \
        EXPORTED.properties = PROPERTIES;                                                                          \
        EXPORTED.accept = transport.accept;                                                                        \
        EXPORTED.register_memory = transport.register_memory;                                                      \
        EXPORTED.register_dmabuf = transport.register_dmabuf;                                                      \
        EXPORTED.deregister_memory = transport.deregister_memory;                                                  \
        EXPORTED.irecv = IRECV;                                                                                    \
        EXPORTED.iflush = transport.iflush;                                                                        \
        EXPORTED.test = transport.test;                                                                            \
        EXPORTED.close_send = paced_close_send;                                                                    \
        EXPORTED.close_receive = transport.close_receive;                                                          \
        EXPORTED.close_listen = transport.close_listen;                                                            \
        EXPORTED.device_memory = transport.device_memory;                                                          \
        EXPORTED.receive_consumed = transport.receive_consumed;                                                    \
    } while (0)

static int init_refused(void **ctx, uint64_t comm_id, struct net_config *config, void *log, void *profile) {
    (void)ctx, (void)comm_id, (void)config, (void)log, (void)profile;
    return NET_SYSTEM_ERROR;
}

static void choose_transport(void) {
    const char *named = getenv("PACELINE_NET_WRAPS"), *why;
    int told = named && *named, none = told && !strcasecmp(named, "none");
    if (!none && wrap_plugin(told ? named : "libnccl-net.so", &transport, &why))
        return;
    transport = tcp_transport;
    if (told && !none) {
        fprintf(stderr, "paceline: the net plugin %s is not used: %s; NCCL goes on without it\n", named, why);
        transport.init = init_refused;
    }
}

__attribute__((constructor)) static void loaded(void) {
    choose_transport();
    FILL(ncclNetPlugin_v12, transport.init, transport.properties, transport.irecv);
    FILL(ncclNetPlugin_v11, transport.init, properties_v11, transport.irecv);
    FILL(ncclNetPlugin_v10, init_v10, properties_v9, transport.irecv);
    FILL(ncclNetPlugin_v9, init_v8, properties_v9, irecv_v9);
    FILL(ncclNetPlugin_v8, init_v8, properties_v8, irecv_v8);
    ncclNetPlugin_v12.make_virtual = transport.make_virtual;
    ncclNetPlugin_v12.finalize = ncclNetPlugin_v11.finalize = finalize;
    ncclNetPlugin_v12.set_attributes = ncclNetPlugin_v11.set_attributes = transport.set_attributes;
    if (transport.make_virtual)
        ncclNetPlugin_v11.make_virtual = ncclNetPlugin_v10.make_virtual = ncclNetPlugin_v9.make_virtual =
            make_virtual_v9;
}
