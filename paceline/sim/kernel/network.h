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

/* Of a link while it is shared out: what is left of it and how far its flows have come, and what this round changes. */
typedef struct {
    double left, weight, level, nearly;   /* `nearly`: but for rounding that level */
    double taken, stopped;
    int64_t flows, open;                  /* flows that still grow: 0 where no flow is shared out */
} filling_link;

struct network {
    /* Of flows: one row each. */
    int64_t rows, hops;
    double *size, *window, *grain, *piece, *sent, *goal, *rate, *firm, *ceiling, *mark;
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
    filling_link *filling;
    double *level, *carried, *nic_left;
    int64_t *on_link, *open, *touched, *active, *last_job;
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
const double *weights(struct network *n, int64_t flows);         /* of the flows solved now; NULL: all the same */
double left_of_piece(const struct network *n, int64_t row);      /* bytes until its weight changes */

#endif
