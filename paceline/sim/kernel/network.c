/* The inner loops of the array engine's network, compiled: what steps.py computes with numpy, in the same order and
 * with the same rounding, so that a run gives the same bytes with either (tests/sim/kernel/test_steps.py).
 *
 * Physics only: how links and NICs are shared, how bytes move, and what waits for what. What a host or a switch decides
 * is flowcore's, in Python. All memory is the caller's: numpy's columns, and scratch of the sizes given beside each.
 */

#include "network.h"

const char source_mark[] = SOURCE_MARK;   /* by which build.py knows the source of a library */

static inline int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t sending(const struct network *n)
{
    int64_t count = 0;
    for (int64_t row = 0; row < n->rows; row++)
        count += n->live[row];
    return count;
}

static int64_t step_of(const struct network *n, int64_t flows)
{
    if (n->fixed_step_ns >= 0)
        return n->fixed_step_ns;
    int64_t step_ns = n->step_ns_per_flow * flows;
    step_ns = step_ns > n->shortest_step_ns ? step_ns : n->shortest_step_ns;
    return step_ns < n->longest_min_step_ns ? step_ns : n->longest_min_step_ns;
}

/* What each link carries, less what the jobs that send over it lose by colliding. Flows of a job may lie anywhere in
 * the table, so each link keeps the jobs it has met in a chain of pairs (job, next pair). */
static const double *carried(struct network *n, int64_t flows, const double *limits)
{
    if (!n->contention)
        return n->capacity;
    int64_t pairs = 0;
    memcpy(n->carried, n->capacity, sizeof(double) * (size_t)n->links);
    for (int64_t link = 0; link < n->links; link++) {
        n->last_job[link] = -1;
        n->on_link[link] = 0;
    }
    for (int64_t f = 0; f < flows; f++) {
        if (!(limits[f] > 0.0))
            continue;
        int64_t row = n->solved[f], job = n->job[row];
        for (int64_t h = 0; h < n->hops; h++) {
            int64_t link = n->path[row * n->hops + h], at = n->last_job[link];
            while (at >= 0 && n->pairs[2 * at] != job)
                at = n->pairs[2 * at + 1];
            if (at < 0) {
                n->pairs[2 * pairs] = job;
                n->pairs[2 * pairs + 1] = n->last_job[link];
                n->last_job[link] = pairs++;
                n->on_link[link]++;
            }
        }
    }
    for (int64_t link = 0; link < n->links; link++) {
        int64_t jobs = n->on_link[link] > 1 ? n->on_link[link] : 1;
        n->carried[link] = n->capacity[link] / n->contention[jobs];
    }
    return n->carried;
}

static void share(struct network *n, int64_t flows, int64_t coarse)
{
    const int64_t width = n->hops;
    const double *capacity = carried(n, flows, n->limits), *by_weight = weights(n, flows);
    double *limits = n->limits, *wanted = n->wanted, *allowed = n->allowed, *rates = n->shares;
    for (int64_t f = 0; f < flows; f++)
        memcpy(n->hop + f * width, n->path + n->solved[f] * width, sizeof(int64_t) * (size_t)width);
    /* A NIC whose paced flows want more than it has is divided by its HTB; cross traffic passes by it. */
    double *asked = n->level;
    int64_t *count = n->on_link, members = 0;
    for (int64_t f = 0; f < flows; f++) {
        int64_t nic = n->hop[f * width];
        asked[nic] = 0.0;
        count[nic] = 0;
    }
    for (int64_t f = 0; f < flows; f++) {
        int64_t nic = n->hop[f * width];
        if (n->paced[n->solved[f]]) {
            asked[nic] += limits[f];
            count[nic]++;
        }
    }
    for (int64_t f = 0; f < flows; f++) {
        int64_t nic = n->hop[f * width];
        if (n->paced[n->solved[f]] && asked[nic] > capacity[nic] && count[nic] > 1)
            n->members[members++] = f;
    }
    if (!members) {
        max_min(n, flows, width, n->hop, limits, by_weight, capacity, rates);
        return;
    }
    memcpy(wanted, limits, sizeof(double) * (size_t)flows);
    /* The columns of the members lie behind those of the flows, and HTB's answer behind those. */
    int64_t *nics = n->hop + flows * width;
    double *want = n->may_send, *firm = n->firm_of, *given = n->before;
    for (int64_t m = 0; m < members; m++) {
        nics[m] = n->hop[n->members[m] * width];
        firm[m] = n->firm[n->solved[n->members[m]]];
    }
    for (int64_t round = 0; round < (coarse ? 1 : n->htb_rounds); round++) {
        memcpy(allowed, wanted, sizeof(double) * (size_t)flows);
        for (int64_t m = 0; m < members; m++)
            want[m] = wanted[n->members[m]];
        share_nics(n, members, nics, want, firm, n->capacity, given);
        for (int64_t m = 0; m < members; m++)
            allowed[n->members[m]] = given[m];
        max_min(n, flows, width, n->hop, allowed, by_weight, capacity, rates);
        /* A flow that the network holds below its share of the NIC leaves the rest to its neighbours there. */
        int64_t held = 0;
        for (int64_t m = 0; m < members; m++) {
            int64_t f = n->members[m];
            if (rates[f] < smaller(allowed[f], wanted[f]) * HELD) {
                held = 1;
                wanted[f] = rates[f];
            }
        }
        if (!held)
            break;
    }
}

/* ---- What waits for what ---- */

/* What the slowest flow of every feed will have delivered by then. */
static void slowest(struct network *n, int64_t ahead_ns)
{
    const double ahead = (double)ahead_ns / BIT_NS_PER_BYTE_S;
    for (int64_t feed = 0; feed < n->feeds; feed++) {
        double least = INFINITY;
        for (int64_t u = n->first_upstream[feed]; u < n->first_upstream[feed + 1]; u++) {
            int64_t row = n->upstream[u];
            double delivered;
            if (n->start_after) {
                double grain = n->upstream_grain[u];
                delivered = floor((n->sent[row] + n->caught_up_bytes) / grain) * grain;
            } else {
                delivered = smaller(n->sent[row] + n->rate[row] * ahead, n->goal[row]);
            }
            least = smaller(delivered, least);
        }
        n->slowest[feed] = least;
    }
}

/* How much more each live flow may send until then, given what its upstream will have delivered; by row. */
static void may_send(struct network *n, int64_t ahead_ns)
{
    for (int64_t f = 0; f < n->solved_flows; f++)
        n->may_send[n->solved[f]] = INFINITY;
    slowest(n, ahead_ns);
    for (int64_t f = 0; f < n->fed_flows; f++) {
        int64_t row = n->fed[f];
        n->may_send[row] = n->slowest[n->by[f]] + n->window[row] - n->sent[row];
    }
}

/* No flow forwards what has not arrived; `before`: F at the beginning of the step, when that was so. */
static void hold_back(struct network *n)
{
    for (int64_t changed = n->fed_flows > 0; changed;) {
        changed = 0;
        slowest(n, 0);
        for (int64_t f = 0; f < n->fed_flows; f++) {
            int64_t row = n->fed[f];
            double most = n->slowest[n->by[f]] + n->window[row];
            n->may_send[f] = -1.0;
            if (n->sent[row] > most + n->rounding_bytes) {
                n->may_send[f] = larger(n->before[row], most);
                changed |= n->may_send[f] < n->sent[row];
            }
        }
        for (int64_t f = 0; changed && f < n->fed_flows; f++)
            if (n->may_send[f] >= 0.0)
                n->sent[n->fed[f]] = n->may_send[f];
    }
}

/* ---- Rates and time ---- */

static void solve(struct network *n)
{
    int64_t flows = 0;
    n->stale = 0;
    for (int64_t row = 0; row < n->rows; row++)
        if (n->live[row])
            n->solved[flows++] = row;
    n->solved_flows = flows;
    if (!flows) {
        n->converged = 1;
        return;
    }
    int64_t step = step_of(n, flows), coarse = step >= n->coarse_step_ns;
    int64_t rounds = flows > n->crowd || coarse ? 1 : n->dependency_rounds;
    for (int64_t round = 0; round < rounds; round++) {
        may_send(n, step);
        for (int64_t f = 0; f < flows; f++) {
            int64_t row = n->solved[f];
            double allowed = larger(n->may_send[row], 0.0), limit = smaller(n->ceiling[row], n->local_bps);
            if (allowed < n->goal[row] - n->sent[row])
                limit = smaller(limit, allowed * (BIT_NS_PER_BYTE_S / (double)step));
            n->limits[f] = limit;
        }
        share(n, flows, coarse);
        n->converged = 1;
        for (int64_t f = 0; f < flows; f++) {
            double *rate = n->rate + n->solved[f], now = n->shares[f];
            if (fabs(now - *rate) > n->converged_part * larger(now, *rate))
                n->converged = 0;
            *rate = now;
        }
        if (n->converged)
            return;
    }
}

/* The rate of the slowest flow of a feed. */
static double slowest_bps(const struct network *n, int64_t feed)
{
    double least = INFINITY;
    for (int64_t u = n->first_upstream[feed]; u < n->first_upstream[feed + 1]; u++)
        least = smaller(n->rate[n->upstream[u]], least);
    return least;
}

/* When the next step should end, unless something else happens first; never sooner than a step. */
static int64_t next_change_ns(struct network *n)
{
    if (n->stale || !n->converged)
        solve(n);
    int64_t step = step_of(n, n->solved_flows), soonest_ns = n->now_ns + step;
    n->change_ns = soonest_ns;
    if (!n->solved_flows || n->solved_flows > n->crowd)
        return soonest_ns;
    if (!n->was_short && step < n->coarse_step_ns)
        soonest_ns = n->now_ns + earlier(step, n->shortest_to_change_ns);
    if (!n->converged) {   /* a ring of waiting flows can pass small differences round for ever */
        if (n->now_ns + n->unconverged_step_ns > soonest_ns)
            n->change_ns = n->now_ns + n->unconverged_step_ns;
        return n->change_ns;
    }
    double wait_ns = (double)n->longest_step_ns;
    may_send(n, 0);
    for (int64_t f = 0; f < n->solved_flows; f++) {
        int64_t row = n->solved[f];
        double rate = n->rate[row], left = n->goal[row] - n->sent[row], allowed = n->may_send[row];
        /* A flow within a step of its upstream has caught up with it: solve() holds the flow to that pace. */
        if (allowed > n->caught_up_bytes + rate * ((double)(2 * step) / BIT_NS_PER_BYTE_S))
            left = smaller(left, allowed);
        if (n->start_after) {
            double to_boundary = n->grain[row] - fmod(n->sent[row], n->grain[row]);
            if (to_boundary > n->caught_up_bytes)
                left = smaller(left, to_boundary);
        }
        if (n->weighted && n->piece[row] > 0.0)
            left = smaller(left, left_of_piece(n, row));
        if (rate > 0.0)
            wait_ns = smaller(left * BIT_NS_PER_BYTE_S / rate, wait_ns);
    }
    /* Until a flow that is within a step of its upstream, but faster, has caught up: what it has beyond its upstream's
     * rate is then free for other flows. */
    for (int64_t f = 0; !n->start_after && f < n->fed_flows; f++) {
        int64_t row = n->fed[f];
        double rate = n->rate[row], gap = larger(n->may_send[row], 0.0);
        if (!n->live[row] || !(gap <= n->caught_up_bytes + rate * ((double)(2 * step) / BIT_NS_PER_BYTE_S)))
            continue;
        double gains_bps = rate - slowest_bps(n, n->by[f]);
        if (gains_bps > n->converged_part * rate)
            wait_ns = smaller(gap * BIT_NS_PER_BYTE_S / gains_bps, wait_ns);
    }
    int64_t change_ns = n->now_ns + (int64_t)ceil(wait_ns);
    n->change_ns = change_ns > soonest_ns ? change_ns : soonest_ns;
    return n->change_ns;
}

/* To the nanosecond, rounded up; 0 for what stands still with nothing but rounding left to send. */
static double transfer_ns(double size_bytes, double rate_bps)
{
    if (!(rate_bps > 0.0))
        return 0.0;
    double duration_ns = ceil(size_bytes * BIT_NS_PER_BYTE_S / rate_bps);
    return duration_ns + (rate_bps * duration_ns / BIT_NS_PER_BYTE_S < size_bytes);
}

/* Let bytes move; notes time and row of the flows that are through, in order. */
static void advance(struct network *n, int64_t to_ns)
{
    int64_t elapsed_ns = to_ns - n->now_ns, before_ns = n->now_ns, any = 0;
    n->now_ns = to_ns;
    n->stale |= to_ns >= n->change_ns;
    if (!elapsed_ns)
        return;
    const double elapsed = (double)elapsed_ns / BIT_NS_PER_BYTE_S;
    for (int64_t row = 0; row < n->rows; row++) {
        n->before[row] = n->sent[row];
        if (n->live[row]) {
            any = 1;
            n->sent[row] = smaller(n->sent[row] + n->rate[row] * elapsed, n->goal[row]);
        }
    }
    if (!any)
        return;
    hold_back(n);
    for (int64_t row = 0; row < n->rows; row++) {
        if (!n->live[row] || !(n->sent[row] >= n->goal[row] - n->rounding_bytes))
            continue;
        double end = (double)before_ns + transfer_ns(n->goal[row] - n->before[row], n->rate[row]);
        if (!(end <= (double)to_ns))
            continue;
        int64_t at = n->ended_flows++;
        for (; at > 0 && n->end_ns[at - 1] > (int64_t)end; at--) {
            n->end_ns[at] = n->end_ns[at - 1];
            n->ended[at] = n->ended[at - 1];
        }
        n->end_ns[at] = (int64_t)end;
        n->ended[at] = row;
        n->sent[row] = n->goal[row];
        n->live[row] = 0;
        n->rate[row] = 0.0;
        n->stale = 1;
    }
}

/* When the first flow comes to its mark; not looked for in a crowd, where steps are short anyway. */
static int64_t mark_ns(const struct network *n)
{
    double wait_ns = (double)n->longest_step_ns;
    if (n->solved_flows > n->crowd)
        return n->now_ns + n->longest_step_ns;
    for (int64_t f = 0; f < n->solved_flows; f++) {
        int64_t row = n->solved[f];
        if (n->mark[row] < INFINITY && n->rate[row] > 0.0)
            wait_ns = smaller((n->mark[row] - n->sent[row]) * BIT_NS_PER_BYTE_S / n->rate[row], wait_ns);
    }
    return n->now_ns + later((int64_t)ceil(wait_ns), 1);
}

/* Step by step until a flow is through or at its mark, or until one of these times; see Steps.run. */
void run(struct network *n, int64_t event_ns, int64_t control_ns, int64_t until_ns)
{
    n->ended_flows = n->marked_flows = 0;
    for (;;) {
        int64_t next_ns = event_ns, flows = sending(n), first_ns = control_ns;
        if (flows) {
            int64_t change_ns = next_change_ns(n), step = step_of(n, flows), coarse = step >= n->coarse_step_ns;
            int64_t least_ns = n->now_ns + (coarse ? step : earlier(step, n->shortest_to_change_ns));
            next_ns = earlier(later(event_ns, least_ns), change_ns);
            first_ns = earlier(control_ns, mark_ns(n));
            if (coarse)
                first_ns = later(first_ns, least_ns);
            n->was_short = earlier(earlier(next_ns, first_ns), until_ns) < n->now_ns + step;
            n->steps++;
            n->flow_steps += flows;
        }
        advance(n, later(earlier(earlier(next_ns, first_ns), until_ns), n->now_ns));
        for (int64_t row = 0; row < n->rows; row++)
            if (n->live[row] && n->sent[row] >= n->mark[row]) {
                n->marked[n->marked_flows++] = row;
                n->mark[row] = INFINITY;
            }
        if (n->ended_flows || n->marked_flows || n->now_ns >= earlier(earlier(event_ns, control_ns), until_ns))
            return;
    }
}
