/* table.c: see table.h. The interface lists the methods; the file of each method names its handler
 * and who may call it (methods.h). A method of the interface that no file defines is an error of
 * the linker. */
#include "daemon/methods/table.h"

#define METHOD_NAME(name) extern const struct method method_##name;
#include "daemon/methods/method_list.h"
#undef METHOD_NAME

#define METHOD_NAME(name) &method_##name,
static const struct method *const methods[] = {
#include "daemon/methods/method_list.h"
};

const struct method_table method_table = {methods, sizeof methods / sizeof *methods};
