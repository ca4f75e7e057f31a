/* How links and NICs are shared: sharing.py with the same order and rounding. */

#include "network.h"

/* Progressive filling, as sharing.max_min. `hop`: `width` link numbers for each flow; `capacity` is not changed. */
void max_min(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                    const double *capacity, double *rates)
{
    const int64_t endless = n->links - 1;
    double *left = n->left, *level = n->level, *taken = n->taken;
    int64_t *on_link = n->on_link, *open = n->open, *touched = n->touched, *growing = n->growing;
    int64_t *active = n->active;   /* links with flows that still grow: most flows are done in the first round */
    int64_t touched_links = 0, active_links = 0, left_flows = flows;
    for (int64_t f = 0; f < flows; f++) {
        growing[f] = f;
        for (int64_t h = 0; h < width; h++) {
            int64_t link = hop[f * width + h];
            if (!n->seen[link]) {
                n->seen[link] = 1;
                on_link[link] = 0;
                left[link] = capacity[link];
                touched[touched_links++] = link;
            }
            on_link[link]++;
        }
    }
    memcpy(active, touched, sizeof(int64_t) * (size_t)touched_links);
    active_links = touched_links;
    while (left_flows) {
        for (int64_t t = 0; t < active_links; t++) {
            int64_t link = active[t];
            level[link] = link == endless ? INFINITY : left[link] / (double)on_link[link];
            open[link] = 0;
            taken[link] = 0.0;
        }
        /* How far each flow would get, and which links are not full then because a flow of theirs is held elsewhere. */
        for (int64_t g = 0; g < left_flows; g++) {
            int64_t f = growing[g];
            const int64_t *path = hop + f * width;
            double reached = level[path[0]];
            for (int64_t h = 1; h < width; h++)
                reached = smaller(level[path[h]], reached);
            reached = smaller(limits[f], reached);
            rates[f] = reached;
            for (int64_t h = 0; h < width; h++)
                open[path[h]] |= reached < level[path[h]] * SAME;
        }
        int64_t still = 0, lowest = growing[0];
        for (int64_t g = 0; g < left_flows; g++) {
            int64_t f = growing[g], done = limits[f] <= rates[f];
            const int64_t *path = hop + f * width;
            for (int64_t h = 0; !done && h < width; h++)
                done = !open[path[h]];
            if (rates[f] < rates[lowest])
                lowest = f;
            if (!done) {
                growing[still++] = f;
                continue;
            }
            rates[f] = larger(rates[f], 0.0);
            for (int64_t h = 0; h < width; h++) {
                taken[path[h]] += rates[f];
                on_link[path[h]]--;
            }
        }
        if (still == left_flows) {   /* rounding left no clear bottleneck */
            const int64_t *path = hop + lowest * width;
            rates[lowest] = larger(rates[lowest], 0.0);
            for (int64_t h = 0; h < width; h++) {
                taken[path[h]] += rates[lowest];
                on_link[path[h]]--;
            }
            int64_t kept = 0;
            for (int64_t g = 0; g < still; g++)
                if (growing[g] != lowest)
                    growing[kept++] = growing[g];
            still = kept;
        }
        int64_t kept_links = 0;
        for (int64_t t = 0; t < active_links; t++) {
            int64_t link = active[t];
            left[link] -= taken[link];
            if (on_link[link])
                active[kept_links++] = link;
        }
        active_links = kept_links;
        left_flows = still;
    }
    for (int64_t t = 0; t < touched_links; t++)
        n->seen[touched[t]] = 0;
}

void share_links(struct network *n, int64_t flows, int64_t width, const int64_t *hop, const double *limits,
                 const double *capacity, double *rates)
{
    max_min(n, flows, width, hop, limits, capacity, rates);
}

/* As sharing.htb: guarantees first, then what is left of each NIC. */
void share_nics(struct network *n, int64_t flows, const int64_t *nic, const double *wanted, const double *guaranteed,
                const double *capacity, double *rates)
{
    double *base = n->base, *more = n->more, *nic_left = n->nic_left;
    for (int64_t f = 0; f < flows; f++)
        more[f] = smaller(wanted[f], guaranteed[f]);
    max_min(n, flows, 1, nic, more, capacity, base);
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
    max_min(n, flows, 1, nic, more, nic_left, rates);
    for (int64_t f = 0; f < flows; f++)
        rates[f] = base[f] + rates[f];
}
