/* share.c: see share.h. */
#include "scheduler/share.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The relative gap to the optimum at which the search stops. The jobs' remaining times are less
 * certain than this. */
#define GAP 1e-3
/* The most steps of the simplex algorithm; three types of device take ten to thirty. */
#define STEPS_MAX 200
/* Numbers around 1 in size count as 0 if they are not larger than this rounding error. */
#define ROUNDING 1e-9

enum { ROWS_MAX = POLICY_TYPES_MAX + 1 };

enum basic { BASIC_LENGTH, BASIC_IDLE, BASIC_ANSWER };

/* A column of the basis. Each type has the row (seconds of work per device) - T + idle = 0. The
 * last row says that the parts of the answers add up to 1. */
struct column {
    enum basic kind;
    double prices[POLICY_TYPES_MAX]; /* BASIC_ANSWER: the prices that it answers */
};

struct division {
    const struct policy_snapshot *snapshot;
    const double *seconds;
    double devices[POLICY_TYPES_MAX]; /* of each type */
    double limit; /* seconds that one job may take in all, unless no type is as fast */
    int types;
    struct column basis[ROWS_MAX];
    double inverse[ROWS_MAX][ROWS_MAX], amounts[ROWS_MAX];
};

/* The division of one job: all of it goes to one type, or parts of it to two. */
struct answer {
    int type[2];
    double part[2];
};

/* ---- answers to prices ----------------------------------------------------------------------- */

static const double *seconds_of(const struct division *division, size_t job)
{
    return division->seconds + job * (size_t)division->types;
}

static double best_seconds(const struct division *division, const double *seconds)
{
    double best = INFINITY;

    for (int type = 0; type < division->types; type++)
        best = fmin(best, seconds[type]);
    return best;
}

/* Divides the job between a fast and a slow type so that its time is just within the limit, at the
 * least cost. */
static void answer_by_two(const struct division *division, const double *seconds,
                          const double *costs, struct answer *answer)
{
    double limit = fmax(division->limit, best_seconds(division, seconds)), best = INFINITY;

    for (int fast = 0; fast < division->types; fast++) {
        if (!(seconds[fast] <= limit))
            continue;
        for (int slow = 0; slow < division->types; slow++) {
            double part = 1, cost;

            if (slow != fast && !(seconds[slow] > limit && isfinite(seconds[slow])))
                continue;
            if (slow != fast)
                part = (seconds[slow] - limit) / (seconds[slow] - seconds[fast]);
            cost = part * costs[fast] + (1 - part) * costs[slow];
            if (cost < best) {
                best = cost;
                *answer = (struct answer){{fast, slow}, {part, 1 - part}};
            }
        }
    }
}

/* The cheapest way to run all of the job at these prices; false: no type can run it. */
static bool answer_prices(const struct division *division, size_t job, const double *prices,
                          struct answer *answer)
{
    const double *seconds = seconds_of(division, job);
    double costs[POLICY_TYPES_MAX];
    int cheapest = POLICY_NONE;

    for (int type = 0; type < division->types; type++) {
        if (!isfinite(seconds[type]))
            continue;
        costs[type] = prices[type] / division->devices[type] * seconds[type];
        if (cheapest == POLICY_NONE || costs[type] < costs[cheapest] ||
            (costs[type] == costs[cheapest] && seconds[type] < seconds[cheapest]))
            cheapest = type;
    }
    if (cheapest == POLICY_NONE)
        return false;
    *answer = (struct answer){{cheapest, cheapest}, {1, 0}};
    if (seconds[cheapest] > division->limit)
        answer_by_two(division, seconds, costs, answer);
    return true;
}

/* The column of all jobs' answers to the prices; false: no job can run. */
static bool answer_column(const struct division *division, const double *prices, double *column)
{
    bool any = false;

    memset(column, 0, ROWS_MAX * sizeof *column);
    for (size_t i = 0; i < division->snapshot->job_count; i++) {
        const struct policy_job *job = &division->snapshot->jobs[i];
        double devices = job->devices * (1 + (double)job->alike);
        struct answer answer;

        if (!answer_prices(division, i, prices, &answer))
            continue;
        any = true;
        for (int part = 0; part < 2; part++)
            column[answer.type[part]] += answer.part[part] * devices *
                                         seconds_of(division, i)[answer.type[part]] /
                                         division->devices[answer.type[part]];
    }
    column[division->types] = 1;
    return any;
}

/* ---- the simplex ----------------------------------------------------------------------------- */

/* Begins with a single answer, to equal prices. T is the time of the type with the most work. */
static bool simplex_begin(struct division *division)
{
    double column[ROWS_MAX];
    int types = division->types, fullest = 0;

    for (int type = 0; type < types; type++)
        division->basis[types].prices[type] = 1;
    if (!answer_column(division, division->basis[types].prices, column))
        return false;
    for (int type = 1; type < types; type++)
        if (column[type] > column[fullest])
            fullest = type;
    memset(division->inverse, 0, sizeof division->inverse);
    for (int type = 0; type < types; type++) {
        division->basis[type].kind = type == fullest ? BASIC_LENGTH : BASIC_IDLE;
        division->inverse[type][type] = 1;
        division->inverse[type][fullest] = -1;
        division->inverse[type][types] = column[fullest] - (type == fullest ? 0 : column[type]);
        division->amounts[type] = division->inverse[type][types];
    }
    division->basis[types].kind = BASIC_ANSWER;
    division->inverse[types][types] = 1;
    division->amounts[types] = 1;
    return true;
}

static int row_of_length(const struct division *division)
{
    int row = 0;

    while (division->basis[row].kind != BASIC_LENGTH)
        row++;
    return row;
}

/* Exchanges the column for the basic one that first falls to 0 as it grows; false: none does. */
static bool simplex_enter(struct division *division, const double *column,
                          const struct column *entering)
{
    int rows = division->types + 1, leaving = POLICY_NONE;
    double direction[ROWS_MAX] = {0}, most = 0;

    for (int row = 0; row < rows; row++) {
        for (int k = 0; k < rows; k++)
            direction[row] += division->inverse[row][k] * column[k];
        most = fmax(most, fabs(direction[row]));
    }
    for (int row = 0; row < rows; row++)
        if (division->basis[row].kind != BASIC_LENGTH && direction[row] > ROUNDING * most &&
            (leaving == POLICY_NONE || division->amounts[row] * direction[leaving] <
                                           division->amounts[leaving] * direction[row]))
            leaving = row;
    if (leaving == POLICY_NONE)
        return false;
    division->basis[leaving] = *entering;
    division->amounts[leaving] /= direction[leaving];
    for (int k = 0; k < rows; k++)
        division->inverse[leaving][k] /= direction[leaving];
    for (int row = 0; row < rows; row++) {
        if (row == leaving)
            continue;
        division->amounts[row] =
            fmax(division->amounts[row] - direction[row] * division->amounts[leaving], 0);
        for (int k = 0; k < rows; k++)
            division->inverse[row][k] -= direction[row] * division->inverse[leaving][k];
    }
    return true;
}

/* One step of the simplex algorithm; false: T is minimal up to GAP. */
static bool simplex_step(struct division *division)
{
    const double *duals = division->inverse[row_of_length(division)];
    struct column entering = {.kind = BASIC_ANSWER};
    double column[ROWS_MAX] = {0}, worth = duals[division->types], cost = 0;
    int idle = 0;

    for (int type = 0; type < division->types; type++) {
        entering.prices[type] = fmax(-duals[type], 0);
        if (duals[type] > duals[idle])
            idle = type;
    }
    if (duals[idle] > ROUNDING) {
        entering.kind = BASIC_IDLE;
        column[idle] = 1;
        return simplex_enter(division, column, &entering);
    }
    answer_column(division, entering.prices, column);
    for (int type = 0; type < division->types; type++)
        cost += entering.prices[type] * column[type];
    return cost < worth * (1 - GAP) && simplex_enter(division, column, &entering);
}

/* Returns the least T; 0: no job can run. */
static double simplex(struct division *division)
{
    if (!simplex_begin(division))
        return 0;
    for (int step = 0; step < STEPS_MAX && simplex_step(division); step++)
        ;
    return division->amounts[row_of_length(division)];
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Fills the job's seconds on each type: the answers' seconds, weighted by their amounts in the
 * basis. Returns their sum. */
static double divide_job(const struct division *division, size_t job, double *on_type)
{
    double sum = 0;

    memset(on_type, 0, (size_t)division->types * sizeof *on_type);
    for (int row = 0; row <= division->types; row++) {
        struct answer answer;

        if (division->basis[row].kind != BASIC_ANSWER || division->amounts[row] <= 0 ||
            !answer_prices(division, job, division->basis[row].prices, &answer))
            continue;
        for (int part = 0; part < 2; part++)
            if (answer.part[part] > 0)
                on_type[answer.type[part]] += division->amounts[row] * answer.part[part] *
                                              seconds_of(division, job)[answer.type[part]];
    }
    for (int type = 0; type < division->types; type++)
        sum += on_type[type];
    return sum;
}

static bool limit_is_exceeded(const struct division *division, double limit)
{
    double on_type[POLICY_TYPES_MAX];

    for (size_t i = 0; i < division->snapshot->job_count; i++)
        if (divide_job(division, i, on_type) > limit * (1 + GAP))
            return true;
    return false;
}

double share_out(const struct policy_snapshot *snapshot, double *seconds)
{
    struct division division = {
        .snapshot = snapshot, .seconds = seconds, .types = snapshot->type_count, .limit = INFINITY};
    double rest, on_type[POLICY_TYPES_MAX];

    for (size_t d = 0; d < snapshot->device_count; d++)
        division.devices[snapshot->devices[d].type] += !snapshot->devices[d].lost;
    rest = simplex(&division);
    /* no single job may take longer than all jobs together */
    if (limit_is_exceeded(&division, rest)) {
        division.limit = rest;
        rest = fmax(simplex(&division), rest);
    }
    for (size_t i = 0; i < snapshot->job_count; i++) {
        divide_job(&division, i, on_type);
        for (int type = 0; type < division.types; type++)
            seconds[i * (size_t)division.types + (size_t)type] =
                rest > 0 ? on_type[type] / rest : 0;
    }
    return rest;
}
