/*
 * The file of the page, by pread: touching a mapped page that hostd has cut would kill the job. One system call a
 * look while the entries stay as they are; a page that is not there, or whose hostd is gone, is opened anew after a
 * tenth of a second.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "page.h"

#define RETRY_NS INT64_C(100000000)
#define DEFAULT_DIRECTORY "/run/paceline/hostd/jobs/pages"

int64_t plp_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static unsigned long long own_start_ticks(void) {
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    char *field = strrchr(text, ')'); /* the program's name may have anything in it */
    unsigned long long ticks = 0;
    for (int i = 2; field && i < 22; i++) /* the name is field 2 */
        field = strchr(field + 1, ' ');
    if (field)
        sscanf(field, " %llu", &ticks);
    return ticks;
}

/* PACELINE_PAGE; else by pid and start time in PACELINE_PAGE_DIR or beside hostd's socket. */
static int own_path(char *path, size_t bytes) {
    const char *named = getenv("PACELINE_PAGE"), *directory = getenv("PACELINE_PAGE_DIR");
    const char *socket = getenv("PACELINE_SOCKET");
    int length;
    if (named && *named)
        return (length = snprintf(path, bytes, "%s", named)) > 0 && (size_t)length < bytes;
    char beside[300];
    if (!directory || !*directory) {
        const char *slash = socket ? strrchr(socket, '/') : NULL;
        if (slash && snprintf(beside, sizeof beside, "%.*s/pages", (int)(slash - socket), socket) < (int)sizeof beside)
            directory = beside;
        else
            directory = DEFAULT_DIRECTORY;
    }
    length = snprintf(path, bytes, "%s/%d-%llu.page", directory, (int)getpid(), own_start_ticks());
    return length > 0 && (size_t)length < bytes;
}

/* Unless the program has closed it, and has opened another file by that number. */
static void forget(struct plp_reader *reader) {
    struct stat found;
    int file = reader->file;
    reader->file = -1;
    reader->known = 0;
    if (file >= 0 && !fstat(file, &found) && found.st_dev == reader->device && found.st_ino == reader->inode)
        close(file);
}

static void open_page(struct plp_reader *reader, const char *path) {
    struct stat found;
    reader->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* were it a pipe, opening would wait */
    if (reader->file >= 0 && !fstat(reader->file, &found)) {
        reader->device = found.st_dev;
        reader->inode = found.st_ino;
    }
}

static int read_header(struct plp_reader *reader, struct plp_header *header, int64_t now_ns) {
    return reader->file >= 0 && pread(reader->file, header, sizeof *header, 0) == sizeof *header &&
           plp_header_believed(header, now_ns);
}

static int read_bank(struct plp_reader *reader, const struct plp_header *header) {
    if (reader->known && reader->sequence == header->sequence)
        return 1;
    reader->known = 0;
    if (!reader->bank && !(reader->bank = malloc(plp_bank_bytes(PLP_MOST_ENTRIES))))
        return 0;
    off_t at = (off_t)plp_bank_at(header->sequence, header->capacity);
    ssize_t got = pread(reader->file, reader->bank, plp_bank_bytes(header->capacity), at);
    if (got < 0 || !plp_bank_believed(reader->bank, (size_t)got, header))
        return 0;
    reader->sequence = header->sequence;
    return reader->known = 1;
}

static int find(struct plp_reader *reader, struct plp_header *header, int64_t now_ns) {
    if (reader->pid != getpid()) { /* a forked child's page is another one */
        forget(reader);
        reader->pid = getpid();
        reader->retry_ns = 0;
        reader->own[0] = 0;
    }
    if (read_header(reader, header, now_ns))
        return read_bank(reader, header);
    if (now_ns < reader->retry_ns)
        return 0;
    reader->retry_ns = now_ns + RETRY_NS;
    forget(reader);
    const char *path = reader->path[0] ? reader->path : reader->own;
    /* Once: the program may change its environment while we read it. */
    if (!path[0] && !own_path(reader->own, sizeof reader->own)) {
        reader->own[0] = 0;
        return 0;
    }
    open_page(reader, path);
    return read_header(reader, header, now_ns) && read_bank(reader, header);
}

PLP_API void plp_look(struct plp_reader *reader, const uint8_t peer[PLP_PEER_BYTES], int64_t now_ns,
                      struct plp_answer *answer) {
    int before = errno;
    struct plp_header header;
    *answer = (struct plp_answer){.state = PLP_OPEN};
    pthread_mutex_lock(&reader->lock);
    if (find(reader, &header, now_ns))
        *answer = plp_entry_answer(reader->bank, peer, now_ns, header.slot_ns);
    pthread_mutex_unlock(&reader->lock);
    errno = before;
}

PLP_API struct plp_reader *plp_open(const char *path) {
    struct plp_reader *reader = malloc(sizeof *reader);
    if (!reader)
        return NULL;
    *reader = (struct plp_reader)PLP_READER;
    snprintf(reader->path, sizeof reader->path, "%s", path ? path : "");
    return reader;
}

PLP_API void plp_close(struct plp_reader *reader) {
    if (!reader)
        return;
    forget(reader);
    free(reader->bank);
    free(reader);
}
