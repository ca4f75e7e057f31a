/* Hosts and switches under `mlcc` in C: what HostAgent, SwitchAgent and policy/mlcc.py do, message by message, with the
 * same order and rounding.
 *
 * rules.c has flowcore's rules, table.c the load table, switches.c what a switch does about a message, hosts.c what a host
 * does, and planned.c is told by the engine what happens. Left out is what cannot happen where no message is lost and
 * all answers come within a slot: silent switches, entries that end, hosts on their own. */
#ifndef PACELINE_PLANNED_H
#define PACELINE_PLANNED_H

#include "../network.h"

#define NEVER_NS ((int64_t)1 << 62)
#define MOST_SAMPLES 8
#define MOST_HORIZON 64   /* slots of a plan */

/* The numbers of flowcore's rules; names are those of the constants there. */
struct planning {
    double floor_bps, probe_gain, limited_share, default_weight, rounding, slack, dust;
    int64_t shortest_stretch_ns, window_slots, tries, job_memory_slots;
};

struct estimate {   /* host/bandwidth.py: BandwidthEstimate */
    double line_rate_bps, probe_bps, sent_bps[MOST_SAMPLES];
    int64_t slot[MOST_SAMPLES], count;
};

struct stretches {   /* host/bandwidth.py: Stretches */
    double sent_bytes, allowed_bits_ns, fastest_bps, fastest_limit_bps;
    int64_t busy_ns, sampled, whole_slots;
};

struct question {   /* what a plan is made from */
    double remaining_bytes, volume_bytes, window_bytes, bandwidth_bps, upstream_bytes, downstream_bytes;
    int64_t horizon, slot_ns, left_ns, push;   /* left_ns: of this slot; push: it is an aggregation flow */
    const double *available_bps, *load;
};

struct grant {   /* messages/reports.py */
    double upstream_bytes, downstream_bytes, *available_bps, *load;
    int64_t accepted, first_slot;
};

struct place {   /* a flow at one of the switches on its path */
    int64_t at, of_job, links, *link;     /* the switch, its place among the job's switches; the links it keeps */
    int64_t in_table, accepted, first;    /* first: the slot that own_bps begins with */
    int64_t known;                        /* in which of the job's memories there its volume is; 0: in none */
    double volume_bytes, *own_bps;        /* F; what it plans, by slot % width */
    int64_t has_said;
    struct grant said;                    /* by this switch, to the flow's ToR */
};

struct pending {   /* switch/pending_reports.py */
    int64_t number, forwarded, flows, waiting, *flow;   /* waiting: flows about which a word is missing */
};

struct planned_flow {   /* host/flow_state.py, and what switches know */
    int64_t row, host, job, push, present;
    int64_t live, counted, claimed, iteration, replanned_slot, tries, plan_slot, plan_length, promised_ns;
    double size_bytes, window_bytes, sent_bytes, rate_bps, ceiling_bps, *plan_bps;
    int64_t granted;
    struct grant grant;
    struct estimate estimate;
    struct stretches stretches;
    int64_t upstream, downstream, *upstream_flow, *downstream_flow;
    int64_t places, forwarded, waits, said, *said_at;   /* the ToR's place first; waits: a bit for each place */
    struct place *place;
    struct pending *pending;
};

struct planned_host {
    double nic_bps;
    int64_t tor, armed_ns, boundary_ns, flows, room, *flow;   /* flows: in the order in which they came */
};

struct planned_job { int64_t switches, *heard_slot, *memory; };

enum kind { HOST_TICK, SWITCH_TICK, CLAIMS, GONE, FORWARDED, FORWARDED_GONE, SAID, ANSWER };

struct message {
    int64_t when_ns, sequence, kind, to, from, number, first_slot, count;
    double *words;   /* `stride` for each flow: its number, three more, and two of the horizon */
};

struct planned {
    struct network *n;
    struct planning rules;
    int64_t *shared;                      /* array/control.py's Pulse */
    int64_t slot_ns, horizon, epoch_ns, latency_ns, width, stride;
    int64_t ready_reports, line_rate, open, tail, whole_slots;   /* what is chosen of mlcc's options */
    int64_t flows, hosts, switches, jobs, live;
    struct planned_flow *flow;
    struct planned_host *host;
    struct planned_job *job;
    int64_t *number;                      /* by switch: of its last report */
    int64_t *first;                       /* by link: the slot its loads begin with ... */
    double *load_bps;                     /* ... `width` of each link, by slot % width */
    double peak_ratio;                    /* the largest part of a link that plans took */
    int64_t sequence, messages, messages_room, tick_ns, awake_until_slot;
    struct message *heap;
    int64_t decisions, decisions_room, *decision_ns;
};

/* ---- rules.c ---- */
void allocate_volumes(const struct planning *p, double volume_bytes, int64_t horizon, const double *room,
                      const double *price, double *volume);
void begin_stretches(struct stretches *s);
void pass_stretch(struct stretches *s, int64_t elapsed_ns, double limit_bps);
void sent_in_stretch(const struct planning *p, struct stretches *s, double fresh_bytes, int counts);
int take_stretches(struct stretches *s, int counts, double *sent_bps, double *limit_bps);
void observe_bandwidth(const struct planning *p, struct estimate *e, int64_t slot, double sent_bps, double limit_bps);
double bandwidth_value(const struct planning *p, const struct estimate *e, int64_t slot);
void plan_rates(const struct planning *p, const struct question *q, const double *before_bps, double *committed_bps,
                double *plan_bps);

/* ---- table.c ---- */
void enter_plans(struct planned *c, int64_t at, const struct message *report, int64_t slot);
void view_links(struct planned *c, const struct place *place, int64_t slot, double *available_bps, double *load);
void drop_entry(struct planned *c, struct place *place);
struct place *place_at(const struct planned_flow *flow, int64_t at);

/* ---- switches.c ---- */
void switch_hears(struct planned *c, const struct message *m, int64_t now_ns);

/* ---- hosts.c ---- */
void host_hears(struct planned *c, const struct message *m, int64_t now_ns);
void observe_flows(struct planned *c, const struct planned_host *host, int64_t now_ns);
void flow_ready(struct planned *c, int64_t of, int64_t iteration, int64_t now_ns);
void flow_done(struct planned *c, int64_t of, int64_t now_ns);
void claim_ready(struct planned *c, int64_t host, const int64_t *flows, int64_t count, int64_t now_ns);
void withdraw_flows(struct planned *c, int64_t host, const int64_t *flows, int64_t count, int64_t now_ns);
void arm_host(struct planned *c, int64_t host, int64_t now_ns);

/* ---- messages.c ---- */
int64_t slot_at(const struct planned *c, int64_t now_ns);
int64_t next_slot_ns(const struct planned *c, int64_t now_ns);
struct message new_message(const struct planned *c, int64_t kind, int64_t to, int64_t from, int64_t most);
void send_message(struct planned *c, struct message m, int64_t when_ns);
void arm_ticks(struct planned *c, int64_t now_ns);
void handle_messages(struct planned *c, int64_t now_ns);

#endif
