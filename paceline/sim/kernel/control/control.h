/* What the control of arbitrated policies keeps of flows, host parts and contenders: array/claims.py,
 * array/arbitrated.py, array/settlement.py and array/bid_propagation.py in C, with the same order and rounding.
 *
 * rules.c has flowcore's rules, claims.c what becomes of flows by them, groups.c and settlement.c divide links,
 * bid_propagation.c says which bids are known where, slots.c and events.c when, and control.c is told by the engine
 * what happens. The memory is the control's own, from control_new to control_free. */
#ifndef PACELINE_CONTROL_H
#define PACELINE_CONTROL_H

#include "../network.h"

#define MOST_TIERS 8   /* of switches above a host */
#define SLOTS_ON_THE_WAY 3
#define NEVER_NS ((int64_t)1 << 62)

enum phase { IDLE, READY, ASKED, GRANTED, RELEASED, STALLED, SENT };   /* host/flow_phase.py */

/* The numbers of flowcore's rules; names are those of the constants there. */
struct rules {
    double memory_iterations, least_pace, gain, floor_bps, used, most_of_a_slot, least_share_bps, moved_of_floor;
    double kappa, finest_ns, nearly_all;
    int64_t longest_wait_slots, shortest_burst_rtts, shortest_burst_ns, rounds, largest_exact;
};

struct progress {   /* host/progress.py */
    double weight, compute_ns, alone_comm_ns, pace, iterations;
    int64_t bursts, begun_bursts, started_ns, updated_ns, communicating;
};

struct stalls { int64_t unused, stalled_slot, wait_slots; };   /* detect/stalls.py */

struct bid { double urgency, compute_ns, remaining_ns; };

typedef void (*bid_function)(const struct progress *progress, double left, double done, int64_t ready_ns,
                             struct bid *found);

typedef struct {   /* a list that grows */
    int64_t count, room, *items;
} list;

struct flow {   /* claims.ArrayFlow */
    int64_t phase, iterations, ready_ns, released_ns, decided_ns, entered, granted, part, host;
    double grant_bps, stalled_bytes, begun_bytes, firm_bps, promised_bits_ns, nic_bps, size_bytes, share, ceiling;
    int64_t promised_ns;
    struct stalls stalls;
    struct bid bid;
    list seen, passes;                    /* links, and switches */
    uint8_t promised, promised_listed, unclaimed, unclaimed_listed;
};

struct part {   /* claims.HostPart */
    struct progress progress;
    int64_t tor, contender, told, bid_ns;
    double size_bytes, counted_bytes;
    list flows;
};

struct contender {   /* claims.ContenderState */
    char *name;
    int64_t level, delay_ns, group, touched, gone, counted, stamp;
    double alone_ns;
    list parts, entered, links;           /* entered: rows in order; links: those of entered, as met first ... */
    double *flows_on;                     /* ... beside how many of these cross each */
    int64_t flows_room;
};

struct group { list members; int64_t number, read_ns, level, fresh; };

struct counters { int64_t taken_ns; double *sent, *goal; };   /* claims.Counters */

struct entry { int64_t row, iteration; double share, ceiling; };

enum kind { ENTER, GONE, ENFORCE };

struct event {
    int64_t when_ns, sequence, kind, decided_ns, entries;
    struct entry *entry;
};

struct scratch {   /* of settlement.c, by name in crowd.c and packing.c */
    int64_t room, jobs_room, links_room;
    int64_t *rows, *path, *host, *member, *next, *head, *first, *link, *order, *spare, *names;
    double *share, *ceiling, *of_host, *of_job, *counts, *use, *weight, *rates, *worth, *pays, *alone;
    double *cells, *tableau;              /* of a packing: entries × jobs, and its tableau */
    int64_t cells_room, tableau_room;
};

struct control {
    struct network *n;
    struct rules rules;
    int64_t slot_ns, half_slot_ns, epoch_ns, latency_ns, lends, strict, few_flows, ns_per_job, jobs_at_no_cost;
    bid_function bid;                     /* NULL: paceline's */
    int64_t *shared;                      /* array/control.py's Pulse */
    /* What there is. */
    int64_t rows, part_rows, contenders, links;
    struct flow *flow;
    struct part *part;
    struct contender *contender;
    list promised, unclaimed;             /* rows; some may be so no more */
    struct counters slots[SLOTS_ON_THE_WAY];   /* newest first */
    int64_t slots_taken;
    /* Events. */
    struct event *heap;
    int64_t events, events_room, reallocate_ns, tick_ns, busy_until_ns;
    /* Settlement. */
    list touched, several, fresh, free_groups, free_contenders, found;
    int64_t with_claims, stamp, groups, generation;
    struct group *group;
    int64_t *group_on, *seen_on, *link_stamp, *host_place, *host_stamp, hosts;
    double *taken, *sum, *price, *left;   /* of links */
    double peak_ratio;
    struct scratch scratch;
    /* Bid propagation. */
    int64_t tors, switches, *has_parent, *above;   /* above: MOST_TIERS of each ToR, -1 behind them */
    list *times;                          /* MOST_TIERS + 1 of each switch */
    /* How long each reallocation took. */
    list decisions;
};

/* ---- Lists ---- */
void put(list *to, int64_t item);

/* ---- events.c ---- */
int64_t slot_of(const struct control *c, int64_t now_ns);
int64_t into(const struct control *c, int64_t now_ns, int64_t every_ns);   /* how far into one of every so many ns */
void arm(struct control *c, int64_t now_ns);
void reallocate_soon(struct control *c, int64_t when_ns);
void show_next(struct control *c);
struct event pop(struct control *c);
void after(struct control *c, int64_t delay_ns, int64_t now_ns, struct event event);

/* ---- claims.c ---- */
int64_t rtt_of(const struct control *c, const struct part *part);
void limit(struct control *c, int64_t row, double firm_bps, double ceiling_bps, int64_t now_ns);
void until_claimed(struct control *c, int64_t row);
void sums(const struct part *part, const double *sent, const double *goal, double *total, double *left);
void credit(struct control *c, struct part *part, double sent_bytes, int64_t now_ns);
void credit_now(struct control *c, struct part *part, int64_t now_ns);
int bid(struct control *c, const struct part *part, struct flow *flow, double left_bytes);
void claim(struct control *c, int64_t of, const int64_t *rows, int64_t count, int64_t now_ns);
void withdraw(struct control *c, int64_t row, int64_t now_ns, int stalled);
void mark(struct control *c, int64_t row);
void happen(struct control *c, const struct event *event, int64_t now_ns);

/* ---- rules.c ---- */
int is_live(int64_t phase);
int is_claimed(int64_t phase);
int too_short(const struct rules *r, double alone_comm_ns, int64_t rtt_ns);
int asks(const struct rules *r, double alone_comm_ns, int64_t rtt_ns, int64_t slot_ns);
double handover_bytes(double share_bps, int64_t rtt_ns);
int contends(const struct rules *r, const struct flow *flow, double sent_bytes, double alone_comm_ns, int64_t now_ns,
             int64_t rtt_ns, int64_t slot, int64_t slot_ns);
void observe(const struct rules *r, struct stalls *stalls, int64_t slot, int64_t slot_ns, int64_t busy_ns,
             double promised_bps, double sent_bytes);
int may_claim(const struct rules *r, const struct stalls *stalls, int64_t slot, int64_t slot_ns, double moved_bytes);
void advance_progress(const struct rules *r, struct progress *p, int64_t now_ns, double sent_share);
void credit_progress(const struct rules *r, struct progress *p, int64_t now_ns, double fresh_bytes, double size_bytes,
                     int stalled);
void compute_ended(const struct rules *r, struct progress *p, int64_t now_ns);
void iteration_ended(const struct rules *r, struct progress *p, int64_t now_ns);
void bid_of_paceline(const struct progress *progress, double left, struct bid *found);
void weights_of_paceline(const struct rules *r, int64_t jobs, const struct bid *bids, double *weights);
int more_urgent(const struct bid *a, const struct bid *b);

/* ---- bid_propagation.c ---- */
int64_t heard_ns(const struct control *c, int64_t tor, int64_t delay_ns, int64_t now_ns);
void claims_changed(struct control *c, int64_t tor, int64_t delay_ns, const list *passes, int64_t now_ns);

/* ---- groups.c ---- */
void settle_enter(struct control *c, int64_t row);
void settle_withdraw(struct control *c, int64_t row);
void contender_gone(struct control *c, int64_t contender);
void regroup(struct control *c);                                  /* notes the groups that are new in `fresh` */
struct group *current_group(struct control *c, int64_t number);   /* NULL: it is no more */
void gather_links(struct control *c, const list *members);        /* into scratch.first, link and counts */

/* ---- settlement.c ---- */
typedef int (*bids_reader)(struct control *c, struct group *group, int64_t now_ns);
typedef void (*settled)(struct control *c, struct group *group, int64_t entries, struct entry *entry, int64_t now_ns);
/* Returns the most jobs of a group that changed. */
int64_t settle(struct control *c, int64_t newest_ns, int64_t now_ns, bids_reader read, settled tell);

#endif
