/* image_webp.c: reads WebP files by libwebp (its src/webp/demux.h and decode.h): of an animation
 * the first frame, on a transparent canvas, as Pillow does. */
#include "engine/data/image.h"
#include "engine/data/image_orientation.h"

#include <errno.h>
#include <string.h>
#include <webp/demux.h>

static int damaged(const char *path, struct error *error)
{
    return error_set(error, -EINVAL, "%s is a damaged WebP file; fetch it again or remove it",
                     path);
}

static int orientation_of(const WebPData *data)
{
    WebPDemuxer *demuxer = WebPDemux(data);
    WebPChunkIterator chunk;
    int orientation = 1;

    if (demuxer && WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
        orientation = image_exif_orientation(chunk.chunk.bytes, chunk.chunk.size);
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    WebPDemuxDelete(demuxer);
    return orientation;
}

static int frame_read(const char *path, const WebPData *data, struct image *image,
                      struct error *error)
{
    WebPAnimDecoderOptions options;
    WebPAnimDecoder *decoder;
    uint8_t *frame;
    int time, complete = 0;

    if (!WebPAnimDecoderOptionsInit(&options))
        return error_set(error, -ENOSYS, "libwebp has another version than traind was built with");
    options.color_mode = MODE_RGBA;
    decoder = WebPAnimDecoderNew(data, &options);
    if (decoder)
        complete = WebPAnimDecoderGetNext(decoder, &frame, &time);
    for (size_t i = 0; complete && i < (size_t)(image->width * image->height); i++)
        memcpy(image->pixels + 3 * i, frame + 4 * i, 3);
    WebPAnimDecoderDelete(decoder);
    return complete ? 0 : damaged(path, error);
}

/* The size of the canvas. */
static int size_read(const char *path, const WebPData *data, struct image *image,
                     struct error *error)
{
    WebPBitstreamFeatures features;

    if (WebPGetFeatures(data->bytes, data->size, &features) != VP8_STATUS_OK)
        return damaged(path, error);
    image->width = features.width;
    image->height = features.height;
    image->channels = 3;
    image->orientation = orientation_of(data);
    return 0;
}

int image_webp_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                    struct image *image, struct error *error)
{
    WebPData data = {bytes, size};
    int r = size_read(path, &data, image, error);

    if (r < 0 || inspect)
        return r;
    r = image_reserve(path, image, error);
    return r < 0 ? r : frame_read(path, &data, image, error);
}
