/* table.c: see table.h. The interface names the methods; the file of each says who handles it and
 * who may call it (methods.h). One that the interface has and no file defines is not linked. */
#include "daemon/methods/table.h"

#define METHOD_NAME(name) extern const struct method method_##name;
#include "daemon/methods/method_list.h"
#undef METHOD_NAME

#define METHOD_NAME(name) &method_##name,
static const struct method *const methods[] = {
#include "daemon/methods/method_list.h"
};

const struct method_table method_table = {methods, sizeof methods / sizeof *methods};
