/* user_shares.h: the weights of users in the fair share of devices, as [Jobs] Shares has them:
 * "alice:2 bob:0.5" (names or numbers of users); everybody else has 1. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

struct user_share {
    uid_t uid;
    double weight;
};

struct user_shares {
    struct user_share *list; /* owned */
    size_t count;
};

/* Looks users up, which may block: at start only. -EINVAL with a sentence. */
int user_shares_read(const char *text, struct user_shares *shares, struct error *error);
void user_shares_release(struct user_shares *shares);
double user_shares_weight(const struct user_shares *shares, uid_t uid);
