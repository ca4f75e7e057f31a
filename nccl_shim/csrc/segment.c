/*
 * Making the segment: memory that is handed to hostd, or a file where no hostd listens. Law: everything that can fail
 * fails here, before a single counter is written, and a failure is one warning line and a NULL that every other
 * function accepts. Blocks are reserved up front, because a store into a page that a full /dev/shm cannot give would
 * be a SIGBUS in the middle of training.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct pls_header *) process_segment;
static _Atomic int process_tried;
static _Atomic int warned;
static _Atomic int32_t cached_pid;

static void in_child(void) {
    /* A forked data loader must not count into its parent's file; if it communicates it gets its own. */
    pthread_mutex_init(&opening, NULL);
    pls_reset_lock_in_child();
    pls_forget_registration();
    atomic_store(&process_segment, NULL);
    atomic_store(&process_tried, 0);
    atomic_store(&cached_pid, getpid());
}

static void at_exit(void) { pls_finish(atomic_load(&process_segment)); }

__attribute__((constructor)) static void on_load(void) {
    atomic_store(&cached_pid, getpid());
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
}

int32_t pls_pid(void) { return atomic_load_explicit(&cached_pid, memory_order_relaxed); }

void pls_warn_once(const char *message) {
    if (!atomic_exchange(&warned, 1))
        fprintf(stderr, "paceline: %s; training goes on unobserved\n", message);
}

void pls_note_once(const char *message) {
    static _Atomic int noted;
    if (!atomic_exchange(&noted, 1))
        fprintf(stderr, "paceline: %s\n", message);
}

static uint64_t own_start_ticks(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    char *field = strrchr(text, ')'); /* the command name may hold spaces and brackets */
    for (int number = 2; field && number < 22; number++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, NULL, 10) : 0;
}

static int open_directory(const char *path, const char **why) {
    if (mkdir(path, 0700) == 0) /* ours to share: sticky, so that users cannot remove each other's files */
        (void)chmod(path, 01777);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        *why = strerror(errno);
    } else if (info.st_uid != 0 && info.st_uid != geteuid() && !(info.st_mode & S_ISVTX)) {
        *why = "directory belongs to another user and is not sticky";
        close(fd);
        fd = -1;
    }
    return fd;
}

static int open_file(int dir_fd, uint64_t start_ticks, char *name, size_t name_bytes, const char **why) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < PLS_FILE_BYTES) {
        *why = "file size limit is too small"; /* exceeding it would be a fatal SIGXFSZ */
        return -1;
    }
    int fd = -1;
    for (int attempt = 0; attempt < 64 && fd < 0; attempt++) {
        snprintf(name, name_bytes, "%d-%llu-%d.pls", (int)getpid(), (unsigned long long)start_ticks, attempt);
        fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        *why = strerror(errno);
        return -1;
    }
    int failed = fchmod(fd, 0600) != 0 ? errno : posix_fallocate(fd, 0, PLS_FILE_BYTES);
    if (failed) {
        *why = strerror(failed);
        unlinkat(dir_fd, name, 0);
        close(fd);
        return -1;
    }
    return fd;
}

static void fill(struct pls_header *header, const struct pls_identity *identity, uint64_t start_ticks) {
    struct stat info;
    header->version = PLS_VERSION;
    header->header_bytes = PLS_HEADER_BYTES;
    header->record_bytes = PLS_RECORD_BYTES;
    header->record_count = PLS_RECORD_COUNT;
    header->role = identity->role;
    header->pid = getpid();
    header->uid = geteuid();
    header->pid_start_ticks = start_ticks;
    header->pid_namespace = stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
    header->global_rank = identity->global_rank;
    header->world_size = identity->world_size;
    header->local_rank = identity->local_rank;
    header->weight_milli = pls_weight_milli_from_env();
    header->iterations = pls_iterations_from_env();
    header->writer = 1;
    memcpy(header->job, identity->job, PLS_JOB_BYTES - 1);
    header->created_ns = pls_now_ns();
    atomic_store(&header->heartbeat_ns, header->created_ns);
    atomic_store(&header->iteration.start_ns, header->created_ns);
    uint64_t words[7] = {0, 0, header->created_ns, 0, 0, 0, 0};
    atomic_store(&header->iteration.check, pls_check(words));
    struct pls_record *overflow = (struct pls_record *)((char *)header + PLS_HEADER_BYTES);
    overflow->kind = PLS_OVERFLOW;
    overflow->rank = identity->global_rank;
    overflow->peer = -1;
    atomic_store(&overflow->state, PLS_PUBLISHED);
    atomic_store(&header->records_claimed, 1);
    atomic_store_explicit(&header->magic, PLS_MAGIC, memory_order_release);
}

struct pls_header *pls_create(const struct pls_identity *identity, char *error, size_t error_bytes) {
    const char *why = "";
    char name[64];
    uint64_t start_ticks = own_start_ticks();
    struct pls_header *header = MAP_FAILED;
    int dir_fd = open_directory(identity->dir, &why), fd = -1;
    if (dir_fd >= 0)
        fd = open_file(dir_fd, start_ticks, name, sizeof name, &why);
    if (fd >= 0) {
        header = mmap(NULL, PLS_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (header == MAP_FAILED) {
            why = strerror(errno);
            unlinkat(dir_fd, name, 0);
            close(fd);
        }
    }
    if (dir_fd >= 0)
        close(dir_fd);
    if (header == MAP_FAILED) {
        if (error)
            snprintf(error, error_bytes, "cannot write counters in %s: %s", identity->dir, why);
        return NULL;
    }
    /* Held until the process ends: tells a reader in another pid namespace that we live. */
    (void)flock(fd, LOCK_SH | LOCK_NB);
    fill(header, identity, start_ticks);
    return header;
}

/* Counters that hostd is given a descriptor of. Without hostd there: NULL, or memory that waits for it if it `must`. */
static struct pls_header *create_registered(const struct pls_identity *identity, int must, const char **why) {
    if (!identity->socket[0]) {
        *why = "no socket of hostd";
        return NULL;
    }
    int connection = pls_connect(identity->socket), memory = -1;
    struct pls_header *header = NULL;
    if (connection >= 0 || errno == EAGAIN || must)
        header = pls_memory(&memory, why);
    else
        *why = strerror(errno);
    if (header) {
        fill(header, identity, own_start_ticks());
        pls_register(identity->socket, memory, connection, pls_now_ns());
    } else if (connection >= 0) {
        close(connection);
    }
    return header;
}

static struct pls_header *create(const struct pls_identity *identity) {
    char error[400];
    const char *why = "";
    struct pls_header *header = create_registered(identity, 0, &why);
    if (!header)
        header = pls_create(identity, error, sizeof error);
    if (!header && (header = create_registered(identity, 1, &why))) {
        char note[sizeof error + sizeof identity->socket + 40];
        snprintf(note, sizeof note, "%s; they wait for hostd at %s", error, identity->socket);
        pls_note_once(note);
    } else if (!header) {
        pls_warn_once(error);
    }
    return header;
}

struct pls_header *pls_process_as(const struct pls_identity *identity) {
    struct pls_header *header = atomic_load_explicit(&process_segment, memory_order_acquire);
    if (header || atomic_load(&process_tried))
        return header;
    pthread_mutex_lock(&opening);
    if (!atomic_load(&process_tried)) {
        struct pls_identity from_env;
        const char *wanted = getenv("PACELINE_SHIM");
        if (!wanted || strcmp(wanted, "0") != 0) {
            pls_identity_from_env(&from_env);
            header = create(identity ? identity : &from_env);
        }
        atomic_store_explicit(&process_segment, header, memory_order_release);
        atomic_store(&process_tried, 1);
    }
    pthread_mutex_unlock(&opening);
    return atomic_load_explicit(&process_segment, memory_order_acquire);
}

struct pls_header *pls_process(void) { return pls_process_as(NULL); }
