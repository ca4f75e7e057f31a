/*
 * The job's name where its owner gave none: the same on all of its hosts. Law: nccl_shim/segment/job_name.py, which
 * says in which order, makes the same name; a test compares the two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core.h"

#define HASH_BYTES 9        /* a dash and eight digits */
#define SLURM_STEP_DIGITS 9 /* batch and interactive steps have numbers of ten */

/* A name as it grows: what fits, and a hash of all of it. */
struct name {
    char *text; /* PLS_JOB_BYTES */
    size_t bytes;
    uint32_t hash;
    int given; /* by the job's owner, who may use other characters than the plain ones */
};

static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

static int is_digit(char one) { return one >= '0' && one <= '9'; }
static int is_lower(char one) { return one >= 'a' && one <= 'z'; }

static int is_plain(unsigned char one) {
    return is_digit((char)one) || is_lower((char)one) || (one >= 'A' && one <= 'Z') ||
           (one && strchr("._:@+=,[]-", one));
}

static int is_kept(const struct name *name, unsigned char one) {
    return name->given ? one >= 0x20 && one != 0x7f && one != '/' : is_plain(one);
}

static void add_bytes(struct name *name, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char one = (unsigned char)text[i];
        if (!is_kept(name, one))
            one = '_';
        if (name->bytes < PLS_JOB_BYTES - 1)
            name->text[name->bytes] = (char)one;
        name->bytes++;
        name->hash = (name->hash ^ one) * 16777619u; /* FNV-1a */
    }
}

static void add(struct name *name, const char *text) { add_bytes(name, text, strlen(text)); }

/* What tells two launches in one allocation apart. */
static void add_port(struct name *name) {
    const char *port = text_of("MASTER_PORT");
    if (port) {
        add(name, "-");
        add(name, port);
    }
}

static void add_index(struct name *name, const char *variable, const char *none) {
    const char *index = text_of(variable);
    if (index && strcmp(index, none) != 0) {
        add(name, ".");
        add(name, index);
    }
}

static void close_name(struct name *name) {
    if (name->bytes < PLS_JOB_BYTES) {
        name->text[name->bytes] = '\0';
        return;
    }
    size_t end = PLS_JOB_BYTES - 1 - HASH_BYTES;
    while (end && (name->text[end] & 0xC0) == 0x80) /* inside a character */
        end--;
    snprintf(name->text + end, PLS_JOB_BYTES - end, "-%08x", name->hash);
}

static size_t digits(const char *text) {
    size_t count = 0;
    while (is_digit(text[count]))
        count++;
    return count;
}

/* What the operator or the Job controller appends: worker-3, 3-x7k2p, 3. */
static int is_appended(const char *rest) {
    static const char *const ROLES[] = {"master-", "worker-", "launcher-", "chief-",
                                        "ps-",     "server-", "evaluator-", NULL};
    for (const char *const *role = ROLES; *role; role++) {
        const char *number = rest + strlen(*role);
        if (strncmp(rest, *role, strlen(*role)) == 0 && number[0] && !number[digits(number)])
            return 1;
    }
    size_t count = digits(rest);
    if (!count)
        return 0;
    if (!rest[count])
        return 1;
    const char *suffix = rest + count + 1;
    if (rest[count] != '-' || strlen(suffix) != 5)
        return 0;
    for (; *suffix; suffix++)
        if (!is_digit(*suffix) && !is_lower(*suffix))
            return 0;
    return 1;
}

/* How much of a pod's name is its job's; 0: that cannot be told. */
static size_t job_in_pod(const char *pod) {
    for (size_t i = 1; pod[0] && pod[i]; i++)
        if (pod[i] == '-' && is_appended(pod + i + 1))
            return i;
    return 0;
}

static int add_kubernetes(struct name *name, const char *host) {
    const char *job = text_of("JOB_NAME"), *pod = text_of("POD_NAME"), *space = text_of("POD_NAMESPACE");
    if (!text_of("KUBERNETES_SERVICE_HOST"))
        return 0;
    if (!pod)
        pod = host;
    size_t bytes = job ? strlen(job) : job_in_pod(pod);
    if (!bytes)
        return 0;
    if (space) {
        add(name, space);
        add(name, ".");
    }
    add_bytes(name, job ? job : pod, bytes);
    return 1;
}

static int add_cluster(struct name *name, const char *host) {
    const char *slurm = text_of("SLURM_JOB_ID");
    if (slurm) {
        const char *step = text_of("SLURM_STEP_ID");
        if (!step)
            step = text_of("SLURM_STEPID");
        add(name, "slurm-");
        add(name, slurm);
        if (step && !step[digits(step)] && strlen(step) <= SLURM_STEP_DIGITS) {
            add(name, ".");
            add(name, step);
        } else {
            add_port(name);
        }
        return 1;
    }
    if (add_kubernetes(name, host))
        return 1;
    const char *lsf = text_of("LSB_JOBID"), *pbs = text_of("PBS_JOBID"), *sge = text_of("JOB_ID");
    if (lsf) {
        add(name, "lsf-");
        add(name, lsf);
        add_index(name, "LSB_JOBINDEX", "0"); /* 0: no array */
    } else if (pbs) {
        add(name, "pbs-");
        add(name, pbs);
    } else if (sge && text_of("SGE_ROOT")) {
        add(name, "sge-");
        add(name, sge);
        add_index(name, "SGE_TASK_ID", "undefined");
    } else {
        return 0;
    }
    add_port(name);
    return 1;
}

static int is_loopback(const char *address) {
    return strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0 || strncmp(address, "127.", 4) == 0;
}

static void derive(struct name *name) {
    struct utsname own;
    const char *host = uname(&own) == 0 ? own.nodename : "";
    const char *mpi = text_of("PMIX_NAMESPACE");
    if (!mpi)
        mpi = text_of("OMPI_MCA_ess_base_jobid");
    if (mpi && strncmp(mpi, "slurm.", 6) != 0) { /* Slurm's own: its step says the same */
        add(name, "mpi-");
        add(name, mpi);
        return;
    }
    if (add_cluster(name, host))
        return;
    const char *elastic = text_of("TORCHELASTIC_RUN_ID"), *address = text_of("MASTER_ADDR");
    const char *port = text_of("MASTER_PORT"), *ray = text_of("RAY_JOB_ID"), *launch = text_of("PACELINE_LAUNCH");
    if (elastic && strcmp(elastic, "none") != 0) {
        add(name, elastic);
    } else if (address && port) {
        add(name, is_loopback(address) ? host : address);
        add(name, ":");
        add(name, port);
    } else if (ray) {
        add(name, "ray-");
        add(name, ray);
    } else if (text_of("KUBERNETES_SERVICE_HOST")) {
        add(name, text_of("POD_NAME") ? text_of("POD_NAME") : host);
    } else if (launch) {
        add(name, launch);
    } else {
        char pid[24];
        snprintf(pid, sizeof pid, "pid-%d", (int)getpid());
        add(name, pid);
    }
}

void pls_job_name_from_env(char text[PLS_JOB_BYTES]) {
    const char *given = text_of("PACELINE_JOB");
    struct name name = {text, 0, 2166136261u, given != NULL};
    if (given)
        add(&name, given);
    else
        derive(&name);
    close_name(&name);
}
