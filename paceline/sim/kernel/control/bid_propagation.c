/* How far renewed bids have come up the tree of switches: array/bid_propagation.py. */

#include "control.h"

enum { HALF_SLOTS_TO_THE_TOP = 8, MOST_TIMES = 256 };

static int64_t right_of(const list *times_ns, int64_t until_ns)   /* bisect_right */
{
    int64_t low = 0, high = times_ns->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (until_ns < times_ns->items[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* When the switch last reallocated; -1: never. */
static int64_t last_ns(const struct control *c, int64_t at, int64_t until_ns)
{
    const int64_t since_ns = until_ns - c->epoch_ns;
    int64_t last = since_ns >= 0 ? until_ns - since_ns % c->half_slot_ns : -1;
    for (int64_t latencies = 0; latencies <= MOST_TIERS; latencies++) {
        const list *times_ns = c->times + at * (MOST_TIERS + 1) + latencies;
        int64_t count = times_ns->count ? right_of(times_ns, until_ns) : 0;
        if (count && (last < 0 || times_ns->items[count - 1] > last))
            last = times_ns->items[count - 1];
    }
    return last;
}

int64_t heard_ns(const struct control *c, int64_t tor, int64_t delay_ns, int64_t now_ns)
{
    if (delay_ns <= c->latency_ns)
        return now_ns - delay_ns;
    const int64_t *above = c->above + tor * MOST_TIERS;
    int64_t when_ns = now_ns, tier = delay_ns / c->latency_ns - 2;
    while (tier >= 0 && (tier >= MOST_TIERS || above[tier] < 0))
        tier--;
    for (; tier >= 0; tier--) {
        when_ns = last_ns(c, above[tier], when_ns - c->latency_ns);
        if (when_ns < 0)
            return 0;
    }
    return when_ns - c->latency_ns;
}

static void reallocates(struct control *c, int64_t at, int64_t latencies, int64_t now_ns)
{
    if (!c->has_parent[at])
        return;
    const int64_t when_ns = now_ns + latencies * c->latency_ns;
    list *times_ns = c->times + at * (MOST_TIERS + 1) + latencies;
    if (times_ns->count && times_ns->items[times_ns->count - 1] == when_ns)
        return;
    put(times_ns, when_ns);
    if (times_ns->count > MOST_TIMES) {
        int64_t old = right_of(times_ns, now_ns - HALF_SLOTS_TO_THE_TOP * c->half_slot_ns);
        times_ns->count -= old;
        memmove(times_ns->items, times_ns->items + old, sizeof(int64_t) * (size_t)times_ns->count);
    }
}

void claims_changed(struct control *c, int64_t tor, int64_t delay_ns, const list *passes, int64_t now_ns)
{
    if (!delay_ns)
        return;
    const int64_t *above = c->above + tor * MOST_TIERS, tiers = delay_ns / c->latency_ns;
    for (int64_t tier = 0; tier < tiers && tier < MOST_TIERS && above[tier] >= 0; tier++)
        reallocates(c, above[tier], tier + 1, now_ns);
    for (int64_t at = 0; at < passes->count; at++)
        reallocates(c, passes->items[at], 2, now_ns);
}
