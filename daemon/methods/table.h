/* table.h: the one table of io.traind's methods, in the order of the interface. */
#pragma once

#include "daemon/server/method.h"

extern const struct method_table method_table;
