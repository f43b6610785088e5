/* table.h: the table of all methods of io.traind, in the order of the interface. */
#pragma once

#include "daemon/server/method.h"

extern const struct method_table method_table;
