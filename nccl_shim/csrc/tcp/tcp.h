/*
 * Our own transport: one TCP connection per comm, one way. Law: nothing waits; a call does what the socket allows now
 * and NCCL calls again. Bytes move only while NCCL asks (isend, test), in its own thread: one thread uses a comm.
 *
 *   on the wire    hello: magic, secret          once, from the side that connects
 *                  head: bytes, tag | payload    for each message
 */
#ifndef PACELINE_TCP_H
#define PACELINE_TCP_H

#include "../net/transport.h"

struct tcp_hello {
    char magic[8];
    uint64_t secret; /* of the listener: another program's connection is not taken for NCCL's */
};

struct tcp_head {
    uint64_t bytes;
    int32_t tag;
    uint32_t zero;
};

struct tcp_request {
    struct tcp_comm *comm; /* NULL: free */
    struct tcp_head head;
    char *data;
    size_t room; /* of a receive: how much may come */
    size_t head_moved, moved;
    int done;
};

struct tcp_comm {
    int socket;
    int sends;
    int failed; /* the peer is gone: all that is not done fails */
    int queued;
    struct tcp_request *queue[NET_MOST_REQUESTS]; /* in the order of NCCL's calls */
    struct tcp_request *filling;                  /* of a receiver: the request that the head has chosen */
    struct tcp_head head;
    size_t head_got;
    struct tcp_request requests[NET_MOST_REQUESTS];
};

struct tcp_comm *tcp_comm_of(int socket, int sends); /* NULL: no memory, and the socket is closed */
net_isend_v10 tcp_isend;
net_irecv_v10 tcp_irecv;
int tcp_test(void *request, int *done, int *bytes);
int tcp_close(void *comm);

#endif
