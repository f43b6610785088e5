/* gpu_packages.h: the Python packages that use a GPU. */
#pragma once

/* Whether the module ("a.b") belongs to such a package: 2 to a framework itself, 1 to one that is
 * built upon a framework, and 0 to none of them. A module of one's own may have the name of the
 * second kind. */
int gpu_package_rank(const char *module);
