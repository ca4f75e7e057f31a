/* Devices, listening, connecting and accepting of our own transport. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../net/interfaces.h"
#include "tcp.h"

enum { STRANGERS = 8 }; /* connections that have not said hello: the oldest makes room */
static const char magic[8] = "PACETCP1";

/* What travels to the side that connects, which keeps its state there between calls. */
struct tcp_handle {
    struct tcp_hello hello;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    uint32_t address_bytes;
    int connecting; /* whether `socket` is one */
    int socket;
    uint32_t said; /* bytes of the hello */
};
_Static_assert(sizeof(struct tcp_handle) <= NET_HANDLE_BYTES - 24, "the end is the peer tag's");

struct tcp_listener {
    int socket;
    uint64_t secret;
    struct {
        int socket; /* -1: none */
        struct tcp_hello hello;
        size_t got;
    } strangers[STRANGERS];
    int next;
};

static int init(void **ctx, uint64_t comm_id, struct net_config *config, void *log, void *profile) {
    (void)comm_id, (void)config, (void)log, (void)profile;
    static int nothing;
    *ctx = &nothing;
    return NET_OK;
}

static int devices(int *count) {
    const struct interface *all;
    *count = interfaces(&all);
    return NET_OK;
}

static int properties(int device, struct net_properties_v12 *properties) {
    const struct interface *all;
    if (device < 0 || device >= interfaces(&all))
        return NET_INTERNAL_ERROR;
    *properties = (struct net_properties_v12){
        .name = (char *)all[device].name,
        .pci_path = all[device].pci_path,
        .guid = (uint64_t)device,
        .pointer_support = NET_POINTER_HOST,
        .speed_mbits = all[device].speed_mbits,
        .most_comms = 65536,
        .most_receives = 1,
        .virtual_device = {1, {device}},
        .most_p2p_bytes = NET_MOST_BYTES,
        .most_coll_bytes = NET_MOST_BYTES,
        .most_multi_requests = 1,
        .rail = NET_UNDEFINED,
        .plane = NET_UNDEFINED,
    };
    return NET_OK;
}

static int new_socket(int family) {
    int made = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (made >= 0)
        setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return made;
}

static int listen_at(void *ctx, int device, void *opaque, void **listen_comm) {
    (void)ctx;
    const struct interface *all;
    struct tcp_handle handle = {0};
    *listen_comm = NULL;
    if (device < 0 || device >= interfaces(&all))
        return NET_INTERNAL_ERROR;
    struct tcp_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return NET_SYSTEM_ERROR;
    for (int i = 0; i < STRANGERS; i++)
        listener->strangers[i].socket = -1;
    listener->socket = new_socket(all[device].address.any.sa_family);
    memcpy(&handle.address, &all[device].address, sizeof handle.address);
    socklen_t length = all[device].address_bytes;
    if (listener->socket < 0 || bind(listener->socket, &handle.address.any, length) ||
        listen(listener->socket, SOMAXCONN) || getsockname(listener->socket, &handle.address.any, &length) ||
        getrandom(&listener->secret, sizeof listener->secret, 0) != sizeof listener->secret) {
        if (listener->socket >= 0)
            close(listener->socket);
        free(listener);
        return NET_SYSTEM_ERROR;
    }
    memcpy(handle.hello.magic, magic, sizeof magic);
    handle.hello.secret = listener->secret;
    handle.address_bytes = length;
    memcpy(opaque, &handle, sizeof handle);
    *listen_comm = listener;
    return NET_OK;
}

static int give_up(struct tcp_handle *handle) {
    close(handle->socket);
    handle->connecting = 0;
    return NET_REMOTE_ERROR;
}

static int connect_to(void *ctx, int device, struct net_config *config, void *opaque, void **send_comm,
                      void **device_handle) {
    (void)ctx, (void)device, (void)config, (void)device_handle;
    struct tcp_handle *handle = opaque;
    *send_comm = NULL;
    if (memcmp(handle->hello.magic, magic, sizeof magic) || handle->address_bytes > sizeof handle->address)
        return NET_INTERNAL_ERROR; /* the other side uses another transport */
    if (!handle->connecting) {
        if ((handle->socket = new_socket(handle->address.any.sa_family)) < 0)
            return NET_SYSTEM_ERROR;
        handle->connecting = 1;
        handle->said = 0;
        if (connect(handle->socket, &handle->address.any, handle->address_bytes) && errno != EINPROGRESS)
            return give_up(handle);
    }
    struct pollfd writable = {handle->socket, POLLOUT, 0};
    int error = 0;
    socklen_t length = sizeof error;
    if (poll(&writable, 1, 0) < 1)
        return NET_OK; /* NCCL asks again */
    if (getsockopt(handle->socket, SOL_SOCKET, SO_ERROR, &error, &length) || error)
        return give_up(handle);
    ssize_t sent = send(handle->socket, (char *)&handle->hello + handle->said, sizeof handle->hello - handle->said,
                        MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? NET_OK : give_up(handle);
    handle->said += (uint32_t)sent;
    if (handle->said < sizeof handle->hello)
        return NET_OK;
    handle->connecting = 0;
    *send_comm = tcp_comm_of(handle->socket, 1);
    return *send_comm ? NET_OK : NET_SYSTEM_ERROR;
}

static void take_stranger(struct tcp_listener *listener, int socket) {
    int on = 1, at = listener->next++ % STRANGERS;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (listener->strangers[at].socket >= 0)
        close(listener->strangers[at].socket);
    listener->strangers[at].socket = socket;
    listener->strangers[at].got = 0;
}

/* Whether the stranger is the peer by now; one that says something else is sent away. */
static int said_hello(struct tcp_listener *listener, int at) {
    if (listener->strangers[at].socket < 0)
        return 0;
    struct tcp_hello *hello = &listener->strangers[at].hello;
    size_t got = listener->strangers[at].got;
    ssize_t more = recv(listener->strangers[at].socket, (char *)hello + got, sizeof *hello - got, MSG_DONTWAIT);
    if (more < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (more > 0 && (listener->strangers[at].got += (size_t)more) < sizeof *hello)
        return 0;
    if (more > 0 && !memcmp(hello->magic, magic, sizeof magic) && hello->secret == listener->secret)
        return 1;
    close(listener->strangers[at].socket);
    listener->strangers[at].socket = -1;
    return 0;
}

static int accept_from(void *listen_comm, void **receive_comm, void **device_handle) {
    (void)device_handle;
    struct tcp_listener *listener = listen_comm;
    *receive_comm = NULL;
    int socket = accept4(listener->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0)
        take_stranger(listener, socket);
    else if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK)
        return NET_SYSTEM_ERROR;
    for (int at = 0; at < STRANGERS; at++)
        if (said_hello(listener, at)) {
            *receive_comm = tcp_comm_of(listener->strangers[at].socket, 0);
            listener->strangers[at].socket = -1;
            return *receive_comm ? NET_OK : NET_SYSTEM_ERROR;
        }
    return NET_OK;
}

static int close_listener(void *listen_comm) {
    struct tcp_listener *listener = listen_comm;
    if (!listener)
        return NET_OK;
    for (int at = 0; at < STRANGERS; at++)
        if (listener->strangers[at].socket >= 0)
            close(listener->strangers[at].socket);
    close(listener->socket);
    free(listener);
    return NET_OK;
}

static int register_memory(void *comm, void *data, size_t bytes, int type, void **memory) {
    (void)comm, (void)data, (void)bytes;
    *memory = NULL;
    return type == NET_POINTER_HOST ? NET_OK : NET_INTERNAL_ERROR;
}

static int deregister_memory(void *comm, void *memory) {
    (void)comm, (void)memory;
    return NET_OK;
}

/* For memory of the GPU only, which the properties do not offer. */
static int iflush(void *comm, int n, void **data, int *bytes, void **memories, void **request) {
    (void)comm, (void)n, (void)data, (void)bytes, (void)memories;
    *request = NULL;
    return NET_INTERNAL_ERROR;
}

const struct transport tcp_transport = {
    .name = "Paceline",
    .init = init,
    .devices = devices,
    .properties = properties,
    .listen = listen_at,
    .connect = connect_to,
    .accept = accept_from,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
    .isend = tcp_isend,
    .irecv = tcp_irecv,
    .iflush = iflush,
    .test = tcp_test,
    .close_send = tcp_close,
    .close_receive = tcp_close,
    .close_listen = close_listener,
};
