/* assets.h: the files of web/assets/, which the build puts into the program
 * (build-aux/embed-assets). */
#pragma once

#include <stddef.h>

struct web_asset {
    const char *name; /* the file's */
    const char *begin, *end;
};

extern const struct web_asset web_assets[];
extern const size_t web_asset_count;

/* The asset that the path of an address names: "/app.js"; "/" is index.html. NULL: none. */
const struct web_asset *web_asset_find(const char *path);

/* Its type for the header Content-Type. */
const char *web_asset_type(const struct web_asset *asset);
