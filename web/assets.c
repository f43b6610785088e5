/* assets.c: see assets.h. Only whole names of the table are found, so no path leads elsewhere. */
#include "web/assets.h"

#include <string.h>

const struct web_asset *web_asset_find(const char *path)
{
    if (path[0] != '/')
        return NULL;
    path = path[1] ? path + 1 : "index.html";
    for (size_t i = 0; i < web_asset_count; i++)
        if (strcmp(web_assets[i].name, path) == 0)
            return &web_assets[i];
    return NULL;
}

const char *web_asset_type(const struct web_asset *asset)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    const char *ending = strrchr(asset->name, '.');

    for (size_t i = 0; ending && i < sizeof types / sizeof *types; i++)
        if (strcmp(ending, types[i].ending) == 0)
            return types[i].type;
    return "application/octet-stream";
}
