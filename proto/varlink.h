/* varlink.h: the Varlink codec (https://varlink.org/): parsing interface files, checking values
 * against them, the envelope of calls and replies, and a small blocking client.
 *
 * Rules beyond the specification, as sd-varlink has them: unknown envelope keys are refused, so is
 * `more` together with `oneway`; absent, null and {} parameters are the same. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- interfaces ---------------------------------------------------------------------------- */

struct varlink_interface; /* a parsed .varlink file */

/* The texts of the .varlink files of proto/, embedded at build time. */
extern const char proto_interface_io_traind[];
extern const char proto_interface_io_traind_Worker[];
extern const char proto_interface_org_varlink_service[];

/* Parses the text of one interface. The sentence names the line. The caller frees the result with
 * varlink_interface_free(); it keeps its own copy of the text. */
int varlink_interface_parse(const char *text, struct varlink_interface **interface,
                            struct error *error);
void varlink_interface_free(struct varlink_interface *interface);
const char *varlink_interface_name(const struct varlink_interface *interface);
const char *varlink_interface_text(const struct varlink_interface *interface);

bool varlink_interface_has_method(const struct varlink_interface *interface, const char *method);

enum varlink_direction { VARLINK_INPUT, VARLINK_OUTPUT };

/* Checks the parameters of `method` (its bare name): unknown fields, missing ones that are not
 * nullable, types, enum values. `parameters` may be NULL for {}. On failure `field` (a buffer of
 * `field_size`) holds the path of the offending field and the sentence says what was expected. */
int varlink_interface_check(const struct varlink_interface *interface, const char *method,
                            enum varlink_direction direction, struct json_object *parameters,
                            char *field, size_t field_size, struct error *error);

/* The same for the parameters of an error (its bare name). */
int varlink_interface_check_error(const struct varlink_interface *interface, const char *name,
                                  struct json_object *parameters, struct error *error);

/* ---- envelope ------------------------------------------------------------------------------ */

struct varlink_call {
    struct json_object *message;    /* owns everything below */
    const char *method;             /* full: "io.traind.Submit" */
    struct json_object *parameters; /* never NULL after parsing */
    bool more, oneway, upgrade;
};

int varlink_call_parse(const char *text, size_t length, struct varlink_call *call,
                       struct error *error);
void varlink_call_release(struct varlink_call *call);

struct varlink_reply {
    struct json_object *message;
    struct json_object *parameters; /* never NULL after parsing */
    const char *error;              /* full name, NULL for success */
    bool continues;
};

int varlink_reply_parse(const char *text, size_t length, struct varlink_reply *reply,
                        struct error *error);
void varlink_reply_release(struct varlink_reply *reply);

/* Fresh messages; take over the reference to `parameters` (NULL for {}). Serialise them with
 * json_text() and send the closing NUL as well. */
struct json_object *varlink_call_new(const char *method, struct json_object *parameters, bool more);
struct json_object *varlink_reply_new(struct json_object *parameters, bool continues);
struct json_object *varlink_error_new(const char *name, struct json_object *parameters);

/* ---- service ------------------------------------------------------------------------------- */

/* What org.varlink.service tells about a service. `interfaces` has to hold
 * proto_interface_org_varlink_service too. All of it is lent. */
struct varlink_service {
    const char *vendor, *product, *version, *url;
    const struct varlink_interface *const *interfaces;
    size_t interface_count;
};

/* Finds who handles a call. true: a handler of `*interface` has to answer `*method` (its bare name,
 * inside of `call`); the parameters have been checked. false: `*answer` is the reply, for
 * GetInfo and GetInterfaceDescription or the standard error for an unknown interface, an unknown
 * method or a wrong parameter, of which `error` (may be NULL) has the sentence; the caller owns it
 * and sends it unless the call is oneway. */
bool varlink_service_dispatch(const struct varlink_service *service,
                              const struct varlink_call *call,
                              const struct varlink_interface **interface, const char **method,
                              struct json_object **answer, struct error *error);

/* ---- frames -------------------------------------------------------------------------------- */

/* Collects bytes of a stream and hands out whole messages (without their NUL). */
struct varlink_frames {
    char *buffer; /* owned */
    size_t start, end, capacity;
    size_t searched; /* no NUL between start and here */
};

void varlink_frames_release(struct varlink_frames *frames);

/* Room for at least one more byte: where to read to, and how much. -EMSGSIZE once a message has
 * JSON_MESSAGE_MAX bytes and still no NUL, -ENOBUFS while that many bytes of whole messages wait to
 * be taken, -ENOMEM. */
int varlink_frames_space(struct varlink_frames *frames, char **space, size_t *size);
/* `size` bytes were read into the space. */
void varlink_frames_added(struct varlink_frames *frames, size_t size);
/* 1 and the next message (valid until the next call that changes `frames`), 0 when none is whole,
 * -EMSGSIZE when it is longer than JSON_MESSAGE_MAX. */
int varlink_frames_next(struct varlink_frames *frames, const char **message, size_t *length);

/* ---- blocking client ----------------------------------------------------------------------- */

struct varlink_client;

/* Connects to the Unix stream socket at `path` (paths longer than sun_path work as well). The
 * sentence of a failure says what to do. */
int varlink_client_connect(const char *path, struct varlink_client **client, struct error *error);
/* Takes over a connected descriptor. */
int varlink_client_from_descriptor(int descriptor, struct varlink_client **client);
void varlink_client_free(struct varlink_client *client);
int varlink_client_descriptor(const struct varlink_client *client);

/* Sends a call without waiting. Takes over `parameters`. That the service has hung up shows when
 * the reply is received: it may have said why before. */
int varlink_client_send(struct varlink_client *client, const char *method,
                        struct json_object *parameters, bool more, struct error *error);
/* Waits for the next reply, `timeout_milliseconds` at most (-1: for ever; -ETIMEDOUT). A Varlink
 * error is a reply like any other (reply->error). -ECONNRESET when the service hung up. */
int varlink_client_receive(struct varlink_client *client, int timeout_milliseconds,
                           struct varlink_reply *reply, struct error *error);
/* One call, one reply. A Varlink error becomes -ERROR_SERVICE_REPLY, its `message` parameter (or
 * its name) the sentence; `reply` then holds it for who wants to look. Release `reply` in both
 * cases. */
int varlink_client_call(struct varlink_client *client, const char *method,
                        struct json_object *parameters, struct varlink_reply *reply,
                        struct error *error);

/* Binds or connects a Unix socket at a path of any length, through /proc/self/fd when it does not
 * fit into sun_path. `listen_backlog` 0 connects. Binding replaces a socket on which nobody listens
 * any more (-EADDRINUSE when somebody does). Returns the descriptor, blocking and close-on-exec, or
 * a negative errno. */
int varlink_socket_open(const char *path, int listen_backlog, struct error *error);

/* Connects likewise, but never waits: -EAGAIN while too many others wait to be accepted. The
 * descriptor does not block either. */
int varlink_socket_try(const char *path, struct error *error);
