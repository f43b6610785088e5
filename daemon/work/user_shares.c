/* user_shares.c: see user_shares.h. */
#include "daemon/work/user_shares.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

static int user_resolve(const char *name, uid_t *uid, struct error *error)
{
    struct passwd entry, *found = NULL;
    char buffer[4096], shown[128], *end;
    unsigned long number = strtoul(name, &end, 10);

    if (*name >= '0' && *name <= '9' && !*end) {
        *uid = (uid_t)number;
        return 0;
    }
    if (getpwnam_r(name, &entry, buffer, sizeof buffer, &found) != 0 || !found)
        return error_set(error, -EINVAL, "Shares: there is no user \"%s\"",
                         text_escape_controls(name, shown, sizeof shown));
    *uid = found->pw_uid;
    return 0;
}

/* Parses "alice:2"; modifies the word. */
static int share_read(char *word, struct user_share *share, struct error *error)
{
    char *colon = strrchr(word, ':'), *end, shown[128];

    share->weight = colon ? strtod(colon + 1, &end) : 0;
    if (!colon || end == colon + 1 || *end || !isfinite(share->weight) || share->weight <= 0)
        return error_set(error, -EINVAL,
                         "Shares has to be like \"alice:2 bob:0.5\", with weights above 0; \"%s\" "
                         "is not",
                         text_escape_controls(word, shown, sizeof shown));
    *colon = '\0';
    return user_resolve(word, &share->uid, error);
}

int user_shares_read(const char *text, struct user_shares *shares, struct error *error)
{
    AUTO_FREE char *copy = strdup(text);
    char *rest = NULL;

    *shares = (struct user_shares){0};
    shares->list = calloc(strlen(text) / 2 + 1, sizeof *shares->list);
    if (!copy || !shares->list) {
        user_shares_release(shares);
        return error_no_memory(error, "the shares of users");
    }
    for (char *word = strtok_r(copy, " \t,", &rest); word; word = strtok_r(NULL, " \t,", &rest)) {
        int result = share_read(word, &shares->list[shares->count], error);

        if (result < 0) {
            user_shares_release(shares);
            return result;
        }
        shares->count++;
    }
    return 0;
}

void user_shares_release(struct user_shares *shares)
{
    free(shares->list);
    *shares = (struct user_shares){0};
}

double user_shares_weight(const struct user_shares *shares, uid_t uid)
{
    for (size_t i = 0; i < shares->count; i++)
        if (shares->list[i].uid == uid)
            return shares->list[i].weight;
    return 1;
}
