/*
 * Handing a process's counters to hostd. Law: never waits, never fails the job, and uses no thread: counting itself
 * looks after the connection, once a second.
 *
 *     memfd ── one message with its descriptor ──▶ hostd       the connection stays open as long as both live
 *     hostd has gone                                           connect again every second: until a hostd listens, that
 *                                                              reaches no process
 *     hostd is there, and does not take it                     connect again after 1, 2, 4, 8, 8 ... seconds
 *
 * The memory is sealed before it is handed over: hostd maps it, and a page that went away would kill hostd; and no
 * receiver of the descriptor can write to it. nccl_shim/segment/registration.py does the same without this library.
 *
 * A program may close every descriptor it finds, and open others by the same numbers. So ours are told by their inodes
 * before they are used, and never closed unless they are ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SECOND_NS 1000000000ull
#define FIRST_WAIT_NS SECOND_NS
#define LONGEST_WAIT_NS (8 * SECOND_NS)
#define APART_NS 1000000ull /* between processes of one job, which would all come at once */
#define LASTED_NS (5 * SECOND_NS) /* a connection that ended sooner was refused */

_Atomic uint64_t pls_tend_ns = UINT64_MAX;

struct known { /* a descriptor and what it was when it was ours */
    int fd;
    dev_t device;
    ino_t inode;
};

static atomic_flag tending = ATOMIC_FLAG_INIT; /* owns what follows */
static struct known memory = {.fd = -1}, connection = {.fd = -1};
static char path[sizeof((struct sockaddr_un *)0)->sun_path];
static uint64_t connected_ns, wait_ns;

static struct known known(int fd) {
    struct stat info = {0};
    if (fd < 0 || fstat(fd, &info) != 0)
        return (struct known){.fd = -1};
    return (struct known){fd, info.st_dev, info.st_ino};
}

static int is_ours(struct known one) {
    struct stat info;
    return one.fd >= 0 && fstat(one.fd, &info) == 0 && info.st_dev == one.device && info.st_ino == one.inode;
}

static void drop(struct known *one) {
    if (is_ours(*one))
        close(one->fd);
    one->fd = -1;
}

void *pls_memory(int *fd, const char **why) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < PLS_FILE_BYTES) {
        *why = "file size limit is too small"; /* exceeding it would be a fatal SIGXFSZ */
        return NULL;
    }
    *fd = memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int failed = *fd < 0 ? errno : posix_fallocate(*fd, 0, PLS_FILE_BYTES);
    void *map = MAP_FAILED;
    if (!failed)
        map = mmap(NULL, PLS_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (!failed && (map == MAP_FAILED || fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE |
                                                                     F_SEAL_SEAL) != 0))
        failed = errno;
    if (!failed)
        return map;
    *why = strerror(failed);
    if (map != MAP_FAILED)
        munmap(map, PLS_FILE_BYTES);
    if (*fd >= 0)
        close(*fd);
    return NULL;
}

int pls_connect(const char *to) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", to);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        int failed = errno;
        close(fd);
        errno = failed;
        fd = -1;
    }
    return fd;
}

/* Whether hostd has it now; if not, the connection is closed. */
static int hand_over(int to) {
    struct {
        char magic[8];
        uint32_t version, bytes;
    } message = {{'P', 'A', 'C', 'E', 'R', 'E', 'G', '1'}, PLS_VERSION, PLS_FILE_BYTES};
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec content = {&message, sizeof message};
    struct msghdr envelope = {
        .msg_iov = &content, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&envelope);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &memory.fd, sizeof(int));
    if (to < 0)
        return 0;
    if (sendmsg(to, &envelope, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof message) {
        close(to);
        return 0;
    }
    connection = known(to);
    return 1;
}

static void look_again(uint64_t at_ns) { atomic_store(&pls_tend_ns, at_ns); }

void pls_register(const char *to, int own_memory, int through, uint64_t now_ns) {
    snprintf(path, sizeof path, "%s", to);
    memory = known(own_memory);
    wait_ns = FIRST_WAIT_NS;
    if (hand_over(through))
        connected_ns = now_ns;
    look_again(now_ns + wait_ns);
}

static void tend(uint64_t now_ns) {
    if (is_ours(connection)) {
        struct pollfd ended = {.fd = connection.fd};
        if (poll(&ended, 1, 0) == 0) {
            look_again(now_ns + SECOND_NS);
            return;
        }
        if (now_ns - connected_ns >= LASTED_NS)
            wait_ns = FIRST_WAIT_NS;
    }
    drop(&connection);
    if (!is_ours(memory)) {
        look_again(UINT64_MAX); /* there is nothing left to hand over */
    } else if (hand_over(pls_connect(path))) {
        connected_ns = now_ns;
        look_again(now_ns + SECOND_NS);
    } else if (errno == ENOENT || errno == ECONNREFUSED) { /* nothing listens */
        wait_ns = FIRST_WAIT_NS;
        look_again(now_ns + FIRST_WAIT_NS + (uint64_t)getpid() % 256 * APART_NS);
    } else {
        look_again(now_ns + wait_ns);
        wait_ns = 2 * wait_ns < LONGEST_WAIT_NS ? 2 * wait_ns : LONGEST_WAIT_NS;
    }
}

void pls_tend(uint64_t now_ns) {
    int before = errno;
    if (atomic_flag_test_and_set(&tending))
        return; /* another thread is at it */
    if (now_ns >= atomic_load(&pls_tend_ns))
        tend(now_ns);
    atomic_flag_clear(&tending);
    errno = before;
}

void pls_forget_registration(void) {
    /* The parent's end must be seen as such, whatever its children hold open. */
    drop(&connection);
    drop(&memory);
    look_again(UINT64_MAX);
    atomic_flag_clear(&tending);
}
