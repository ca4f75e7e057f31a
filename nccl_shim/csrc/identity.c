/*
 * This process's ranks and role, from the environment. Law: the launcher's word first, then the framework's, then the
 * cluster's; nccl_shim/segment/identity.py reads the same names in the same order and a test compares the two. Its job:
 * job_name.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static const char *const RANK_NAMES[] = {"PACELINE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         "SLURM_PROCID", "JOB_COMPLETION_INDEX", NULL};
static const char *const WORLD_NAMES[] = {"PACELINE_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                          "PMI_SIZE", "SLURM_NTASKS", NULL};
static const char *const LOCAL_NAMES[] = {"PACELINE_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "SLURM_LOCALID", NULL};

#define DEFAULT_DIR "/dev/shm/paceline"
#define DEFAULT_SOCKET "/run/paceline/hostd/jobs/hostd.sock"

static int32_t integer_of(const char *const *names, int32_t otherwise) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (!text || text[0] < '0' || text[0] > '9')
            continue;
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (*end == '\0' && errno == 0 && value <= INT32_MAX)
            return (int32_t)value;
    }
    return otherwise;
}

static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

/* By hand: strtod reads a comma where the program's locale has one. */
uint32_t pls_weight_milli_from_env(void) {
    const char *text = text_of("PACELINE_WEIGHT");
    if (!text || strcmp(text, "normal") == 0)
        return text ? 1000 : 0;
    if (strcmp(text, "best-effort") == 0)
        return 100;
    uint32_t milli = 0, unit = 1000;
    int digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 4; text++, digits++)
        milli = 10 * milli + 1000 * (uint32_t)(*text - '0');
    if (digits && *text == '.')
        for (text++; *text >= '0' && *text <= '9' && unit > 1; text++)
            milli += (unit /= 10) * (uint32_t)(*text - '0');
    return digits && digits < 4 && *text == '\0' ? milli : 0;
}

uint64_t pls_iterations_from_env(void) {
    static const char *const names[] = {"PACELINE_ITERATIONS", NULL};
    return (uint64_t)integer_of(names, 0);
}

void pls_identity_from_env(struct pls_identity *identity) {
    memset(identity, 0, sizeof *identity);
    identity->global_rank = integer_of(RANK_NAMES, -1);
    identity->world_size = integer_of(WORLD_NAMES, 0);
    identity->local_rank = integer_of(LOCAL_NAMES, -1);
    const char *role = text_of("PACELINE_ROLE");
    identity->role = role && strcmp(role, "server") == 0 ? PLS_SERVER : PLS_WORKER;

    const char *dir = text_of("PACELINE_SHM_DIR");
    snprintf(identity->dir, sizeof identity->dir, "%s", dir ? dir : DEFAULT_DIR);
    /* A directory of its own is a hostd of its own, whose socket is not known. */
    const char *path = text_of("PACELINE_SOCKET");
    if (!path && strcmp(identity->dir, DEFAULT_DIR) == 0)
        path = DEFAULT_SOCKET;
    if (path && strcmp(path, "0") != 0 && strlen(path) < sizeof identity->socket)
        snprintf(identity->socket, sizeof identity->socket, "%s", path);

    pls_job_name_from_env(identity->job);
}
