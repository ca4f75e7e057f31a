/* The rules of flowcore that `mlcc` is made of, to the last bit: tests/sim/kernel/test_planned.py.
 * Sums are added up in Python's order. */

#include "planned.h"

/* ---- Algorithm 1: allocation/allocator.py, allocate ---- */

void allocate_volumes(const struct planning *p, double volume_bytes, int64_t horizon, const double *room_bytes,
                      const double *price, double *volume)
{
    for (int64_t t = 0; t < horizon; t++)
        volume[t] = 0.0;
    if (volume_bytes <= 0.0)
        return;
    const double enough = volume_bytes * (1.0 - p->rounding);
    double sum = 0.0, room[MOST_HORIZON];
    int64_t slot = 0;
    for (; slot < horizon; slot++) {
        sum += room_bytes[slot];
        if (sum >= enough)
            break;
    }
    if (slot == horizon) {
        memcpy(volume, room_bytes, sizeof(double) * (size_t)horizon);
        return;
    }
    double least = price[0];
    for (int64_t t = 0; t < horizon; t++) {
        room[t] = room_bytes[t] < volume_bytes ? room_bytes[t] : volume_bytes;
        least = smaller(least, price[t]);
    }
    int64_t used[MOST_HORIZON], best_used[MOST_HORIZON], count = 0, best_count = 0;
    double held = 0.0, spent = 0.0, top_price = INFINITY, best_cost = INFINITY, best_surplus = 0.0;
    for (int64_t t = 0; t < slot; t++) {   /* cheapest first, ties by index */
        int64_t at = count++;
        for (; at && price[used[at - 1]] > price[t]; at--)
            used[at] = used[at - 1];
        used[at] = t;
        held += room[t];
        spent += room[t] * price[t];
    }
    least *= p->default_weight;
    for (; slot < horizon && (double)(slot + 1) + least < best_cost; slot++) {
        if (!(price[slot] < top_price))
            continue;
        int64_t at = count++;
        for (; at && price[used[at - 1]] > price[slot]; at--)
            used[at] = used[at - 1];
        used[at] = slot;
        held += room[slot];
        spent += room[slot] * price[slot];
        while (held - room[used[count - 1]] >= enough) {
            const int64_t top = used[--count];
            held -= room[top];
            spent -= room[top] * price[top];
        }
        top_price = price[used[count - 1]];
        const double surplus = held - volume_bytes;
        const double cost = (double)(slot + 1) + p->default_weight * ((spent - surplus * top_price) / volume_bytes);
        if (cost < best_cost) {
            best_cost = cost;
            best_surplus = surplus;
            best_count = count;
            memcpy(best_used, used, sizeof(int64_t) * (size_t)count);
        }
    }
    for (int64_t at = 0; at < best_count; at++)
        volume[best_used[at]] = room[best_used[at]];
    if (best_surplus > 0.0)
        volume[best_used[best_count - 1]] = larger(0.0, room[best_used[best_count - 1]] - best_surplus);
}

/* ---- B_i: host/bandwidth.py ---- */

static void restart_stretch(struct stretches *s)
{
    s->sent_bytes = s->allowed_bits_ns = 0.0;
    s->busy_ns = 0;
}

void begin_stretches(struct stretches *s)
{
    s->sampled = 0;
    restart_stretch(s);
}

void pass_stretch(struct stretches *s, int64_t elapsed_ns, double limit_bps)
{
    s->busy_ns += elapsed_ns;
    s->allowed_bits_ns += limit_bps * (double)elapsed_ns;
}

static void end_stretch(struct stretches *s, int counts)
{
    const double sent_bps = s->sent_bytes * BIT_NS_PER_BYTE_S / (double)s->busy_ns;
    const double limit_bps = s->allowed_bits_ns / (double)s->busy_ns;
    if (counts && (!s->sampled || sent_bps > s->fastest_bps
                   || (sent_bps == s->fastest_bps && limit_bps > s->fastest_limit_bps))) {
        s->sampled = 1;
        s->fastest_bps = sent_bps;
        s->fastest_limit_bps = limit_bps;
    }
    restart_stretch(s);
}

void sent_in_stretch(const struct planning *p, struct stretches *s, double fresh_bytes, int counts)
{
    s->sent_bytes += fresh_bytes;
    if (s->busy_ns >= p->shortest_stretch_ns && !s->whole_slots)
        end_stretch(s, counts);
}

int take_stretches(struct stretches *s, int counts, double *sent_bps, double *limit_bps)
{
    if (!s->sampled && s->busy_ns > 0)
        end_stretch(s, counts);
    const int sampled = (int)s->sampled;
    *sent_bps = s->fastest_bps;
    *limit_bps = s->fastest_limit_bps;
    begin_stretches(s);
    return sampled;
}

double bandwidth_value(const struct planning *p, const struct estimate *e, int64_t slot)
{
    double most = e->probe_bps;
    int recent = 0;
    for (int64_t at = 0; at < e->count; at++)
        if (e->slot[at] > slot - p->window_slots) {
            recent = 1;
            most = larger(most, e->sent_bps[at]);
        }
    return recent ? smaller(e->line_rate_bps, most) : e->line_rate_bps;
}

void observe_bandwidth(const struct planning *p, struct estimate *e, int64_t slot, double sent_bps, double limit_bps)
{
    const double before_bps = bandwidth_value(p, e, slot);
    if (sent_bps >= p->limited_share * limit_bps)
        e->probe_bps = p->probe_gain * larger(before_bps, sent_bps);
    else
        e->probe_bps = limit_bps < p->limited_share * before_bps ? before_bps : 0.0;
    if (e->count == p->window_slots) {
        e->count--;
        memmove(e->slot, e->slot + 1, sizeof(int64_t) * (size_t)e->count);
        memmove(e->sent_bps, e->sent_bps + 1, sizeof(double) * (size_t)e->count);
    }
    e->slot[e->count] = slot;
    e->sent_bps[e->count++] = sent_bps;
}

/* ---- A plan: policy/mlcc.py, Mlcc._plan, with allocation/dependency.py ---- */

void plan_rates(const struct planning *p, const struct question *q, const double *before_bps, double *committed_bps,
                double *plan_bps)
{
    const int64_t horizon = q->horizon;
    const double first_ns = (double)q->left_ns, slot_ns = (double)q->slot_ns, per_slot = 8e9 / first_ns;
    double available[MOST_HORIZON], room[MOST_HORIZON], volume[MOST_HORIZON];
    for (int64_t t = 0; t < horizon; t++) {
        available[t] = larger(0.0, smaller(q->available_bps[t], q->bandwidth_bps) - committed_bps[t]);
        room[t] = available[t] * (t ? slot_ns : first_ns) / 8e9;
    }
    allocate_volumes(p, q->remaining_bytes, horizon, room, q->load, volume);
    double rate = volume[0] * 8e9 / first_ns;
    const double ahead = q->push ? q->downstream_bytes : q->upstream_bytes;
    const double shortfall = larger(ahead - (q->volume_bytes + volume[0]), 0.0);
    const double most = smaller(smaller(available[0], q->bandwidth_bps), q->remaining_bytes * per_slot);
    if (shortfall * per_slot > 0.0)
        rate = smaller(rate + shortfall * per_slot, q->bandwidth_bps);
    rate = smaller(rate, most);
    const double excess = larger(q->volume_bytes + rate / per_slot - q->upstream_bytes - q->window_bytes, 0.0);
    rate = larger(0.0, rate - excess * per_slot);
    const double rest = q->remaining_bytes - rate / per_slot;
    if (horizon > 1)
        allocate_volumes(p, rest, horizon - 1, room + 1, q->load + 1, volume + 1);
    plan_bps[0] = rate;
    for (int64_t t = 1; t < horizon; t++)
        plan_bps[t] = volume[t] * 8e9 / slot_ns;
    for (int64_t t = 0; t < horizon; t++)
        committed_bps[t] += plan_bps[t] - before_bps[t];
}
