/*
 * The net plugin that the user named, behind ours. Law: each call reaches it as NCCL would have made it, in the newest
 * version that the plugin has; versions 8 to 10 are in wrapped_old.c.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "transport.h"

static struct net_v12 *newest;
static struct net_v11 *newer;

static int connect_v12(void *ctx, int device, struct net_config *config, void *handle, void **send_comm,
                       void **device_handle) {
    (void)config; /* its init has it */
    return newest->connect(ctx, device, handle, send_comm, device_handle);
}

static int connect_v11(void *ctx, int device, struct net_config *config, void *handle, void **send_comm,
                       void **device_handle) {
    (void)config;
    return newer->connect(ctx, device, handle, send_comm, device_handle);
}

static int properties_v11(int device, struct net_properties_v12 *properties) {
    struct net_properties_v11 theirs = {0};
    int result = newer->properties(device, &theirs);
    COPY_FROM_V9(properties, &theirs);
    widen_virtual(&properties->virtual_device, &theirs.virtual_device);
    properties->most_multi_requests = theirs.most_multi_requests;
    properties->rail = properties->plane = NET_UNDEFINED;
    return result;
}

static int make_virtual_v11(int *device, struct net_virtual_v12 *members) {
    struct net_virtual_v9 theirs;
    return narrow_virtual(&theirs, members) ? newer->make_virtual(device, &theirs) : NET_INTERNAL_ERROR;
}

/* What both have alike. */
#define WRAP(PLUGIN)                                                                                               \
    do {                                                                                                           \
        transport->name = (PLUGIN)->name;                                                                          \
        transport->init = (PLUGIN)->init;                                                                          \
        transport->devices = (PLUGIN)->devices;                                                                    \
        transport->listen = (PLUGIN)->listen;                                                                      \
        transport->accept = (PLUGIN)->accept;                                                                      \
        transport->register_memory = (PLUGIN)->register_memory;                                                    \
        transport->register_dmabuf = (PLUGIN)->register_dmabuf;                                                    \
        transport->deregister_memory = (PLUGIN)->deregister_memory;                                                \
        transport->isend = (PLUGIN)->isend;                                                                        \
        transport->irecv = (PLUGIN)->irecv;                                                                        \
        transport->iflush = (PLUGIN)->iflush;                                                                      \
        transport->test = (PLUGIN)->test;                                                                          \
        transport->close_send = (PLUGIN)->close_send;                                                              \
        transport->close_receive = (PLUGIN)->close_receive;                                                        \
        transport->close_listen = (PLUGIN)->close_listen;                                                          \
        transport->device_memory = (PLUGIN)->device_memory;                                                        \
        transport->receive_consumed = (PLUGIN)->receive_consumed;                                                  \
        transport->finalize = (PLUGIN)->finalize;                                                                  \
        transport->set_attributes = (PLUGIN)->set_attributes;                                                      \
    } while (0)

static int wrap_library(void *library, struct transport *transport) {
    *transport = (struct transport){0};
    newest = dlsym(library, "ncclNetPlugin_v12");
    newer = dlsym(library, "ncclNetPlugin_v11");
    if (newest) {
        WRAP(newest);
        transport->properties = newest->properties;
        transport->connect = connect_v12;
        transport->make_virtual = newest->make_virtual;
        return 1;
    }
    if (newer) {
        WRAP(newer);
        transport->properties = properties_v11;
        transport->connect = connect_v11;
        transport->make_virtual = newer->make_virtual ? make_virtual_v11 : NULL;
        return 1;
    }
    return wrap_old_plugin(library, transport);
}

extern struct net_v12 ncclNetPlugin_v12;

static void *open_plugin(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    char file[256];
    if (!library && !strchr(name, '/') && snprintf(file, sizeof file, "libnccl-net-%s.so", name) < (int)sizeof file)
        library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return library;
}

int wrap_plugin(const char *names, struct transport *transport, const char **why) {
    char list[1024];
    *why = "its name is too long";
    if (snprintf(list, sizeof list, "%s", names) >= (int)sizeof list)
        return 0;
    *why = "no name";
    for (char *rest, *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        void *library = open_plugin(name);
        if (!library)
            *why = "it cannot be opened";
        else if (dlsym(library, "ncclNetPlugin_v12") == &ncclNetPlugin_v12)
            *why = "it is this library itself";
        else if (wrap_library(library, transport))
            return 1;
        else
            *why = "it has no net interface of the versions 8 to 12";
    }
    return 0;
}
