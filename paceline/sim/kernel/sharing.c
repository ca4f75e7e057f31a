/* How links and NICs are shared: sharing.py with the same order and rounding. */

#include "network.h"

/* What a flow that is done has: its limit, or its part of what its link has reached. */
static double filled(double limit, double highest, double reached, const double *weights, int64_t f)
{
    return larger(highest <= reached ? limit : weights ? weights[f] * reached : reached, 0.0);
}

/* The flow grows no more. */
static void stop(filling_link *filling, const int64_t *path, int64_t width, double rate, const double *weights,
                 int64_t f)
{
    const double weight = weights ? weights[f] : 1.0;
    for (int64_t h = 0; h < width; h++) {
        filling_link *link = filling + path[h];
        link->taken += rate;
        link->stopped += weight;
        link->flows--;
    }
}

/* What is left of the links for flows that still grow; returns how many have some. */
static int64_t after_round(filling_link *filling, int64_t *active, int64_t links)
{
    int64_t kept = 0;
    for (int64_t t = 0; t < links; t++) {
        filling_link *link = filling + active[t];
        link->left -= link->taken;
        link->weight -= link->stopped;
        if (link->flows)
            active[kept++] = active[t];
    }
    return kept;
}

/* Progressive filling, as sharing.max_min. `hop`: `width` link numbers for each flow; `capacity` is not changed.
 * `weights`: NULL is 1 for every flow. What is kept of a link lies together: it is read and written hop by hop. */
void max_min(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                    const double *weights, const double *capacity, double *rates)
{
    const int64_t endless = n->links - 1;
    filling_link *filling = n->filling;
    double *highest = n->highest;   /* level at which each flow is at its limit */
    int64_t *touched = n->touched, *growing = n->growing;
    int64_t *active = n->active;   /* links with flows that still grow: most flows are done in the first round */
    int64_t touched_links = 0, active_links = 0, left_flows = 0;
    double lowest_level = INFINITY;
    for (int64_t f = 0; f < flows; f++) {
        const double weight = weights ? weights[f] : 1.0;
        highest[f] = weights ? limits[f] / weight : limits[f];
        for (int64_t h = 0; h < width; h++) {
            filling_link *link = filling + hop[f * width + h];
            if (!link->flows) {
                link->weight = 0.0;
                link->left = capacity[hop[f * width + h]];
                touched[touched_links++] = hop[f * width + h];
            }
            link->flows++;
            link->weight += weight;
        }
    }
    for (int64_t t = 0; t < touched_links; t++) {
        filling_link *link = filling + touched[t];
        link->taken = link->stopped = 0.0;
        if (touched[t] != endless)
            lowest_level = smaller(link->left / link->weight, lowest_level);
    }
    /* Levels only rise: with a limit below all of them a flow is done. */
    for (int64_t f = 0; f < flows; f++) {
        if (highest[f] <= lowest_level)
            stop(filling, hop + f * width, width, rates[f] = larger(limits[f], 0.0), weights, f);
        else
            growing[left_flows++] = f;
    }
    memcpy(active, touched, sizeof(int64_t) * (size_t)touched_links);
    active_links = after_round(filling, active, touched_links);
    while (left_flows) {
        for (int64_t t = 0; t < active_links; t++) {
            filling_link *link = filling + active[t];
            link->level = active[t] == endless ? INFINITY : link->left / link->weight;
            link->nearly = link->level * SAME;
            link->taken = link->stopped = 0.0;
            link->open = 0;
        }
        /* How far each flow would get, and which links are not full then because a flow of theirs is held elsewhere. */
        for (int64_t g = 0; g < left_flows; g++) {
            int64_t f = growing[g];
            const int64_t *path = hop + f * width;
            double reached = filling[path[0]].level;
            for (int64_t h = 1; h < width; h++)
                reached = smaller(filling[path[h]].level, reached);
            reached = smaller(highest[f], reached);
            rates[f] = reached;
            for (int64_t h = 0; h < width; h++)
                filling[path[h]].open |= reached < filling[path[h]].nearly;
        }
        int64_t still = 0, lowest = growing[0];
        for (int64_t g = 0; g < left_flows; g++) {
            int64_t f = growing[g], done = highest[f] <= rates[f];
            const int64_t *path = hop + f * width;
            for (int64_t h = 0; !done && h < width; h++)
                done = !filling[path[h]].open;
            if (rates[f] < rates[lowest])
                lowest = f;
            if (!done)
                growing[still++] = f;
            else
                stop(filling, path, width, rates[f] = filled(limits[f], highest[f], rates[f], weights, f), weights, f);
        }
        if (still == left_flows) {   /* rounding left no clear bottleneck */
            rates[lowest] = filled(limits[lowest], highest[lowest], rates[lowest], weights, lowest);
            stop(filling, hop + lowest * width, width, rates[lowest], weights, lowest);
            int64_t kept = 0;
            for (int64_t g = 0; g < still; g++)
                if (growing[g] != lowest)
                    growing[kept++] = growing[g];
            still = kept;
        }
        active_links = after_round(filling, active, active_links);
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

/* ---- MLTCP's weights (flowcore/allocation/aggressiveness.py) ---- */

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
    for (int64_t f = 0; n->weighted && f < flows; f++) {
        int64_t row = n->solved[f];
        n->weights[f] = 1.0;
        if (n->piece[row] > 0.0) {
            double part = (piece_of(n, row) + 0.5) * n->piece[row] / n->size[row];
            n->weights[f] = n->slope * smaller(part, 1.0) + n->intercept;
        }
    }
    return n->weighted ? n->weights : NULL;
}
