/*
 * One shape for what carries the bytes: a wrapped plugin of whatever version, or our own TCP. The widest version's
 * shape, with both ways in which a configuration comes. Law: what a wrapped plugin does not have is NULL here, too.
 *
 *   NCCL ── exports.c, by version ── paced.c ── struct transport ── wrapped.c, by version ── their plugin
 *                                                               └─ ../tcp
 */
#ifndef PACELINE_TRANSPORT_H
#define PACELINE_TRANSPORT_H

#include "net_abi.h"

struct transport {
    const char *name;
    net_init_v11 *init;
    int (*devices)(int *count);
    int (*properties)(int device, struct net_properties_v12 *properties);
    net_listen_v11 *listen;
    int (*connect)(void *ctx, int device, struct net_config *config, void *handle, void **send_comm,
                   void **device_handle);
    NET_MEMORY net_isend_v10 *isend;
    net_irecv_v10 *irecv;
    NET_COMPLETION int (*make_virtual)(int *device, struct net_virtual_v12 *members);
    NET_CONTEXT
};

extern struct transport transport; /* chosen when the library is loaded, before NCCL looks at it */

/* wrapped.c: the plugin that is named; 0: it cannot be loaded, and *why says why. */
int wrap_plugin(const char *name, struct transport *transport, const char **why);
/* wrapped_old.c: versions 8 to 10 of a plugin that has no newer one. */
int wrap_old_plugin(void *library, struct transport *transport);

/* ../tcp/connect.c */
extern const struct transport tcp_transport;

/* paced.c: what of a transport NCCL does not reach directly. */
int paced_listen(void *ctx, int device, void *handle, void **listen_comm);
int paced_connect(void *ctx, int device, struct net_config *config, void *handle, void **send_comm,
                  void **device_handle);
net_isend_v10 paced_isend;
int paced_close_send(void *comm);

#endif
