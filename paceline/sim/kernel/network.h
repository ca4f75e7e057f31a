/* What sharing.c and network.c have in common: the network's columns, all of them the caller's memory. */
#ifndef PACELINE_NETWORK_H
#define PACELINE_NETWORK_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A bit per nanosecond is a gigabit per second: rate in bit/s, times ns, divided by this, is bytes. */
static const double BIT_NS_PER_BYTE_S = 8e9;

static const double SAME = 1.0 - 1e-12;   /* levels that differ by rounding are the same level */
static const double HELD = 1.0 - 1e-9;    /* a flow below this part of its share is held by the network */

struct network {
    /* Of flows: one row each. */
    int64_t rows, hops;
    double *size, *window, *grain, *piece, *sent, *goal, *rate, *firm, *ceiling, *stands, *mark;
    uint8_t *live, *paced;
    int64_t *job, *path;
    /* Of links; the last one has no end. */
    int64_t links;
    double *capacity;
    /* Feeds (feeds.py). */
    int64_t feeds, fed_flows;
    int64_t *upstream, *first_upstream, *fed, *by;
    double *upstream_grain;
    /* Options. */
    int64_t start_after;
    double *contention;   /* by how much k jobs divide a link; NULL: by nothing */
    int64_t weighted;     /* flows have MLTCP's weights, of this line */
    double slope, intercept;
    int64_t fixed_step_ns, step_ns_per_flow, shortest_step_ns, longest_min_step_ns, shortest_to_change_ns;
    int64_t coarse_step_ns, unconverged_step_ns, longest_step_ns, crowd, dependency_rounds, htb_rounds;
    double caught_up_bytes, rounding_bytes, converged_part, local_bps;
    /* State. */
    int64_t now_ns, change_ns, stale, converged, was_short, solved_flows;
    int64_t steps, flow_steps, ended_flows, marked_flows;
    int64_t *solved, *ended, *end_ns, *marked;   /* rows, and when */
    /* Scratch: of rows ... */
    double *before, *limits, *wanted, *allowed, *shares, *base, *more, *firm_of, *may_send, *highest, *weights;
    int64_t *growing, *members;
    /* ... of rows × hops ... */
    int64_t *hop, *pairs;
    /* ... of links ... */
    double *filling;   /* eight columns: sharing.c */
    double *level, *carried, *nic_left;
    int64_t *on_link, *active, *last_job;
    uint8_t *seen;
    /* ... and of feeds. */
    double *slowest;
};

static inline double smaller(double a, double b) { return a < b ? a : b; }
static inline double larger(double a, double b) { return a > b ? a : b; }

/* ---- sharing.c ---- */

void max_min(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                    const double *weights, const double *capacity, double *rates);
void share_links(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                 const double *weights, const double *capacity, double *rates);
void share_nics(struct network *n, int64_t flows, const int64_t *nic, const double *wanted, const double *guaranteed,
                const double *capacity, double *rates);
int64_t sending(const struct network *n);   /* network.c: how many flows have bytes waiting */
const double *weights(struct network *n, int64_t flows);         /* of the flows solved now; NULL: all the same */
double left_of_piece(const struct network *n, int64_t row);      /* bytes until its weight changes */

/* ---- crowd.c ---- */

struct prices {
    int64_t jobs, links, rounds;
    const int64_t *first;      /* jobs + 1: where the entries of each begin */
    const int64_t *link;       /* of entries */
    const double *flows;
    const double *capacity, *weight;
    double *use;               /* scratch: of entries, */
    double *price, *wanted;    /* of links, */
    double *worth, *pays;      /* of jobs, */
    int64_t *order, *spare;
    double *rates;             /* of jobs */
};

struct borrowing {
    int64_t flows, hops, links, owners;   /* owners: hosts or jobs, whichever are more */
    const double *share, *capacity;
    const int64_t *path, *host, *job;
    double nearly_all;
    double *taken, *sum, *waiting;        /* scratch: of links, */
    double *of_host, *of_job;             /* of flows × hops, */
    int64_t *next, *head;                 /* of flows, and of owners */
    double *ceiling;                      /* of flows */
};

void link_groups(int64_t jobs, const int64_t *first, const int64_t *link, int64_t *label, int64_t *seen_on);
void price_rates(struct prices *p);
void borrow(struct borrowing *b);
void sort_by_worth(const double *worth, int64_t *order, int64_t *spare, int64_t jobs);

/* ---- packing.c ---- */

struct packing {
    int64_t jobs, kept;            /* kept: links that no other one makes redundant */
    const int64_t *first, *link;   /* of jobs + 1, and of entries */
    const double *flows;           /* of entries */
    const double *capacity;        /* of links, by number */
    double *alone, *rows;          /* of jobs, and of entries × jobs */
    int64_t *names;                /* scratch: of entries, */
    double *tableau;               /* of (entries + 1) × (jobs + entries + 1) */
};

void packing_rows(struct packing *p);
int packing_rates(struct packing *p, const double *weight, double *rates);

/* Memory (control/memory.c): as much room as wanted, at least; the same with the new room zeroed; and zeroed anew. */
void *roomy(void *memory, int64_t *room, int64_t wanted, size_t size);
void *grown(void *memory, int64_t *room, int64_t wanted, size_t size);
void *zeroed(int64_t count, size_t size);

#endif
