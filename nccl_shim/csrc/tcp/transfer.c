/*
 * Messages over a comm's connection. They arrive in the order they were sent; each goes to the first posted receive
 * that has its tag, and waits in the socket until there is one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp.h"

struct tcp_comm *tcp_comm_of(int socket, int sends) {
    struct tcp_comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        close(socket);
        return NULL;
    }
    comm->socket = socket;
    comm->sends = sends;
    return comm;
}

int tcp_close(void *closed) {
    struct tcp_comm *comm = closed;
    if (comm) {
        close(comm->socket);
        free(comm);
    }
    return NET_OK;
}

static struct tcp_request *new_request(struct tcp_comm *comm, void *data, int tag) {
    for (int i = 0; i < NET_MOST_REQUESTS; i++)
        if (!comm->requests[i].comm && comm->queued < NET_MOST_REQUESTS) {
            struct tcp_request *request = &comm->requests[i];
            *request = (struct tcp_request){.comm = comm, .data = data, .head.tag = tag};
            return comm->queue[comm->queued++] = request;
        }
    return NULL;
}

static void finish(struct tcp_comm *comm, struct tcp_request *request) {
    int at = 0;
    while (comm->queue[at] != request)
        at++;
    comm->queued--;
    memmove(&comm->queue[at], &comm->queue[at + 1], (size_t)(comm->queued - at) * sizeof *comm->queue);
    request->done = 1;
}

/* What the kernel said to a transfer: bytes, 0 for "not now", or -1 after the comm has failed. */
static ssize_t outcome(struct tcp_comm *comm, ssize_t moved, int zero_is_end) {
    if (moved > 0 || (moved == 0 && !zero_is_end))
        return moved;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    comm->failed = 1;
    return -1;
}

static void send_queued(struct tcp_comm *comm) {
    while (comm->queued) {
        struct tcp_request *first = comm->queue[0];
        struct iovec parts[2] = {
            {(char *)&first->head + first->head_moved, sizeof first->head - first->head_moved},
            {first->data + first->moved, first->head.bytes - first->moved},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent = outcome(comm, sendmsg(comm->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT), 0);
        if (sent <= 0)
            return;
        size_t of_head = (size_t)sent < parts[0].iov_len ? (size_t)sent : parts[0].iov_len;
        first->head_moved += of_head;
        first->moved += (size_t)sent - of_head;
        if (first->head_moved < sizeof first->head || first->moved < first->head.bytes)
            continue; /* the socket says itself when it is full */
        finish(comm, first);
    }
}

/* Whether the head that has come has a request; it chooses one. */
static int choose(struct tcp_comm *comm) {
    for (int i = 0; i < comm->queued && !comm->filling; i++)
        if (comm->queue[i]->head.tag == comm->head.tag)
            comm->filling = comm->queue[i];
    if (!comm->filling)
        return 0;
    if (comm->head.bytes > comm->filling->room) {
        comm->failed = 1;
        return 0;
    }
    comm->filling->head.bytes = comm->head.bytes;
    return 1;
}

static void receive_queued(struct tcp_comm *comm) {
    while (comm->queued && !comm->failed) {
        if (comm->head_got < sizeof comm->head) {
            ssize_t got = recv(comm->socket, (char *)&comm->head + comm->head_got,
                               sizeof comm->head - comm->head_got, MSG_DONTWAIT);
            if ((got = outcome(comm, got, 1)) <= 0)
                return;
            comm->head_got += (size_t)got;
            continue;
        }
        if (!comm->filling && !choose(comm))
            return;
        struct tcp_request *request = comm->filling;
        if (request->moved < request->head.bytes) {
            /* With what comes after the payload, the next head: one call less for each message. */
            struct tcp_head next;
            struct iovec parts[2] = {
                {request->data + request->moved, request->head.bytes - request->moved},
                {&next, sizeof next},
            };
            struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
            ssize_t got = outcome(comm, recvmsg(comm->socket, &message, MSG_DONTWAIT), 1);
            if (got <= 0)
                return;
            if ((size_t)got < parts[0].iov_len) {
                request->moved += (size_t)got;
                continue;
            }
            request->moved = request->head.bytes;
            comm->head_got = (size_t)got - parts[0].iov_len;
            memcpy(&comm->head, &next, comm->head_got);
        } else {
            comm->head_got = 0;
        }
        comm->filling = NULL;
        finish(comm, request);
    }
}

static void progress(struct tcp_comm *comm) {
    if (comm->failed)
        return;
    if (comm->sends)
        send_queued(comm);
    else
        receive_queued(comm);
}

int tcp_isend(void *to, void *data, size_t bytes, int tag, void *memory, void *event, void **request) {
    (void)memory, (void)event;
    struct tcp_comm *comm = to;
    *request = NULL;
    if (comm->failed)
        return NET_REMOTE_ERROR;
    struct tcp_request *new = new_request(comm, data, tag);
    if (!new)
        return NET_OK;
    new->head.bytes = bytes;
    *request = new;
    if (comm->queued == 1)
        progress(comm);
    return NET_OK;
}

int tcp_irecv(void *from, int n, void **data, size_t *bytes, int *tags, void **memories, void **events,
              void **request) {
    (void)memories, (void)events;
    struct tcp_comm *comm = from;
    *request = NULL;
    if (n != 1)
        return NET_INTERNAL_ERROR; /* the properties say that one is the most */
    if (comm->failed)
        return NET_REMOTE_ERROR;
    struct tcp_request *new = new_request(comm, data[0], tags[0]);
    if (!new)
        return NET_OK;
    new->room = bytes[0];
    *request = new;
    return NET_OK;
}

int tcp_test(void *tested, int *done, int *bytes) {
    struct tcp_request *request = tested;
    *done = 0;
    if (!request || !request->comm)
        return NET_INTERNAL_ERROR;
    if (!request->done)
        progress(request->comm);
    if (!request->done)
        return request->comm->failed ? NET_REMOTE_ERROR : NET_OK;
    *done = 1;
    if (bytes)
        *bytes = (int)request->head.bytes;
    request->comm = NULL;
    return NET_OK;
}
