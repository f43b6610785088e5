/* table.h: the one table of io.traind's methods. */
#pragma once

#include "daemon/server/method.h"

extern const struct method_table method_table;
