/* checkpoint_download.c: see checkpoint_download.h. */
#include "client/connection/checkpoint_download.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "client/connection/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Appends one piece of the file. */
static int add_piece(struct checkpoint_download *download, struct json_object *parameters,
                     struct error *error)
{
    const char *data = json_get_string(parameters, "data", "");
    int64_t offset = json_get_int(parameters, "offset", 0);
    AUTO_FREE void *bytes = NULL;
    size_t size;
    int result = base64_decode(data, strlen(data), &bytes, &size, error);

    if (result < 0)
        return result;
    if (offset != download->received)
        return error_set(error, -EPROTO,
                         "the daemon sent byte %" PRId64 " of the checkpoint where %" PRId64
                         " was due",
                         offset, download->received);
    result = file_write_all(download->descriptor, bytes, size);
    if (result < 0)
        return error_set_errno(error, result, "cannot write %s", download->path);
    sha256_add(&download->hash, bytes, size);
    download->received += (int64_t)size;
    download->step = json_get_int(parameters, "step", 0);
    return 0;
}

/* Receives the whole stream. */
static enum exit_status receive(struct checkpoint_download *download)
{
    struct json_object *parameters = json_object_new_object();
    struct varlink_client *client = download->invocation->client;
    enum exit_status status = EXIT_STATUS_DONE;
    bool continues = true;
    struct error error = {0};
    int64_t bytes = 0, step = -1;
    int result;

    if (invocation_option(download->invocation, "step"))
        status = invocation_option_integer(download->invocation, "step", 0, &step);
    json_set_int(parameters, "id", download->id);
    if (step >= 0)
        json_set_int(parameters, "step", step);
    if (status) {
        json_object_put(parameters);
        return status;
    }
    result = varlink_client_send(client, "io.traind.ReadCheckpoint", parameters, true, &error);
    while (result == 0 && continues) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};

        result = varlink_client_receive(client, -1, &reply, &error);
        if (result < 0) {
            complain("the connection broke after %" PRId64 " bytes: %s", download->received,
                     error.text);
            return EXIT_STATUS_UNREACHABLE;
        }
        if (reply.error)
            return connection_refused(&reply);
        continues = reply.continues;
        bytes = json_get_int(reply.parameters, "bytes", 0);
        result = add_piece(download, reply.parameters, &error);
    }
    if (result == 0 && download->received != bytes)
        result = error_set(&error, -EPROTO,
                           "the daemon sent %" PRId64 " of the checkpoint's %" PRId64 " bytes",
                           download->received, bytes);
    if (result < 0)
        complain("%s", error.text);
    return result < 0 ? EXIT_STATUS_FAILED : EXIT_STATUS_DONE;
}

/* Compares the received file with the digest that the daemon stored. */
static enum exit_status verify(struct checkpoint_download *download)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *checkpoints;
    char digest[SHA256_HEX_SIZE];
    enum exit_status status;

    sha256_end(&download->hash, digest);
    json_set_int(parameters, "id", download->id);
    status = connection_call(download->invocation, "Checkpoints", parameters, &reply);
    if (status)
        return status;
    checkpoints = json_get(reply.parameters, "checkpoints");
    for (size_t i = 0; i < json_object_array_length(checkpoints); i++) {
        struct json_object *checkpoint = json_object_array_get_idx(checkpoints, i);

        if (json_get_int(checkpoint, "step", -1) != download->step)
            continue;
        download->best = json_get_bool(checkpoint, "best", false);
        if (strcmp(json_get_string(checkpoint, "digest", ""), digest) == 0)
            return EXIT_STATUS_DONE;
        if (i + 1 < json_object_array_length(checkpoints) &&
            json_get_int(json_object_array_get_idx(checkpoints, i + 1), "step", -1) ==
                download->step)
            continue; /* the step has two checkpoints */
        complain("the checkpoint of step %" PRId64
                 " arrived damaged: its SHA-256 is %s, not the one that was stored. "
                 "Try again, or another --step",
                 download->step, digest);
        return EXIT_STATUS_FAILED;
    }
    return EXIT_STATUS_DONE; /* retention removed its row meanwhile */
}

enum exit_status checkpoint_download_run(struct checkpoint_download *download)
{
    enum exit_status status = connection_open(download->invocation);

    sha256_begin(&download->hash);
    if (!status)
        status = receive(download);
    return status ? status : verify(download);
}

int specification_download(struct invocation *invocation, int64_t id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    const char *text;
    size_t length;
    int file;

    json_set_int(parameters, "id", id);
    if (connection_call(invocation, "Show", parameters, &reply))
        return -1;
    text = json_text(json_get(reply.parameters, "spec"), &length);
    file = memfd_create("specification", 0);
    if (file >= 0 && file_write_all(file, text, length) == 0)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}
