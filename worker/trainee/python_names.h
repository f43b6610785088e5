/* python_names.h: names that a Python file must not have. */
#pragma once

#include <stdbool.h>

/* Whether a module of this name could not be imported, as it is a keyword, or would hide one of
 * Python's own modules or of those that come with PyTorch. */
bool python_name_is_taken(const char *name);
