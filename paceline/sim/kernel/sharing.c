/* How links and NICs are shared: sharing.py with the same order and rounding. */

#include "network.h"

/* Of links while they are shared out, each in a column of its own: the first pass over all flows needs but one of them,
 * which then stays in the processor's nearest memory. */
struct filling {
    double *left, *level, *nearly, *taken;   /* `nearly`: but for rounding that level */
    double *weight, *stopped;                /* of flows that still grow, and of those that do no more after this round */
    int32_t *flows;                          /* that still grow: 0 where no flow is shared out */
    uint8_t *open;
};

static struct filling filling_of(const struct network *n)
{
    double *at = n->filling;
    const int64_t links = n->links;
    return (struct filling){at, at + links, at + 2 * links, at + 3 * links, at + 4 * links, at + 5 * links,
                            (int32_t *)(at + 6 * links), (uint8_t *)(at + 7 * links)};
}

/* What a flow that is done has: its limit, or its part of what its link has reached. */
static double filled(double limit, double highest, double reached, const double *weights, int64_t f)
{
    return larger(highest <= reached ? limit : weights ? weights[f] * reached : reached, 0.0);
}

/* The flow grows no more. */
static void stop(const struct filling *l, const int64_t *path, int64_t width, double rate, const double *weights,
                 int64_t f)
{
    for (int64_t h = 0; h < width; h++) {
        l->taken[path[h]] += rate;
        l->flows[path[h]]--;
        if (weights)
            l->stopped[path[h]] += weights[f];
    }
}

/* What is left of the links for flows that still grow; returns how many have some. */
static int64_t after_round(const struct filling *l, int64_t *active, int64_t links, const double *weights)
{
    int64_t kept = 0;
    for (int64_t t = 0; t < links; t++) {
        const int64_t link = active[t];
        l->left[link] -= l->taken[link];
        l->taken[link] = 0.0;
        l->weight[link] = weights ? l->weight[link] - l->stopped[link] : l->flows[link];
        l->stopped[link] = 0.0;
        if (l->flows[link])
            active[kept++] = link;
    }
    return kept;
}

/* Progressive filling, as sharing.max_min. `hop`: `width` link numbers for each flow; `capacity` is not changed.
 * `weights`: NULL is 1 for every flow. */
void max_min(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                    const double *weights, const double *capacity, double *rates)
{
    const struct filling l = filling_of(n);
    const int64_t endless = n->links - 1;
    double *highest = n->highest;   /* level at which each flow is at its limit */
    int64_t *growing = n->growing;
    int64_t *active = n->active;   /* links with flows that still grow: most flows are done in the first round */
    int64_t active_links = 0, left_flows = 0;
    double lowest_level = INFINITY;
    for (int64_t h = 0; h < flows * width; h++)
        if (!l.flows[hop[h]]++)
            active[active_links++] = hop[h];
    for (int64_t t = 0; t < active_links; t++) {
        const int64_t link = active[t];
        l.left[link] = capacity[link];
        l.weight[link] = weights ? 0.0 : l.flows[link];
        l.taken[link] = l.stopped[link] = 0.0;
    }
    for (int64_t f = 0; weights && f < flows; f++)
        for (int64_t h = f * width; h < (f + 1) * width; h++)
            l.weight[hop[h]] += weights[f];
    for (int64_t t = 0; t < active_links; t++)
        if (active[t] != endless)
            lowest_level = smaller(l.left[active[t]] / l.weight[active[t]], lowest_level);
    /* Levels only rise: with a limit below all of them a flow is done. */
    for (int64_t f = 0; f < flows; f++) {
        highest[f] = weights ? limits[f] / weights[f] : limits[f];
        if (highest[f] <= lowest_level)
            stop(&l, hop + f * width, width, rates[f] = larger(limits[f], 0.0), weights, f);
        else
            growing[left_flows++] = f;
    }
    active_links = after_round(&l, active, active_links, weights);
    while (left_flows) {
        for (int64_t t = 0; t < active_links; t++) {
            const int64_t link = active[t];
            l.level[link] = link == endless ? INFINITY : l.left[link] / l.weight[link];
            l.nearly[link] = l.level[link] * SAME;
            l.open[link] = 0;
        }
        /* How far each flow would get, and which links are not full then because a flow of theirs is held elsewhere. */
        for (int64_t g = 0; g < left_flows; g++) {
            int64_t f = growing[g];
            const int64_t *path = hop + f * width;
            double reached = INFINITY;
            for (int64_t h = 0; h < width; h++)
                reached = smaller(l.level[path[h]], reached);
            reached = smaller(highest[f], reached);
            rates[f] = reached;
            for (int64_t h = 0; h < width; h++)
                l.open[path[h]] |= reached < l.nearly[path[h]];
        }
        int64_t still = 0, lowest = growing[0];
        for (int64_t g = 0; g < left_flows; g++) {
            int64_t f = growing[g], done = highest[f] <= rates[f];
            const int64_t *path = hop + f * width;
            for (int64_t h = 0; !done && h < width; h++)
                done = !l.open[path[h]];
            if (rates[f] < rates[lowest])
                lowest = f;
            if (!done)
                growing[still++] = f;
            else
                stop(&l, path, width, rates[f] = filled(limits[f], highest[f], rates[f], weights, f), weights, f);
        }
        if (still == left_flows) {   /* rounding left no clear bottleneck */
            rates[lowest] = filled(limits[lowest], highest[lowest], rates[lowest], weights, lowest);
            stop(&l, hop + lowest * width, width, rates[lowest], weights, lowest);
            int64_t kept = 0;
            for (int64_t g = 0; g < still; g++)
                if (growing[g] != lowest)
                    growing[kept++] = growing[g];
            still = kept;
        }
        active_links = after_round(&l, active, active_links, weights);
        left_flows = still;
    }
}

void share_links(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                 const double *weights, const double *capacity, double *rates)
{
    max_min(n, flows, width, hop, limits, weights, capacity, rates);
}

/* As sharing.htb: guarantees first, then what is left of each NIC. */
void share_nics(struct network *n, int64_t flows, const int64_t *nic, const double *wanted, const double *guaranteed,
                const double *capacity, double *rates)
{
    double *base = n->base, *more = n->more, *nic_left = n->nic_left;
    for (int64_t f = 0; f < flows; f++)
        more[f] = smaller(wanted[f], guaranteed[f]);
    max_min(n, flows, 1, nic, more, NULL, capacity, base);
    for (int64_t f = 0; f < flows; f++)
        nic_left[nic[f]] = 0.0;
    for (int64_t f = 0; f < flows; f++)
        nic_left[nic[f]] += base[f];
    for (int64_t f = 0; f < flows; f++)
        n->seen[nic[f]] = 1;
    for (int64_t f = 0; f < flows; f++)
        if (n->seen[nic[f]]) {
            n->seen[nic[f]] = 0;
            nic_left[nic[f]] = larger(capacity[nic[f]] - nic_left[nic[f]], 0.0);
        }
    for (int64_t f = 0; f < flows; f++)
        more[f] = wanted[f] - base[f];
    max_min(n, flows, 1, nic, more, NULL, nic_left, rates);
    for (int64_t f = 0; f < flows; f++)
        rates[f] = base[f] + rates[f];
}

/* ---- Weights: MLTCP's (flowcore/allocation/aggressiveness.py), and for how many flows one stands ---- */

static double sent_in_iteration(const struct network *n, int64_t row)
{
    return n->sent[row] - n->goal[row] + n->size[row];
}

static double piece_of(const struct network *n, int64_t row)
{
    return floor((sent_in_iteration(n, row) + n->caught_up_bytes) / n->piece[row]);
}

double left_of_piece(const struct network *n, int64_t row)
{
    return (piece_of(n, row) + 1.0) * n->piece[row] - sent_in_iteration(n, row);
}

const double *weights(struct network *n, int64_t flows)
{
    int64_t weighted = n->weighted;
    for (int64_t f = 0; f < flows; f++) {
        int64_t row = n->solved[f];
        n->weights[f] = n->stands[row];
        weighted |= n->stands[row] != 1.0;
        if (n->weighted && n->piece[row] > 0.0) {
            double part = (piece_of(n, row) + 0.5) * n->piece[row] / n->size[row];
            n->weights[f] = n->slope * smaller(part, 1.0) + n->intercept;
        }
    }
    return weighted ? n->weights : NULL;
}
