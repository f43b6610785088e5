/* parse_untrusted.c: feeds standard input to what reads bytes of strangers, for tests/fuzz.
 *
 *   parse_untrusted json|stream|interface|spec|set < bytes
 *
 * With `many` as the second argument the input is a sequence of cases, each a 4-byte length (native
 * order) and its bytes. Each case's outcome is one line; the exit status is 0 however bad the input
 * is, and 1 when a promise is broken: an error without a sentence, a normalised specification that
 * normalises to something else. */
#include "base/cleanup.h"
#include "base/text.h"
#include "proto/job_spec.h"
#include "proto/varlink.h"

#include <stdint.h>
#include <string.h>

enum { INPUT_MAX = 64 * 1024 * 1024 };

static int broken(const char *promise)
{
    printf("BROKEN PROMISE: %s\n", promise);
    return 1;
}

static int report(int r, const struct error *error)
{
    char shown[2 * ERROR_TEXT_MAX];

    if (r >= 0) {
        puts("ok");
        return 0;
    }
    printf("%d %s\n", r, text_escape_controls(error->text, shown, sizeof shown));
    if (!*error->text)
        return broken("an error has a sentence");
    return text_is_utf8(error->text, strlen(error->text)) ? 0 : broken("a sentence is UTF-8");
}

static int try_json(const char *input, size_t size)
{
    JSON_AUTO struct json_object *first = NULL, *second = NULL;
    struct error error = {0};
    size_t length;
    const char *text;
    int r = json_parse(input, size, &first, &error);

    if (r < 0)
        return report(r, &error);
    text = json_text(first, &length);
    if (json_parse(text, length, &second, &error) < 0 || !json_object_equal(first, second))
        return broken("what was parsed is printed and parsed to the same");
    return report(0, &error);
}

/* Calls as a service reads them, arriving in pieces of 1, 2, 3, … bytes. */
static int try_stream(const char *input, size_t size)
{
    CLEANUP(varlink_frames_release) struct varlink_frames frames = {0};
    struct varlink_interface *parsed = NULL;
    const struct varlink_interface *interfaces[1];
    struct error error = {0};
    int r = varlink_interface_parse(proto_interface_io_traind, &parsed, &error);

    if (r < 0)
        return broken(error.text);
    interfaces[0] = parsed;
    for (size_t done = 0, piece = 1; done < size && r >= 0; piece++) {
        char *space;
        const char *message;
        size_t room, length;

        r = varlink_frames_space(&frames, &space, &room);
        if (r < 0)
            break;
        if (room > piece)
            room = piece;
        if (room > size - done)
            room = size - done;
        memcpy(space, input + done, room);
        varlink_frames_added(&frames, room);
        done += room;
        while ((r = varlink_frames_next(&frames, &message, &length)) > 0) {
            struct varlink_service service = {"v", "p", "1", "u", interfaces, 1};
            const struct varlink_interface *interface;
            struct varlink_call call;
            struct json_object *answer;
            const char *method;

            if (varlink_call_parse(message, length, &call, &error) < 0)
                continue;
            varlink_service_dispatch(&service, &call, &interface, &method, &answer, &error);
            json_object_put(answer);
            varlink_call_release(&call);
        }
    }
    varlink_interface_free(parsed);
    puts("ok");
    return 0;
}

static int try_interface(const char *input, size_t size)
{
    AUTO_FREE char *text = strndup(input, size);
    struct varlink_interface *interface;
    struct error error = {0};
    int r = varlink_interface_parse(text, &interface, &error);

    if (r == 0) {
        if (strcmp(varlink_interface_text(interface), text) != 0)
            return broken("an interface keeps its text");
        varlink_interface_free(interface);
    }
    return report(r, &error);
}

static int try_spec(const char *input, size_t size)
{
    JSON_AUTO struct json_object *spec = NULL, *first = NULL, *second = NULL;
    struct job_spec_fault fault;
    struct error error = {0};
    int r = json_parse(input, size, &spec, &error);

    if (r == 0)
        r = job_spec_normalise(spec, &first, &fault, &error);
    if (r == 0) {
        char digest[65], again[65];

        if (job_spec_normalise(first, &second, &fault, &error) < 0)
            return broken(error.text);
        if (strcmp(json_text(first, NULL), json_text(second, NULL)) != 0)
            return broken("a normalised specification stays as it is");
        job_spec_plan_digest(first, digest);
        job_spec_plan_digest(second, again);
        if (strcmp(digest, again) != 0)
            return broken("equal specifications have one digest");
        puts(json_text(first, NULL));
    }
    return report(r, &error);
}

static int try_set(const char *input, size_t size)
{
    JSON_AUTO struct json_object *spec = NULL;
    AUTO_FREE char *assignment = strndup(input, size);
    struct error error = {0};
    const char *start = "{\"model\":{\"layers\":[{\"type\":\"relu\"},5]},\"name\":\"a\"}";

    if (json_parse(start, strlen(start), &spec, &error) < 0)
        return broken(error.text);
    return report(job_spec_set(spec, assignment, &error), &error);
}

int main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)(const char *input, size_t size);
    } targets[] = {{"json", try_json},
                   {"stream", try_stream},
                   {"interface", try_interface},
                   {"spec", try_spec},
                   {"set", try_set}};
    AUTO_FREE char *input = malloc(INPUT_MAX);
    size_t size = input ? fread(input, 1, INPUT_MAX, stdin) : 0;
    bool many = argument_count > 2 && strcmp(arguments[2], "many") == 0;

    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        int r = 0;

        if (argument_count < 2 || strcmp(targets[i].name, arguments[1]) != 0)
            continue;
        if (!many)
            return targets[i].run(input, size);
        for (size_t at = 0; at + sizeof(uint32_t) <= size && r == 0;) {
            uint32_t length;
            AUTO_FREE char *exact = NULL; /* of its own, so that a sanitizer sees every overrun */

            memcpy(&length, input + at, sizeof length);
            at += sizeof length;
            if (length > size - at)
                return 2;
            exact = malloc((size_t)length + 1);
            memcpy(exact, input + at, length);
            exact = realloc(exact, length ? length : 1);
            r = targets[i].run(exact, length);
            at += length;
        }
        return r;
    }
    fputs("usage: parse_untrusted json|stream|interface|spec|set [many] < bytes\n", stderr);
    return 2;
}
