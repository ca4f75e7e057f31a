/*
 * What NCCL's net interface looks like, versions 8 to 12: our own declarations, pinned below.
 *
 *   8 → 9     sizes are size_t; properties gain flush, virtual devices and largest transfers; makeVDevice
 *   9 → 10    init has a profiler callback; connect a configuration; isend and irecv profiler handles
 *   10 → 11   a context per communicator from init, which has the configuration now; finalize, setNetAttr
 *   11 → 12   8 instead of 4 devices in a virtual one, which moves what follows in the properties; rail and plane
 *
 * The structs of functions have their members in NCCL's order. Those that all versions have alike are in a macro, and
 * what we only hand on is a void pointer.
 */
#ifndef PACELINE_NET_ABI_H
#define PACELINE_NET_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { NET_OK = 0, NET_SYSTEM_ERROR = 2, NET_INTERNAL_ERROR = 3, NET_REMOTE_ERROR = 6 };
enum { NET_POINTER_HOST = 1, NET_HANDLE_BYTES = 128, NET_MOST_REQUESTS = 32, NET_UNDEFINED = -1 };
#define NET_MOST_BYTES_V8 (INT64_C(1) << 30)
#define NET_MOST_BYTES (INT64_C(1) << 40)

struct net_config {
    int traffic_class;
};

/* ---- properties ---- */

struct net_virtual_v9 {
    int count, devices[4];
};
struct net_virtual_v12 {
    int count, devices[8];
};

#define NET_NAMES                                                                                                  \
    char *name, *pci_path;                                                                                         \
    uint64_t guid;                                                                                                 \
    int pointer_support, registration_is_global;
#define NET_LIMITS                                                                                                 \
    int speed_mbits, port;                                                                                         \
    float latency;                                                                                                 \
    int most_comms, most_receives, device_type, device_version;

struct net_properties_v8 {
    NET_NAMES NET_LIMITS
};
struct net_properties_v9 { /* and 10 */
    NET_NAMES int force_flush;
    NET_LIMITS struct net_virtual_v9 virtual_device;
    size_t most_p2p_bytes, most_coll_bytes;
};
struct net_properties_v11 {
    NET_NAMES int force_flush;
    NET_LIMITS struct net_virtual_v9 virtual_device;
    size_t most_p2p_bytes, most_coll_bytes;
    int most_multi_requests;
};
struct net_properties_v12 {
    NET_NAMES int force_flush;
    NET_LIMITS struct net_virtual_v12 virtual_device;
    size_t most_p2p_bytes, most_coll_bytes;
    int most_multi_requests;
    int16_t rail, plane;
};

/* ---- functions ---- */

typedef int net_init_v8(void *log);
typedef int net_init_v10(void *log, void *profile);
typedef int net_init_v11(void **ctx, uint64_t comm_id, struct net_config *config, void *log, void *profile);
typedef int net_listen_v8(int device, void *handle, void **listen_comm);
typedef int net_listen_v11(void *ctx, int device, void *handle, void **listen_comm);
typedef int net_connect_v8(int device, void *handle, void **send_comm, void **device_handle);
typedef int net_connect_v10(int device, struct net_config *config, void *handle, void **send_comm,
                            void **device_handle);
typedef int net_connect_v11(void *ctx, int device, void *handle, void **send_comm, void **device_handle);
typedef int net_isend_v8(void *comm, void *data, int bytes, int tag, void *memory, void **request);
typedef int net_isend_v9(void *comm, void *data, size_t bytes, int tag, void *memory, void **request);
typedef int net_isend_v10(void *comm, void *data, size_t bytes, int tag, void *memory, void *event, void **request);
typedef int net_irecv_v8(void *comm, int n, void **data, int *bytes, int *tags, void **memories, void **request);
typedef int net_irecv_v9(void *comm, int n, void **data, size_t *bytes, int *tags, void **memories, void **request);
typedef int net_irecv_v10(void *comm, int n, void **data, size_t *bytes, int *tags, void **memories, void **events,
                          void **request);

#define NET_MEMORY                                                                                                 \
    int (*accept)(void *listen_comm, void **receive_comm, void **device_handle);                                   \
    int (*register_memory)(void *comm, void *data, size_t bytes, int type, void **memory);                         \
    int (*register_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd,                \
                           void **memory);                                                                         \
    int (*deregister_memory)(void *comm, void *memory);
#define NET_COMPLETION                                                                                             \
    int (*iflush)(void *comm, int n, void **data, int *bytes, void **memories, void **request);                    \
    int (*test)(void *request, int *done, int *bytes);                                                             \
    int (*close_send)(void *comm);                                                                                 \
    int (*close_receive)(void *comm);                                                                              \
    int (*close_listen)(void *comm);                                                                               \
    int (*device_memory)(void *comm, void *memory, void **device_memory);                                          \
    int (*receive_consumed)(void *comm, int n, void *request);
#define NET_INTERFACE(VERSION, INIT, PROPERTIES, LISTEN, CONNECT, ISEND, IRECV, MORE)                              \
    struct net_v##VERSION {                                                                                        \
        const char *name;                                                                                          \
        INIT *init;                                                                                                \
        int (*devices)(int *count);                                                                                \
        int (*properties)(int device, struct PROPERTIES *properties);                                              \
        LISTEN *listen;                                                                                            \
        CONNECT *connect;                                                                                          \
        NET_MEMORY ISEND *isend;                                                                                   \
        IRECV *irecv;                                                                                              \
        NET_COMPLETION MORE                                                                                        \
    }

#define NET_VIRTUAL(VERSION) int (*make_virtual)(int *device, struct net_virtual_v##VERSION *members);
#define NET_CONTEXT                                                                                                \
    int (*finalize)(void *ctx);                                                                                    \
    int (*set_attributes)(void *ctx, void *attributes);

NET_INTERFACE(8, net_init_v8, net_properties_v8, net_listen_v8, net_connect_v8, net_isend_v8, net_irecv_v8, );
NET_INTERFACE(9, net_init_v8, net_properties_v9, net_listen_v8, net_connect_v8, net_isend_v9, net_irecv_v9,
              NET_VIRTUAL(9));
NET_INTERFACE(10, net_init_v10, net_properties_v9, net_listen_v8, net_connect_v10, net_isend_v10, net_irecv_v10,
              NET_VIRTUAL(9));
NET_INTERFACE(11, net_init_v11, net_properties_v11, net_listen_v11, net_connect_v11, net_isend_v10, net_irecv_v10,
              NET_VIRTUAL(9) NET_CONTEXT);
NET_INTERFACE(12, net_init_v11, net_properties_v12, net_listen_v11, net_connect_v11, net_isend_v10, net_irecv_v10,
              NET_VIRTUAL(12) NET_CONTEXT);

_Static_assert(sizeof(struct net_properties_v8) == 64, "properties of 8");
_Static_assert(offsetof(struct net_properties_v9, virtual_device) == 64, "virtual device");
_Static_assert(offsetof(struct net_properties_v9, most_p2p_bytes) == 88, "largest transfers of 9");
_Static_assert(sizeof(struct net_properties_v9) == 104, "properties of 9 and 10");
_Static_assert(sizeof(struct net_properties_v11) == 112, "properties of 11");
_Static_assert(offsetof(struct net_properties_v12, most_p2p_bytes) == 104, "largest transfers of 12");
_Static_assert(offsetof(struct net_properties_v12, rail) == 124, "rail of 12");
_Static_assert(sizeof(struct net_properties_v12) == 128, "properties of 12");
_Static_assert(offsetof(struct net_v8, isend) == 80 && sizeof(struct net_v8) == 152, "functions of 8");
_Static_assert(sizeof(struct net_v9) == 160 && sizeof(struct net_v10) == 160, "functions of 9 and 10");
_Static_assert(sizeof(struct net_v11) == 176 && sizeof(struct net_v12) == 176, "functions of 11 and 12");

#endif
