/* varlink_service.c: answers org.varlink.service and invalid calls, which is the same for every
 * service; see varlink.h. */
#include "proto/varlink.h"

#include <errno.h>
#include <string.h>

static struct json_object *standard_error(const char *name, const char *key, const char *value)
{
    struct json_object *parameters = json_object_new_object();

    json_set_string(parameters, key, value);
    return varlink_error_new(name, parameters);
}

static const struct varlink_interface *interface_find(const struct varlink_service *service,
                                                      const char *name, size_t length)
{
    for (size_t i = 0; i < service->interface_count; i++) {
        const char *candidate = varlink_interface_name(service->interfaces[i]);

        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0)
            return service->interfaces[i];
    }
    return NULL;
}

static struct json_object *answer_info(const struct varlink_service *service)
{
    struct json_object *parameters = json_object_new_object();
    struct json_object *names = json_object_new_array();

    for (size_t i = 0; i < service->interface_count; i++)
        json_object_array_add(
            names, json_object_new_string(varlink_interface_name(service->interfaces[i])));
    json_set_string(parameters, "vendor", service->vendor);
    json_set_string(parameters, "product", service->product);
    json_set_string(parameters, "version", service->version);
    json_set_string(parameters, "url", service->url);
    json_set(parameters, "interfaces", names);
    return varlink_reply_new(parameters, false);
}

static struct json_object *answer_description(const struct varlink_service *service,
                                              const char *name)
{
    const struct varlink_interface *interface = interface_find(service, name, strlen(name));
    struct json_object *parameters;

    if (!interface)
        return standard_error("org.varlink.service.InterfaceNotFound", "interface", name);
    parameters = json_object_new_object();
    json_set_string(parameters, "description", varlink_interface_text(interface));
    return varlink_reply_new(parameters, false);
}

bool varlink_service_dispatch(const struct varlink_service *service,
                              const struct varlink_call *call,
                              const struct varlink_interface **interface, const char **method,
                              struct json_object **answer, struct error *error)
{
    const char *dot = strrchr(call->method, '.');
    size_t length = dot ? (size_t)(dot - call->method) : strlen(call->method);
    char field[128];

    *answer = NULL;
    *method = dot ? dot + 1 : "";
    *interface = interface_find(service, call->method, length);
    if (!*interface) {
        char *name = strndup(call->method, length);

        error_set(error, -ENOENT, "no interface %s here", name ? name : "");
        *answer = standard_error("org.varlink.service.InterfaceNotFound", "interface", name);
        free(name);
        return false;
    }
    if (!varlink_interface_has_method(*interface, *method)) {
        error_set(error, -ENOENT, "no method %s here", call->method);
        *answer = standard_error("org.varlink.service.MethodNotFound", "method", call->method);
        return false;
    }
    if (varlink_interface_check(*interface, *method, VARLINK_INPUT, call->parameters, field,
                                sizeof field, error) < 0) {
        *answer = standard_error("org.varlink.service.InvalidParameter", "parameter", field);
        return false;
    }
    if (strcmp(varlink_interface_name(*interface), "org.varlink.service") != 0)
        return true;
    if (strcmp(*method, "GetInfo") == 0)
        *answer = answer_info(service);
    else
        *answer = answer_description(service, json_get_string(call->parameters, "interface", ""));
    return false;
}
