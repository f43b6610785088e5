/* test_varlink_interface.c: the parser of .varlink files, the checker, and org.varlink.service. */
#include "proto/varlink.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char example[] = "# Head\n"
                              "interface org.example.a-1\n"
                              "type Colour (red, green)\n"
                              "type Tree (value: int, children: ?[]Tree, colour: ?Colour)\n"
                              "# Doc\n"
                              "method Grow(tree: Tree, by: float, names: [string]string,\n"
                              "            any: ?object, shape: ?(x: int, on: bool),\n"
                              "            kind: ?(a, b), deep: ?[][string]int) -> (tree: Tree)\n"
                              "method Nothing() -> ()\n"
                              "error Broken (why: string)\n";

static struct varlink_interface *parse_good(const char *text)
{
    struct varlink_interface *interface;
    struct error error = {0};

    if (varlink_interface_parse(text, &interface, &error) < 0)
        fail_msg("%s", error.text);
    return interface;
}

static void test_own_files(void **state)
{
    static const struct {
        const char *text, *name, *method;
    } files[] = {{proto_interface_io_traind, "io.traind", "Submit"},
                 {proto_interface_io_traind_Worker, "io.traind.Worker", "Status"},
                 {proto_interface_org_varlink_service, "org.varlink.service", "GetInfo"}};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct varlink_interface *interface = parse_good(files[i].text);

        assert_string_equal(varlink_interface_name(interface), files[i].name);
        assert_string_equal(varlink_interface_text(interface), files[i].text);
        assert_true(varlink_interface_has_method(interface, files[i].method));
        assert_false(varlink_interface_has_method(interface, "Nonsense"));
        varlink_interface_free(interface);
    }
}

static void test_refused_files(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "line 1"},
        {"interface x", "interface name"},
        {"interface x.", "interface name"},
        {"interface x.y-\n", "interface name"},
        {"interface x..y\n", "interface name"},
        {"interface x.-y\n", "interface name"},
        {"interface x.y\nnonsense", "line 2: \"nonsense\" where type, method or error"},
        {"interface x.y\n\nmethod a() -> ()", "line 3"},
        {"interface x.y\nmethod A()", "\"->\""},
        {"interface x.y\nmethod A(a: Missing) -> ()", "no type Missing"},
        {"interface x.y\nmethod A(a: int, a: int) -> ()", "twice"},
        {"interface x.y\nmethod A(a: int,) -> ()", "a name"},
        {"interface x.y\nmethod A(a: ??int) -> ()", "a type"},
        {"interface x.y\nmethod A(a: []?int) -> ()", "cannot be nullable"},
        {"interface x.y\nmethod A(a: [string]?int) -> ()", "cannot be nullable"},
        {"interface x.y\nmethod A(a: integer) -> ()", "a type"},
        {"interface x.y\nmethod A(a: [int]int) -> ()", "a type"},
        {"interface x.y\nmethod A(a_: int) -> ()", "\"_:\""},
        {"interface x.y\nmethod A(_a: int) -> ()", "a name"},
        {"interface x.y\nmethod A(a, b) -> ()", "need a type"},
        {"interface x.y\ntype A (a: int, b)", "\":\""},
        {"interface x.y\ntype A (a, b: int)", "\",\" or \")\""},
        {"interface x.y\ntype A ()\ntype A ()", "defined twice"},
        {"interface x.y\ntype A (a: int", "ends"},
        {"interface x.y\nerror E", "\"(\""},
    };
    char deep[400] = "interface x.y\ntype A (a: ";
    struct varlink_interface *interface;
    struct error error;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(varlink_interface_parse(cases[i].text, &interface, &error), -EINVAL);
        if (!strstr(error.text, cases[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].text, error.text, cases[i].part);
    }
    for (int i = 0; i < 60; i++)
        strcat(deep, "[]");
    strcat(deep, "int)");
    assert_int_equal(varlink_interface_parse(deep, &interface, &error), -EINVAL);
    assert_non_null(strstr(error.text, "levels"));
}

static void test_check(void **state)
{
    static const struct {
        const char *parameters, *field, *part; /* field NULL: the parameters are valid */
    } cases[] = {
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":{}}", NULL, NULL},
        {"{\"tree\":{\"value\":1,\"children\":[{\"value\":2,\"colour\":\"red\"}]},\"by\":1.5,"
         "\"names\":{\"a\":\"b\"},\"any\":{\"x\":[1]},\"shape\":{\"x\":1,\"on\":true},"
         "\"kind\":\"b\",\"deep\":[{},{\"k\":3}]}",
         NULL, NULL},
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":{},\"any\":null}", NULL, NULL},
        {"{}", "tree", "missing"},
        {"{\"tree\":null,\"by\":1,\"names\":{}}", "tree", "missing"},
        {"{\"tree\":{},\"by\":1,\"names\":{}}", "tree.value", "missing"},
        {"{\"tree\":{\"value\":1.5},\"by\":1,\"names\":{}}", "tree.value", "an integer"},
        {"{\"tree\":{\"value\":1,\"children\":[{\"value\":2},{\"value\":\"x\"}]},\"by\":1,"
         "\"names\":{}}",
         "tree.children[1].value", "is a string; it must be an integer"},
        {"{\"tree\":{\"value\":1,\"colour\":\"blue\"},\"by\":1,\"names\":{}}", "tree.colour",
         "one of red, green"},
        {"{\"tree\":{\"value\":1},\"by\":\"1\",\"names\":{}}", "by", "a number"},
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":{\"a\":5}}", "names.a", "a string"},
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":[]}", "names", "an object"},
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":{},\"any\":[]}", "any", "an object"},
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":{},\"shape\":{\"x\":1,\"on\":0}}", "shape.on",
         "true or false"},
        {"{\"tree\":{\"value\":1},\"by\":1,\"names\":{},\"deep\":[null]}", "deep[0]", "an object"},
        {"{\"tre\":{}}", "tre", "did you mean tree?"},
    };
    struct varlink_interface *interface = parse_good(example);
    struct error error;
    char field[128];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *parameters = NULL;
        int r;

        assert_int_equal(
            json_parse(cases[i].parameters, strlen(cases[i].parameters), &parameters, NULL), 0);
        r = varlink_interface_check(interface, "Grow", VARLINK_INPUT, parameters, field,
                                    sizeof field, &error);
        assert_int_equal(r, cases[i].field ? -EINVAL : 0);
        if (!cases[i].field)
            continue;
        assert_string_equal(field, cases[i].field);
        if (!strstr(error.text, cases[i].part))
            fail_msg("\"%s\" lacks \"%s\"", error.text, cases[i].part);
    }
    assert_int_equal(
        varlink_interface_check(interface, "Nothing", VARLINK_OUTPUT, NULL, NULL, 0, &error), 0);
    assert_int_equal(
        varlink_interface_check(interface, "Grow", VARLINK_OUTPUT, NULL, NULL, 0, &error), -EINVAL);
    assert_int_equal(
        varlink_interface_check(interface, "None", VARLINK_INPUT, NULL, NULL, 0, &error), -ENOENT);
    assert_int_equal(varlink_interface_check_error(interface, "Broken", NULL, &error), -EINVAL);
    assert_int_equal(varlink_interface_check_error(interface, "Grow", NULL, &error), -ENOENT);
    varlink_interface_free(interface);
}

/* Compares the answer of the service to a call; NULL: a handler would be called. */
static void check_answer(const struct varlink_service *service, const char *message,
                         const char *expected)
{
    const struct varlink_interface *interface;
    JSON_AUTO struct json_object *answer = NULL;
    struct varlink_call call;
    struct error error;
    const char *method;

    assert_int_equal(varlink_call_parse(message, strlen(message), &call, &error), 0);
    assert_int_equal(varlink_service_dispatch(service, &call, &interface, &method, &answer, &error),
                     !expected);
    if (expected)
        assert_string_equal(json_text(answer, NULL), expected);
    else
        assert_string_equal(method, "Grow");
    varlink_call_release(&call);
}

static void test_service(void **state)
{
    struct varlink_interface *standard = parse_good(proto_interface_org_varlink_service);
    struct varlink_interface *own = parse_good(example);
    const struct varlink_interface *interfaces[] = {standard, own};
    struct varlink_service service = {"Us", "it", "1", "https://example.org/", interfaces, 2};

    (void)state;
    check_answer(&service, "{\"method\":\"org.varlink.service.GetInfo\"}",
                 "{\"parameters\":{\"vendor\":\"Us\",\"product\":\"it\",\"version\":\"1\","
                 "\"url\":\"https://example.org/\",\"interfaces\":[\"org.varlink.service\","
                 "\"org.example.a-1\"]}}");
    check_answer(&service,
                 "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":"
                 "{\"interface\":\"org.none\"}}",
                 "{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":"
                 "{\"interface\":\"org.none\"}}");
    check_answer(&service, "{\"method\":\"org.none.Do\"}",
                 "{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":"
                 "{\"interface\":\"org.none\"}}");
    check_answer(&service, "{\"method\":\"nodots\"}",
                 "{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":"
                 "{\"interface\":\"nodots\"}}");
    check_answer(&service, "{\"method\":\"org.example.a-1.Missing\"}",
                 "{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":"
                 "{\"method\":\"org.example.a-1.Missing\"}}");
    check_answer(&service, "{\"method\":\"org.example.a-1.Grow\",\"parameters\":{\"by\":true}}",
                 "{\"error\":\"org.varlink.service.InvalidParameter\",\"parameters\":"
                 "{\"parameter\":\"tree\"}}");
    check_answer(&service,
                 "{\"method\":\"org.example.a-1.Grow\",\"parameters\":{\"tree\":{\"value\":1},"
                 "\"by\":1,\"names\":{}}}",
                 NULL);
    varlink_interface_free(standard);
    varlink_interface_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_files),
        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_service),
    };

    return cmocka_run_group_tests_name("varlink_interface", tests, NULL, NULL);
}
