/* checkpoint_limits.c: see checkpoint_limits.h. */
#include "daemon/store/checkpoint_limits.h"

#include "daemon/store/statement.h"

struct sum {
    int64_t count;
    uint64_t bytes;
};

/* Runs the statement, whose parameters are bound. */
static int sum_read(struct statement *row, struct sum *sum)
{
    *sum = (struct sum){0};
    if (statement_next(row) > 0) {
        sum->count = statement_int(row, 0);
        sum->bytes = (uint64_t)statement_double(row, 1);
    }
    return row->result < 0 ? row->result : 0;
}

static bool sum_exceeds(const struct sum *sum, int64_t count_limit, uint64_t bytes,
                        uint64_t bytes_limit)
{
    return (count_limit > 0 && sum->count >= count_limit) ||
           (bytes_limit > 0 && (sum->bytes > bytes_limit || bytes > bytes_limit - sum->bytes));
}

static const char sum_of_attempt[] =
    "SELECT count(*), total(bytes) FROM checkpoint WHERE job = :job AND attempt = :attempt";
static const char sum_of_user[] = "SELECT count(*), total(bytes) FROM checkpoint WHERE uid = :uid";

int checkpoint_limits_check(struct store_connection *connection,
                            const struct checkpoint_limits *limits, int64_t job, int64_t attempt,
                            uid_t uid, uint64_t bytes, const char **why, struct error *error)
{
    AUTO_STATEMENT struct statement of_attempt = statement_open(connection, sum_of_attempt, error);
    AUTO_STATEMENT struct statement of_user = statement_open(connection, sum_of_user, error);
    struct sum sum;
    int result;

    *why = NULL;
    statement_bind_int(&of_attempt, ":job", job);
    statement_bind_int(&of_attempt, ":attempt", attempt);
    statement_bind_int(&of_user, ":uid", uid);
    result = sum_read(&of_attempt, &sum);
    if (result == 0 && sum_exceeds(&sum, limits->per_attempt, bytes, limits->bytes_per_attempt))
        *why = "the attempt holds as many checkpoints, or bytes of them, as the configuration "
               "allows (CheckpointsPerAttempt, CheckpointBytesPerAttempt); remove some";
    if (result < 0 || *why)
        return result;
    result = sum_read(&of_user, &sum);
    if (result == 0 && sum_exceeds(&sum, limits->per_user, bytes, limits->bytes_per_user))
        *why = "the user's jobs hold as many checkpoints, or bytes of them, as the configuration "
               "allows (CheckpointsPerUser, CheckpointBytesPerUser); remove some";
    return result;
}
