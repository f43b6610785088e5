/* varlink.h: the Varlink codec (https://varlink.org/): parsing interface files, checking values
 * against them, the envelope of calls and replies, and a small blocking client.
 *
 * Rules beyond the specification, as in sd-varlink: unknown envelope keys are refused, and so is
 * `more` together with `oneway`. Absent, null and {} parameters mean the same. */
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

/* Parses the text of one interface. The sentence names the line. The caller frees the result, which
 * has its own copy of the text, with varlink_interface_free(). */
int varlink_interface_parse(const char *text, struct varlink_interface **interface,
                            struct error *error);
void varlink_interface_free(struct varlink_interface *interface);
const char *varlink_interface_name(const struct varlink_interface *interface);
const char *varlink_interface_text(const struct varlink_interface *interface);

bool varlink_interface_has_method(const struct varlink_interface *interface, const char *method);

enum varlink_direction { VARLINK_INPUT, VARLINK_OUTPUT };

/* Checks the parameters of `method` (its bare name): unknown fields, missing ones that are not
 * nullable, types, enum values. `parameters` may be NULL for {}. On failure `field` (a buffer of
 * `field_size`) holds the path of the wrong field, and the sentence says what was expected. */
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

/* Make messages. They take over the reference to `parameters` (NULL for {}). The caller serialises
 * a message with json_text() and also sends the closing NUL. */
struct json_object *varlink_call_new(const char *method, struct json_object *parameters, bool more);
struct json_object *varlink_reply_new(struct json_object *parameters, bool continues);
struct json_object *varlink_error_new(const char *name, struct json_object *parameters);

/* ---- service ------------------------------------------------------------------------------- */

/* What org.varlink.service reports about a service. `interfaces` must include
 * proto_interface_org_varlink_service. All members are borrowed. */
struct varlink_service {
    const char *vendor, *product, *version, *url;
    const struct varlink_interface *const *interfaces;
    size_t interface_count;
};

/* Finds the interface that handles a call. true: the handler of `*interface` must answer `*method`
 * (its bare name, which points into `call`); the parameters have been checked. false: `*answer` is
 * the reply, which the caller owns and sends unless the call is oneway. It answers GetInfo or
 * GetInterfaceDescription, or is the standard error for an unknown interface or method or a wrong
 * parameter. `error` (may be NULL) then has the sentence about the parameter. */
bool varlink_service_dispatch(const struct varlink_service *service,
                              const struct varlink_call *call,
                              const struct varlink_interface **interface, const char **method,
                              struct json_object **answer, struct error *error);

/* ---- frames -------------------------------------------------------------------------------- */

/* Collects the bytes of a stream and returns whole messages (without their NUL). */
struct varlink_frames {
    char *buffer; /* owned */
    size_t start, end, capacity;
    size_t searched; /* no NUL between start and here */
};

void varlink_frames_release(struct varlink_frames *frames);

/* Gives space for at least one more byte: where the caller should read to, and how much fits.
 * -EMSGSIZE: a message has JSON_MESSAGE_MAX bytes and no NUL. -ENOBUFS: that many bytes of whole
 * messages wait to be taken. -ENOMEM. */
int varlink_frames_space(struct varlink_frames *frames, char **space, size_t *size);
/* Says that `size` bytes were read into the space. */
void varlink_frames_added(struct varlink_frames *frames, size_t size);
/* Returns 1 and the next message (valid until the next call that changes `frames`), 0 if none is
 * complete, or -EMSGSIZE if it is longer than JSON_MESSAGE_MAX. */
int varlink_frames_next(struct varlink_frames *frames, const char **message, size_t *length);

/* ---- blocking client ----------------------------------------------------------------------- */

struct varlink_client;

/* Connects to the Unix stream socket at `path`, as varlink_socket_connect(). On failure the
 * sentence says what to do. */
int varlink_client_connect(const char *path, int timeout_milliseconds,
                           struct varlink_client **client, struct error *error);
/* Takes over a connected descriptor. */
int varlink_client_from_descriptor(int descriptor, struct varlink_client **client);
void varlink_client_free(struct varlink_client *client);
int varlink_client_descriptor(const struct varlink_client *client);

/* Sends a call and does not wait for the reply. Takes over `parameters`. Succeeds even if the
 * service has hung up: its last reply, which varlink_client_receive() returns, may say why. */
int varlink_client_send(struct varlink_client *client, const char *method,
                        struct json_object *parameters, bool more, struct error *error);
/* Waits for the next reply, at most `timeout_milliseconds` (-1: without limit). A Varlink error is
 * a reply like any other (reply->error). -ETIMEDOUT, or -ECONNRESET if the service hung up. */
int varlink_client_receive(struct varlink_client *client, int timeout_milliseconds,
                           struct varlink_reply *reply, struct error *error);
/* The same, but the reply's text as it came, valid until the next call for this client: for who
 * only hands it on. */
int varlink_client_receive_text(struct varlink_client *client, int timeout_milliseconds,
                                const char **message, size_t *length, struct error *error);
/* Sends one call and waits for its reply. A Varlink error gives -ERROR_SERVICE_REPLY; the sentence
 * is its `message` parameter, or else its name, and `reply` holds it. The caller releases `reply`
 * in both cases. */
int varlink_client_call(struct varlink_client *client, const char *method,
                        struct json_object *parameters, struct varlink_reply *reply,
                        struct error *error);

/* Binds a Unix socket at a path of any length, through /proc/self/fd if the path does not fit into
 * sun_path. A socket on which no process listens is replaced (-EADDRINUSE: one does). Returns the
 * descriptor, blocking and close-on-exec, or a negative errno. */
int varlink_socket_listen(const char *path, int backlog, struct error *error);

/* Connects in the same way. While the queue of connections to accept is full it waits; -ETIMEDOUT:
 * longer than so many milliseconds, of which -1 are without end. */
int varlink_socket_connect(const char *path, int timeout_milliseconds, struct error *error);

/* Connects in the same way, but never waits. -EAGAIN: the queue of connections to accept is full.
 * The descriptor is non-blocking. */
int varlink_socket_try(const char *path, struct error *error);
