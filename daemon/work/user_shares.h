/* user_shares.h: the weights of users in the fair share of devices. [Jobs] Shares gives them as
 * "alice:2 bob:0.5", with names or uids of users; all other users have weight 1. */
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

/* Parses the text and looks the users up, which may block: call it only when the daemon starts.
 * -EINVAL with a sentence. */
int user_shares_read(const char *text, struct user_shares *shares, struct error *error);
void user_shares_release(struct user_shares *shares);
double user_shares_weight(const struct user_shares *shares, uid_t uid);
