/* Dividing links among a crowd: flowcore's rates_by_price and ceilings (allocation/pricing.py, borrowing.py) with the
 * same order and rounding. All memory is the caller's. */

#include "network.h"

/* The order of jobs, best payer first; equal ones as they come (merge sort of `order`, with `spare` beside it). */
void sort_by_worth(const double *worth, int64_t *order, int64_t *spare, int64_t jobs)
{
    for (int64_t width = 1; width < jobs; width *= 2) {
        for (int64_t from = 0; from < jobs; from += 2 * width) {
            int64_t middle = from + width < jobs ? from + width : jobs, end = middle + width < jobs ? middle + width : jobs;
            int64_t a = from, b = middle, at = from;
            while (a < middle && b < end)
                spare[at++] = worth[order[b]] > worth[order[a]] ? order[b++] : order[a++];
            while (a < middle)
                spare[at++] = order[a++];
            while (b < end)
                spare[at++] = order[b++];
        }
        memcpy(order, spare, sizeof(int64_t) * (size_t)jobs);
    }
}

/* As arbiters.groups: jobs connected through links. The label of a job is the first job of its group; `seen_on`: of every
 * link a job that crosses it, at first -1. */
static int64_t root_of(int64_t *parent, int64_t job)
{
    while (parent[job] != job)
        job = parent[job] = parent[parent[job]];
    return job;
}

void link_groups(int64_t jobs, const int64_t *first, const int64_t *link, int64_t *label, int64_t *seen_on)
{
    for (int64_t job = 0; job < jobs; job++)
        label[job] = job;
    for (int64_t job = 0; job < jobs; job++)
        for (int64_t e = first[job]; e < first[job + 1]; e++) {
            int64_t other = seen_on[link[e]];
            if (other >= 0) {
                int64_t a = root_of(label, job), b = root_of(label, other);
                label[a > b ? a : b] = a > b ? b : a;
            }
            seen_on[link[e]] = job;
        }
    for (int64_t job = 0; job < jobs; job++)
        label[job] = root_of(label, job);
}

static void load_of(const struct prices *p, double *load, const double *pays)
{
    memset(load, 0, sizeof(double) * (size_t)p->links);
    for (int64_t job = 0; job < p->jobs; job++)
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            load[p->link[e]] += pays ? p->use[e] * pays[job] : p->use[e];
}

static double cost_of(const struct prices *p, int64_t job, const double *price)
{
    double cost = 0.0;
    for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
        cost += price[p->link[e]] * p->use[e];
    return cost;
}

void price_rates(struct prices *p)
{
    double *price = p->price, *wanted = p->wanted, *use = p->use;
    for (int64_t job = 0; job < p->jobs; job++) {
        double alone = INFINITY;
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            alone = smaller(p->capacity[p->link[e]] / p->flows[e], alone);
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            use[e] = p->flows[e] * alone / p->capacity[p->link[e]];
    }
    load_of(p, wanted, NULL);
    memset(price, 0, sizeof(double) * (size_t)p->links);
    for (int64_t job = 0; job < p->jobs; job++) {
        double spread = 0.0;
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            spread += use[e] * wanted[p->link[e]];
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            price[p->link[e]] += p->weight[job] / spread * use[e] * wanted[p->link[e]];
    }
    for (int64_t link = 0; link < p->links; link++)
        price[link] = wanted[link] <= 1.0 ? 0.0 : price[link] / larger(wanted[link], 1e-12);
    for (int64_t round = 0; round < p->rounds; round++) {
        for (int64_t job = 0; job < p->jobs; job++)
            p->pays[job] = p->weight[job] >= cost_of(p, job, price);
        load_of(p, wanted, p->pays);
        for (int64_t link = 0; link < p->links; link++)
            price[link] *= sqrt(smaller(larger(wanted[link], 0.25), 4.0));
    }
    for (int64_t job = 0; job < p->jobs; job++) {
        p->worth[job] = p->weight[job] / (cost_of(p, job, price) + 1e-9 * p->weight[job]);
        p->order[job] = job;
    }
    sort_by_worth(p->worth, p->order, p->spare, p->jobs);
    /* Each takes what those before it left. */
    double *left = wanted;
    memcpy(left, p->capacity, sizeof(double) * (size_t)p->links);
    for (int64_t place = 0; place < p->jobs; place++) {
        int64_t job = p->order[place];
        double rate = INFINITY;
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            rate = smaller(left[p->link[e]] / p->flows[e], rate);
        p->rates[job] = rate = larger(rate, 0.0);
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            left[p->link[e]] -= p->flows[e] * rate;
    }
}

/* At each hop of each flow: what the flows of the same owner have there together. */
static void sums_of(const struct borrowing *b, const int64_t *owner, double *sums)
{
    for (int64_t one = 0; one < b->owners; one++)
        b->head[one] = -1;
    for (int64_t f = b->flows - 1; f >= 0; f--) {
        b->next[f] = b->head[owner[f]];
        b->head[owner[f]] = f;
    }
    for (int64_t one = 0; one < b->owners; one++) {
        for (int64_t f = b->head[one]; f >= 0; f = b->next[f])
            for (int64_t h = 0; h < b->hops; h++)
                b->sum[b->path[f * b->hops + h]] = 0.0;
        for (int64_t f = b->head[one]; f >= 0; f = b->next[f])
            for (int64_t h = 0; h < b->hops; h++)
                b->sum[b->path[f * b->hops + h]] += b->share[f];
        for (int64_t f = b->head[one]; f >= 0; f = b->next[f])
            for (int64_t h = 0; h < b->hops; h++)
                sums[f * b->hops + h] = b->sum[b->path[f * b->hops + h]];
    }
}

static int is_full(const struct borrowing *b, int64_t link)
{
    return b->taken[link] >= b->nearly_all * b->capacity[link];
}

static int waits(const struct borrowing *b, int64_t f)
{
    return b->share[f] <= (1.0 - b->nearly_all) * b->capacity[b->path[f * b->hops]];
}

/* Of each link: how many hosts have flows there that wait and that no full link holds up. */
static void count_waiting(const struct borrowing *b)
{
    for (int64_t e = 0; e < b->flows * b->hops; e++) {
        b->waiting[b->path[e]] = 0.0;
        b->sum[b->path[e]] = -1.0;   /* the last host that was counted there */
    }
    for (int64_t one = 0; one < b->owners; one++)
        b->head[one] = -1;
    for (int64_t f = b->flows - 1; f >= 0; f--) {
        b->next[f] = b->head[b->host[f]];
        b->head[b->host[f]] = f;
    }
    for (int64_t one = 0; one < b->owners; one++)
        for (int64_t f = b->head[one]; f >= 0; f = b->next[f]) {
            const int64_t *path = b->path + f * b->hops;
            int able = waits(b, f);
            for (int64_t h = 0; h < b->hops; h++)
                able = able && !is_full(b, path[h]);
            for (int64_t h = 0; able && h < b->hops; h++)
                if (b->sum[path[h]] != (double)one) {
                    b->sum[path[h]] = (double)one;
                    b->waiting[path[h]] += 1.0;
                }
        }
}

void borrow(struct borrowing *b)
{
    memset(b->taken, 0, sizeof(double) * (size_t)b->links);
    for (int64_t f = 0; f < b->flows; f++)
        for (int64_t h = 0; h < b->hops; h++)
            b->taken[b->path[f * b->hops + h]] += b->share[f];
    sums_of(b, b->host, b->of_host);
    sums_of(b, b->job, b->of_job);
    count_waiting(b);
    for (int64_t f = 0; f < b->flows; f++) {
        const int64_t *path = b->path + f * b->hops;
        int full = is_full(b, path[0]), waiting = waits(b, f);
        double least = INFINITY;
        for (int64_t h = 0; h < b->hops; h++) {
            double taken = b->taken[path[h]], own = b->of_job[f * b->hops + h];
            double left = b->capacity[path[h]] - taken;
            if (!(own >= b->nearly_all * taken)) {
                own = full ? b->of_host[f * b->hops + h] : b->share[f];
                if (waiting && h > 0)
                    left /= larger(b->waiting[path[h]], 1.0);
            }
            least = smaller(left + own, least);
        }
        b->ceiling[f] = larger(least, b->share[f]);
    }
}
