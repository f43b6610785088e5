/* quantized_weights.h: the weights of a graph that graph_quantize() has changed, for tests. */
#pragma once

#include "tests/support/session.h"

/* Writes the weights that `plain`, the same graph before, draws: quantized where the session's
 * graph wants that. They must read back as they were written. */
void quantized_weights_write(struct test_session *session, const struct graph *plain);
