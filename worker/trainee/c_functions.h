/* c_functions.h: the functions of exported C files, as text. Only c_source.c uses it. */
#pragma once

#include "engine/graph/graph.h"

/* The function that computes nodes of the operator, for one sample; NULL: there is none. */
const char *c_function_of(enum graph_op op);
/* The formula of an activation of x. */
const char *c_activation_of(enum activation_kind kind);
