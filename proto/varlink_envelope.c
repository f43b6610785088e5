/* varlink_envelope.c: parses and makes calls and replies, the objects around the parameters; see
 * varlink.h. */
#include "base/text.h"
#include "proto/varlink.h"

#include <errno.h>
#include <string.h>

/* Stores a boolean member; null counts as absent. */
static int take_flag(const char *key, struct json_object *value, bool *flag, struct error *error)
{
    if (value && !json_object_is_type(value, json_type_boolean))
        return error_set(error, -EINVAL, "\"%s\" of a message has to be true or false", key);
    *flag = value && json_object_get_boolean(value);
    return 0;
}

static int take_text(const char *key, struct json_object *value, const char **text,
                     struct error *error)
{
    if (!json_object_is_type(value, json_type_string) || !*json_object_get_string(value))
        return error_set(error, -EINVAL, "\"%s\" of a message has to be a text that is not empty",
                         key);
    *text = json_object_get_string(value);
    return 0;
}

/* Sets `*parameters` to an object that belongs to the message: absent and null parameters become
 * {}. */
static int take_parameters(struct json_object *message, struct json_object **parameters,
                           struct error *error)
{
    struct json_object *value = json_get(message, "parameters");

    if (!value) {
        value = json_object_new_object();
        if (!value)
            return error_set(error, -ENOMEM, "out of memory");
        json_set(message, "parameters", value);
    }
    if (!json_object_is_type(value, json_type_object))
        return error_set(error, -EINVAL, "\"parameters\" of a message has to be an object");
    *parameters = value;
    return 0;
}

static int parse_object(const char *text, size_t length, struct json_object **message,
                        struct error *error)
{
    int r = json_parse(text, length, message, error);

    if (r < 0)
        return r;
    if (!json_object_is_type(*message, json_type_object))
        return error_set(error, -EINVAL, "a message has to be a JSON object");
    return 0;
}

static int unknown_key(const char *key, const char *kind, struct error *error)
{
    char shown[64];

    return error_set(error, -EINVAL, "\"%s\" is not a key of a %s",
                     text_escape_controls(key, shown, sizeof shown), kind);
}

static int call_take(struct varlink_call *call, struct error *error)
{
    json_object_object_foreach (call->message, key, value) {
        int r = 0;

        if (strcmp(key, "method") == 0)
            r = take_text(key, value, &call->method, error);
        else if (strcmp(key, "more") == 0)
            r = take_flag(key, value, &call->more, error);
        else if (strcmp(key, "oneway") == 0)
            r = take_flag(key, value, &call->oneway, error);
        else if (strcmp(key, "upgrade") == 0)
            r = take_flag(key, value, &call->upgrade, error);
        else if (strcmp(key, "parameters") != 0)
            r = unknown_key(key, "call", error);
        if (r < 0)
            return r;
    }
    if (!call->method)
        return error_set(error, -EINVAL, "a call needs the key \"method\"");
    if (call->more + call->oneway + call->upgrade > 1)
        return error_set(error, -EINVAL,
                         "\"more\", \"oneway\" and \"upgrade\" exclude each other in a call");
    return take_parameters(call->message, &call->parameters, error);
}

int varlink_call_parse(const char *text, size_t length, struct varlink_call *call,
                       struct error *error)
{
    int r;

    *call = (struct varlink_call){0};
    r = parse_object(text, length, &call->message, error);
    if (r == 0)
        r = call_take(call, error);
    if (r < 0)
        varlink_call_release(call);
    return r;
}

void varlink_call_release(struct varlink_call *call)
{
    json_object_put(call->message);
    *call = (struct varlink_call){0};
}

static int reply_take(struct varlink_reply *reply, struct error *error)
{
    json_object_object_foreach (reply->message, key, value) {
        int r = 0;

        if (strcmp(key, "error") == 0)
            r = value ? take_text(key, value, &reply->error, error) : 0;
        else if (strcmp(key, "continues") == 0)
            r = take_flag(key, value, &reply->continues, error);
        else if (strcmp(key, "parameters") != 0)
            r = unknown_key(key, "reply", error);
        if (r < 0)
            return r;
    }
    if (reply->error && reply->continues)
        return error_set(error, -EINVAL, "an error cannot have \"continues\"");
    return take_parameters(reply->message, &reply->parameters, error);
}

int varlink_reply_parse(const char *text, size_t length, struct varlink_reply *reply,
                        struct error *error)
{
    int r;

    *reply = (struct varlink_reply){0};
    r = parse_object(text, length, &reply->message, error);
    if (r == 0)
        r = reply_take(reply, error);
    if (r < 0)
        varlink_reply_release(reply);
    return r;
}

void varlink_reply_release(struct varlink_reply *reply)
{
    json_object_put(reply->message);
    *reply = (struct varlink_reply){0};
}

static struct json_object *message_new(const char *key, const char *value,
                                       struct json_object *parameters)
{
    struct json_object *message = json_object_new_object();

    if (key)
        json_set_string(message, key, value);
    json_set(message, "parameters", parameters ? parameters : json_object_new_object());
    return message;
}

struct json_object *varlink_call_new(const char *method, struct json_object *parameters, bool more)
{
    struct json_object *message = message_new("method", method, parameters);

    if (more)
        json_set_bool(message, "more", true);
    return message;
}

struct json_object *varlink_reply_new(struct json_object *parameters, bool continues)
{
    struct json_object *message = message_new(NULL, NULL, parameters);

    if (continues)
        json_set_bool(message, "continues", true);
    return message;
}

struct json_object *varlink_error_new(const char *name, struct json_object *parameters)
{
    return message_new("error", name, parameters);
}
