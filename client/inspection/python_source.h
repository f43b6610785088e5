/* python_source.h: finds the imports of a Python source without running it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An import. `dots`: how many dots a relative one begins with. `module`: "a.b", or "" after dots
 * alone. `name`: what is imported of it, which may be a module, too; NULL: none. False ends the
 * search. */
typedef bool (*python_import_found)(void *data, int dots, const char *module, const char *name);

/* Finds the import statements, also those in functions and conditions, and import_module("a.b") and
 * __import__("a.b") with a literal. Leaves out comments, strings and what stands below `if
 * TYPE_CHECKING:`. Source: the lexical analysis of the Python language reference
 * (docs.python.org/3/reference/lexical_analysis.html); a text that is no Python finds less. */
void python_source_imports(const char *text, size_t size, python_import_found found, void *data);
