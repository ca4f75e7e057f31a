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
    double *window, *grain, *sent, *goal, *rate, *firm, *ceiling, *mark;
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
    int64_t fixed_step_ns, step_ns_per_flow, shortest_step_ns, longest_min_step_ns;
    int64_t coarse_step_ns, unconverged_step_ns, longest_step_ns, crowd, dependency_rounds, htb_rounds;
    double caught_up_bytes, rounding_bytes, converged_part, local_bps;
    /* State. */
    int64_t now_ns, change_ns, stale, converged, solved_flows;
    int64_t steps, flow_steps, ended_flows, marked_flows;
    int64_t *solved, *ended, *end_ns, *marked;   /* rows, and when */
    /* Scratch: of rows ... */
    double *before, *limits, *wanted, *allowed, *shares, *base, *more, *firm_of, *may_send;
    int64_t *growing, *members;
    /* ... of rows × hops ... */
    int64_t *hop, *pairs;
    /* ... of links ... */
    double *left, *level, *taken, *carried, *nic_left;
    int64_t *on_link, *open, *touched, *active, *last_job;
    uint8_t *seen;
    /* ... and of feeds. */
    double *slowest;
};

static inline double smaller(double a, double b) { return a < b ? a : b; }
static inline double larger(double a, double b) { return a > b ? a : b; }

/* ---- sharing.c ---- */

void max_min(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                    const double *capacity, double *rates);
void share_links(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                 const double *capacity, double *rates);
void share_nics(struct network *n, int64_t flows, const int64_t *nic, const double *wanted, const double *guaranteed,
                const double *capacity, double *rates);

#endif
