/* The max-weight packing of a group of jobs: flowcore's Packing and simplex (allocation/arbiters.py, packing.py) with the
 * same order, ties and rounding. All memory is the caller's. */

#include "network.h"

static const double EPS = 1e-12;

static int same(const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

static int below(const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(a[i] <= b[i]))
            return 0;
    return 1;
}

/* What does not depend on bids: what each job reaches alone, and what it then uses of the links that can hold it back. */
void packing_rows(struct packing *p)
{
    const int64_t jobs = p->jobs;
    int64_t links = 0, distinct = 0;
    for (int64_t job = 0; job < jobs; job++) {
        p->alone[job] = INFINITY;
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++)
            p->alone[job] = smaller(p->capacity[p->link[e]] / p->flows[e], p->alone[job]);
    }
    for (int64_t job = 0; job < jobs; job++)
        for (int64_t e = p->first[job]; e < p->first[job + 1]; e++) {
            int64_t at = 0;
            while (at < links && p->names[at] != p->link[e])
                at++;
            if (at == links) {
                memset(p->rows + at * jobs, 0, sizeof(double) * (size_t)jobs);
                p->names[links++] = p->link[e];
            }
            p->rows[at * jobs + job] = p->flows[e] * p->alone[job] / p->capacity[p->link[e]];
        }
    for (int64_t at = 0; at < links; at++) {
        int64_t other = 0;
        while (other < distinct && !same(p->rows + other * jobs, p->rows + at * jobs, jobs))
            other++;
        if (other == distinct)
            memmove(p->rows + distinct++ * jobs, p->rows + at * jobs, sizeof(double) * (size_t)jobs);
    }
    for (int64_t at = 0; at < distinct; at++) {
        p->names[at] = 0;
        for (int64_t other = 0; other < distinct && !p->names[at]; other++)
            p->names[at] = other != at && below(p->rows + at * jobs, p->rows + other * jobs, jobs);
    }
    p->kept = 0;
    for (int64_t at = 0; at < distinct; at++)
        if (!p->names[at])
            memmove(p->rows + p->kept++ * jobs, p->rows + at * jobs, sizeof(double) * (size_t)jobs);
}

/* Which variable enters: by Dantzig's rule, or the first that gains, which cannot cycle; -1: none gains. */
static int64_t entering_of(const double *reduced, int64_t variables, int first)
{
    int64_t best = 0;
    for (int64_t v = 0; v < variables; v++) {
        if (first && reduced[v] < -EPS)
            return v;
        if (reduced[v] < reduced[best])
            best = v;
    }
    return !first && reduced[best] < -EPS ? best : -1;
}

static int64_t leaving_of(const double *tableau, const int64_t *basis, int64_t links, int64_t width, int64_t entering)
{
    int64_t leaving = -1;
    double best = INFINITY;
    for (int64_t row = 0; row < links; row++) {
        const double *values = tableau + row * width;
        if (!(values[entering] > EPS))
            continue;
        double ratio = values[width - 1] / values[entering];
        if (ratio < best - EPS || (ratio <= best + EPS && leaving >= 0 && basis[row] < basis[leaving])) {
            leaving = row;
            best = ratio;
        }
    }
    return leaving;
}

/* The rate of each job's flows; 0: there is none, since a job with weight crosses no link. */
int packing_rates(struct packing *p, const double *weight, double *rates)
{
    const int64_t jobs = p->jobs, links = p->kept, variables = jobs + links, width = variables + 1;
    double *tableau = p->tableau, *reduced = tableau + links * width;
    int64_t *basis = p->names;
    memset(tableau, 0, sizeof(double) * (size_t)((links + 1) * width));
    for (int64_t row = 0; row < links; row++) {
        memcpy(tableau + row * width, p->rows + row * jobs, sizeof(double) * (size_t)jobs);
        tableau[row * width + jobs + row] = tableau[row * width + width - 1] = 1.0;
        basis[row] = jobs + row;
    }
    for (int64_t job = 0; job < jobs; job++)
        reduced[job] = -weight[job];
    const int64_t patience = 4 * variables;
    for (int64_t pivots = 0; pivots < 8 * patience; pivots++) {
        int64_t entering = entering_of(reduced, variables, pivots >= patience);
        if (entering < 0)
            break;
        int64_t leaving = leaving_of(tableau, basis, links, width, entering);
        if (leaving < 0)
            return 0;
        double *pivot = tableau + leaving * width;
        const double scale = 1.0 / pivot[entering];
        for (int64_t v = 0; v < width; v++)
            pivot[v] *= scale;
        for (int64_t row = 0; row <= links; row++) {   /* the last one: `reduced` */
            double *values = tableau + row * width, factor = values[entering];
            if (row != leaving && factor != 0.0)
                for (int64_t v = 0; v < width; v++)
                    values[v] -= factor * pivot[v];
        }
        basis[leaving] = entering;
    }
    memset(rates, 0, sizeof(double) * (size_t)jobs);
    for (int64_t row = 0; row < links; row++)
        if (basis[row] < jobs)
            rates[basis[row]] = larger(tableau[row * width + width - 1], 0.0);
    for (int64_t job = 0; job < jobs; job++)
        rates[job] *= p->alone[job];
    return 1;
}
