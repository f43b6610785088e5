/* test_job_spec.c: normalising, setting keys, the plan's digest. Also compares docs/job-spec.md
 * with what the table prints. */
#include "base/file.h"
#include "proto/job_spec.h"
#include "proto/job_spec_schema.h"
#include "tests/support/job_spec_text.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct json_object *normalise(const char *text)
{
    JSON_AUTO struct json_object *spec = job_spec_text_parse(text);
    struct json_object *normalised;
    struct error error = {0};

    if (job_spec_normalise(spec, &normalised, NULL, &error) < 0)
        fail_msg("%s: %s", text, error.text);
    return normalised;
}

/* The member at a path of plain keys. */
static struct json_object *at(struct json_object *object, const char *path)
{
    char copy[128], *rest = copy, *key;

    snprintf(copy, sizeof copy, "%s", path);
    while ((key = strsep(&rest, ".")))
        object = json_get(object, key);
    return object;
}

static void expect(struct json_object *object, const char *path, const char *json)
{
    const char *text = json_text(at(object, path), NULL);

    if (strcmp(text, json) != 0)
        fail_msg("%s is %s and not %s", path, text, json);
}

static void test_defaults_of_native(void **state)
{
    JSON_AUTO struct json_object *spec = normalise("{" MLP "," IDX "}");

    (void)state;
    expect(spec, "name", "\"job\"");
    expect(spec, "priority", "0");
    expect(spec, "directory", "\"/\"");
    expect(spec, "environment", "{}");
    expect(spec, "time_limit", "null");
    expect(spec, "model.hidden", "[128]");
    expect(spec, "model.activation", "\"relu\"");
    expect(spec, "model.context", "null");
    expect(spec, "model.loss", "\"cross_entropy\"");
    expect(spec, "data.validation_fraction", "0.1");
    expect(spec, "data.normalize", "\"standard\"");
    expect(spec, "data.augment", "[]");
    expect(spec, "data.label_noise", "0.0");
    expect(spec, "train.epochs", "10");
    expect(spec, "train.seed", "42");
    expect(spec, "train.optimizer.name", "\"adam\"");
    expect(spec, "train.optimizer.lr", "0.001");
    expect(spec, "train.optimizer.betas", "[0.9,0.999]");
    expect(spec, "train.optimizer.momentum", "null");
    expect(spec, "train.optimizer.adamw", "null");
    expect(spec, "train.schedule.name", "\"constant\"");
    expect(spec, "train.early_stop", "null");
    expect(spec, "checkpoint.every", "{\"epochs\":1}");
    expect(spec, "checkpoint.keep", "3");
    expect(spec, "checkpoint.best", "\"validation_loss\"");
    expect(spec, "device.allow", "null");
    expect(spec, "command", "null");
}

/* Whoever says how many steps there shall be gets them, however many epochs that is. */
static void test_steps_without_epochs(void **state)
{
    static const char both[] =
        "{\"model\":{\"name\":\"mlp\"},\"data\":{\"train\":{\"format\":\"csv\","
        "\"path\":\"a.csv\"}},\"train\":{\"max_steps\":5000%s}}";
    static const char *const epochs[][2] = {
        {"", "1000000"}, {",\"epochs\":null", "1000000"}, {",\"epochs\":10", "10"}};
    char text[300];

    (void)state;
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        snprintf(text, sizeof text, both, epochs[i][0]);
        JSON_AUTO struct json_object *spec = normalise(text);

        expect(spec, "train.epochs", epochs[i][1]);
        expect(spec, "train.max_steps", "5000");
        job_spec_drop_defaults(spec);
        assert_int_equal(json_get(json_get(spec, "train"), "epochs") != NULL, i == 2);
    }
}

static void test_defaults_by_optimizer(void **state)
{
    static const struct {
        const char *name, *lr, *weight_decay, *betas, *momentum, *eps;
    } cases[] = {
        {"sgd", "0.1", "0.0", "null", "0.0", "null"},
        {"adam", "0.001", "0.0", "[0.9,0.999]", "null", "1e-08"},
        {"adamw", "0.001", "0.01", "[0.9,0.999]", "null", "1e-08"},
        {"rmsprop", "0.001", "0.0", "null", "0.0", "1e-08"},
        {"lion", "0.0001", "0.0", "[0.9,0.99]", "null", "null"},
        {"adagrad", "0.01", "0.0", "null", "null", "1e-10"},
        {"adadelta", "1.0", "0.0", "null", "null", "1e-06"},
        {"nadam", "0.002", "0.0", "[0.9,0.999]", "null", "1e-08"},
        {"muon", "0.001", "0.1", "null", "0.95", "1e-07"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        JSON_AUTO struct json_object *spec = NULL;

        snprintf(text, sizeof text, "{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"%s\"}}}",
                 cases[i].name);
        spec = normalise(text);
        expect(spec, "train.optimizer.lr", cases[i].lr);
        expect(spec, "train.optimizer.weight_decay", cases[i].weight_decay);
        expect(spec, "train.optimizer.betas", cases[i].betas);
        expect(spec, "train.optimizer.momentum", cases[i].momentum);
        expect(spec, "train.optimizer.eps", cases[i].eps);
    }
}

static void test_command(void **state)
{
    JSON_AUTO struct json_object *spec = normalise(
        "{\"command\":[\"/usr/bin/python3\",\"train.py\",\"\"],\"time_limit\":\"2 h\","
        "\"resources\":{\"memory\":\"1.5 GiB\",\"cores\":2},\"environment\":{\"A\":\"b\"},"
        "\"retry\":{\"limit\":2,\"backoff\":\"500 ms\"}}");

    (void)state;
    assert_true(job_spec_is_command(spec));
    expect(spec, "name", "\"python3\"");
    expect(spec, "command", "[\"/usr/bin/python3\",\"train.py\",\"\"]");
    expect(spec, "time_limit", "7200.0");
    expect(spec, "resources", "{\"cores\":2,\"memory\":1610612736,\"devices\":1}");
    expect(spec, "environment", "{\"A\":\"b\"}");
    expect(spec, "retry", "{\"limit\":2,\"backoff\":0.5}");
    expect(spec, "model", "null");
    expect(spec, "train", "null");
    expect(spec, "checkpoint", "null");
    expect(spec, "preemptible", "false");
}

/* A specification that names a signal or a time to save allows that its job is asked to leave. */
static void test_preemptible(void **state)
{
    static const struct {
        const char *spec, *preemptible;
    } cases[] = {
        {"{\"command\":[\"a\"]}", "false"},
        {"{\"command\":[\"a\"],\"preemptible\":true}", "true"},
        {"{\"command\":[\"a\"],\"preemptible\":false}", "false"},
        {"{\"command\":[\"a\"],\"checkpoint_signal\":\"SIGUSR1\"}", "true"},
        {"{\"command\":[\"a\"],\"checkpoint_grace\":\"2 min\"}", "true"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *spec = normalise(cases[i].spec);

        expect(spec, "preemptible", cases[i].preemptible);
        if (i == 4)
            expect(spec, "checkpoint_grace", "120.0");
    }
}

static void test_command_digest(void **state)
{
    static const char *const others[] = {
        "{\"command\":[\"a\",\"c\"],\"directory\":\"/d\",\"environment\":{\"A\":\"1\",\"PATH\":\"/"
        "bin\"}}",
        "{\"command\":[\"a\",\"b\"],\"directory\":\"/e\",\"environment\":{\"A\":\"1\",\"PATH\":\"/"
        "bin\"}}",
        "{\"command\":[\"a\",\"b\"],\"directory\":\"/d\",\"environment\":{\"A\":\"2\",\"PATH\":\"/"
        "bin\"}}",
        "{\"command\":[\"ab\"],\"directory\":\"/d\",\"environment\":{\"A\":\"1\",\"PATH\":\"/"
        "bin\"}}",
    };
    JSON_AUTO struct json_object *one =
        normalise("{\"command\":[\"a\",\"b\"],\"directory\":\"/"
                  "d\",\"environment\":{\"A\":\"1\",\"PATH\":\"/bin\"}}");
    JSON_AUTO struct json_object *same = normalise(
        "{\"environment\":{\"PATH\":\"/sbin\",\"LANG\":\"C\",\"A\":\"1\"},\"command\":[\"a\","
        "\"b\"],\"directory\":\"/d\",\"name\":\"n\",\"priority\":3,\"time_limit\":9}");
    char digest[65], other[65];

    (void)state;
    job_spec_command_digest(one, digest);
    job_spec_command_digest(same, other);
    assert_string_equal(digest, other);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        JSON_AUTO struct json_object *spec = normalise(others[i]);

        job_spec_command_digest(spec, other);
        assert_string_not_equal(digest, other);
    }
}

static void test_normalised_forms(void **state)
{
    static const struct {
        const char *spec, *path, *json;
    } cases[] = {
        {"{\"model\":[{\"type\":\"relu\"}]," IDX "}", "model.name", "\"layers\""},
        {"{\"model\":{\"layers\":[{\"type\":\"conv2d\",\"channels\":8,\"kernel\":3}]}," IDX "}",
         "model.layers",
         "[{\"type\":\"conv2d\",\"channels\":8,\"kernel\":[3,3],\"stride\":[1,1],\"padding\":[0,0],"
         "\"dilation\":[1,1],\"groups\":1,\"bias\":true}]"},
        {"{\"model\":[{\"type\":\"max_pool2d\",\"kernel\":[2,3]}]," IDX "}", "model.layers",
         "[{\"type\":\"max_pool2d\",\"kernel\":[2,3],\"padding\":[0,0]}]"},
        {"{" MLP "," CSV "}", "data.train.path", "[\"a.csv\"]"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"csv\",\"path\":[\"a\",\"b\"],"
         "\"label_column\":3,\"header\":true,\"divide_by\":16,\"shape\":[1,8,8]},"
         "\"test\":{\"path\":\"c\"}}}",
         "data.test",
         "{\"format\":\"csv\",\"path\":[\"c\"],\"label_column\":\"3\",\"header\":\"yes\","
         "\"delimiter\":\",\",\"comment\":\"#\",\"shape\":[1,8,8],\"divide_by\":16.0}"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"every\":\"500 steps\"}}", "checkpoint.every",
         "{\"steps\":500}"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"every\":\"2 epochs\"}}", "checkpoint.every",
         "{\"epochs\":2}"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"every\":\"10 min\"}}", "checkpoint.every",
         "{\"seconds\":600.0}"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"every\":{\"steps\":7}}}", "checkpoint.every",
         "{\"steps\":7}"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"best\":null}}", "checkpoint",
         "{\"every\":{\"epochs\":1},\"keep\":3,\"best\":null}"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"idx\",\"images\":\"i\",\"labels\":\"l\"},"
         "\"validation_fraction\":0}}",
         "checkpoint.best", "\"train_loss\""},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":1e3,\"clip_norm\":1,\"optimizer\":null}}",
         "train.epochs", "1000"},
        {"{" MLP "," IDX ",\"train\":{\"seed\":9223372036854775807}}", "train.seed",
         "9223372036854775807"},
        {"{\"model\":{\"name\":\"char_mlp\"},\"data\":{\"train\":{\"format\":\"text\",\"path\":"
         "\"a\"}}}",
         "data.normalize", "\"none\""},
        {"{\"model\":{\"name\":\"char_mlp\"},\"data\":{\"train\":{\"format\":\"text\",\"path\":"
         "\"a\"}}}",
         "model.activation", "\"tanh\""},
        {"{" MLP "," IDX ",\"train\":{\"batch_size\":\"auto\"}}", "train.batch_size", "\"auto\""},
        {"{" MLP "," IDX ",\"train\":{\"batch_size\":32,\"effective_batch_size\":96}}",
         "train.accumulate", "3"},
        {"{" MLP "," IDX ",\"train\":{\"effective_batch_size\":96}}", "train.batch_size",
         "\"auto\""},
        {"{" MLP "," IDX ",\"train\":{\"effective_batch_size\":96}}", "train.accumulate", "1"},
        {"{" MLP "," IDX ",\"train\":{\"recompute\":4}}", "train.recompute", "4"},
        {"{" MLP "," IDX ",\"train\":{\"recompute\":\"selective\"}}", "train.recompute",
         "\"selective\""},
        {"{" MLP "," IDX ",\"train\":{\"memory_limit\":\"1 GiB\"}}", "train.memory_limit",
         "1073741824"},
        {"{\"model\":{\"name\":\"dna_cnn\",\"channels\":[8]},\"data\":{\"train\":{\"format\":"
         "\"fasta\",\"path\":\"a\",\"tokens\":\"nucleotides\"}}}",
         "model.kernels", "[11]"},
        {"{\"command\":[\"a\\u001b\"]}", "name", "\"command\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *spec = normalise(cases[i].spec), *again = NULL;

        expect(spec, cases[i].path, cases[i].json);
        assert_int_equal(job_spec_normalise(spec, &again, NULL, NULL), 0);
        assert_string_equal(json_text(again, NULL), json_text(spec, NULL));
    }
}

static void test_set(void **state)
{
    static const struct {
        const char *assignment, *path, *json; /* path NULL: it is refused */
    } cases[] = {
        {"train.epochs=20", "train.epochs", "20"},
        {"train.optimizer.lr=1e-3", "train.optimizer.lr", "1e-3"},
        {"name=a=b", "name", "\"a=b\""},
        {"environment.LR=1e-3", "environment", "{\"LR\":\"1e-3\"}"},
        {"shell_environment.N=0.10", "shell_environment", "{\"N\":\"0.10\"}"},
        {"environment.N=\"7\"", "environment", "{\"N\":\"7\"}"},
        {"environment.N=null", "environment", "{\"N\":null}"},
        {"checkpoint.every=10 min", "checkpoint.every", "\"10 min\""},
        {"checkpoint.best=null", "checkpoint.best", "null"},
        {"model.hidden=[1, 2]", "model.hidden", "[1,2]"},
        {"model.layers[1].features=7", "model.layers",
         "[{\"type\":\"relu\"},{\"type\":\"linear\",\"features\":7}]"},
        {"model.layers[0]={\"type\":\"tanh\"}", "model.layers",
         "[{\"type\":\"tanh\"},{\"type\":\"linear\",\"features\":3}]"},
        {"model.layers[2].features=7", NULL, NULL},
        {"model.layers[-1].features=7", NULL, NULL},
        {"model.layers[99999999999999999999]=7", NULL, NULL},
        {"model.layers[1=7", NULL, NULL},
        {"model.name.x=7", NULL, NULL},
        {"train.epochs", NULL, NULL},
        {"=5", NULL, NULL},
        {".a=5", NULL, NULL},
        {"a..b=5", NULL, NULL},
        {"a.=5", NULL, NULL},
        {"a=\xff", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *spec =
            job_spec_text_parse("{\"model\":{\"name\":\"layers\",\"layers\":[{\"type\":\"relu\"},"
                                "{\"type\":\"linear\",\"features\":3}]}}");
        struct error error = {0};
        int r = job_spec_set(spec, cases[i].assignment, &error);

        assert_int_equal(r, cases[i].path ? 0 : -EINVAL);
        if (cases[i].path)
            expect(spec, cases[i].path, cases[i].json);
        else
            assert_true(*error.text);
    }
}

/* The rest means the same, and another optimizer can be chosen. */
static void test_defaults_are_dropped(void **state)
{
    static const char *const texts[] = {
        "{\"model\":{\"name\":\"mlp\",\"hidden\":[4]},\"data\":{\"train\":{\"format\":\"csv\","
        "\"path\":\"a.csv\"}},\"train\":{\"optimizer\":{\"name\":\"adamw\",\"lr\":0.05}},"
        "\"checkpoint\":{\"best\":null}}",
        "{\"command\":[\"true\"],\"resources\":{\"cores\":1},\"environment\":{\"A\":\"b\"}}",
    };
    struct error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        JSON_AUTO struct json_object *normalised = normalise(texts[i]);
        JSON_AUTO struct json_object *spec = normalise(texts[i]), *again = NULL;

        job_spec_drop_defaults(spec);
        assert_true(json_object_object_length(spec) < json_object_object_length(normalised));
        assert_int_equal(job_spec_normalise(spec, &again, NULL, &error), 0);
        assert_true(json_object_equal(again, normalised));
    }
    JSON_AUTO struct json_object *spec = normalise(texts[0]), *other = NULL;

    job_spec_drop_defaults(spec);
    expect(spec, "train.optimizer", "{\"name\":\"adamw\",\"lr\":0.05}");
    expect(spec, "checkpoint", "{\"best\":null}");
    assert_int_equal(job_spec_set(spec, "train.optimizer.name=sgd", &error), 0);
    assert_int_equal(job_spec_normalise(spec, &other, NULL, &error), 0);
    expect(other, "train.optimizer.momentum", "0.0");

    /* a specification with one key less */
    JSON_AUTO struct json_object *older = normalise(texts[0]);
    json_object_object_del(json_get(older, "train"), "epochs");
    job_spec_drop_defaults(older);
    assert_non_null(at(older, "train.optimizer.betas"));
}

static void test_digest(void **state)
{
    static const struct {
        const char *spec;
        bool same;
    } cases[] = {
        {"{" IDX "," MLP ",\"name\":\"b\",\"priority\":5,\"device\":{\"threads\":2}}", true},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":10,\"optimizer\":{\"lr\":0.0010}}}", true},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":11}}", false},
        {"{" MLP "," IDX ",\"directory\":\"/tmp\"}", false},
        {"{\"model\":{\"name\":\"mlp\",\"hidden\":[12,8]}," IDX "}", false},
        {"{\"model\":{\"name\":\"mlp\",\"hidden\":[1,28]}," IDX "}", false},
    };
    JSON_AUTO struct json_object *first = normalise("{" MLP "," IDX "}");
    char digest[65], others[sizeof cases / sizeof *cases][65];

    (void)state;
    job_spec_plan_digest(first, digest);
    assert_int_equal(strlen(digest), 64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *spec = normalise(cases[i].spec);

        job_spec_plan_digest(spec, others[i]);
        assert_int_equal(strcmp(digest, others[i]) == 0, cases[i].same);
    }
    assert_string_not_equal(others[4], others[5]);
}

/* Every row of the table is complete, and its default is a value that it accepts. */
static void check_section(const struct job_spec_section *section)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];
        char description[1024];

        assert_true(key->help && *key->help);
        assert_true(*job_spec_key_describe(key, description, sizeof description));
        assert_true(strlen(description) + 1 < sizeof description);
        assert_false(key->required && (key->fallback || key->fallbacks));
        if (key->type == JOB_SPEC_CHOICE || key->type == JOB_SPEC_CHOICES ||
            key->type == JOB_SPEC_SWITCH)
            assert_non_null(key->choices);
        if (key->section && key->section != section)
            check_section(key->section);
        if (section->variant_key)
            assert_non_null(job_spec_key_find(section, section->variant_key));
    }
}

static void test_table(void **state)
{
    (void)state;
    check_section(&job_spec_schema);
}

/* A key applies to the variant if its help lists that, or lists none. */
static void check_applies(const struct job_spec_section *section, const char *variant)
{
    char list[JOB_SPEC_VARIANTS_MAX], spaced[sizeof list + 2], word[64];

    snprintf(word, sizeof word, " %s ", variant);
    for (size_t i = 0; i < section->count; i++) {
        const struct job_spec_key *key = &section->keys[i];
        bool listed = job_spec_key_variants(section, key, list, sizeof list);

        snprintf(spaced, sizeof spaced, " %s ", list);
        assert_int_equal(job_spec_key_applies(section, key, NULL), !listed);
        if (job_spec_key_applies(section, key, variant) != (!listed || strstr(spaced, word)))
            fail_msg("%s, %s: its help lists \"%s\"", key->name, variant, list);
    }
}

/* Every key that a variant's row names is one of the table, and its default is a value that the key
 * accepts. Formats of data name keys of `data`, too. */
static void check_variants(const char *path, const struct job_spec_section *section,
                           const struct job_spec_section *other)
{
    for (const struct job_spec_variant *v = section->variants; v->name; v++) {
        check_applies(section, v->name);
        for (const struct job_spec_variant_key *k = v->keys; k->name; k++) {
            const struct job_spec_key *key = job_spec_key_find(section, k->name);

            if (!key && other)
                key = job_spec_key_find(other, k->name);
            if (!key)
                fail_msg("%s: %s names a key %s, which is none", path, v->name, k->name);
            if (key->required && job_spec_key_fallback(section, key, v->name))
                fail_msg("%s: %s has a default for %s, which is required", path, v->name, k->name);
        }
    }
}

static const struct job_spec_section *section_of(const struct job_spec_section *section,
                                                 const char *name)
{
    return job_spec_key_find(section, name)->section;
}

static void test_variants(void **state)
{
    const struct job_spec_section *data = section_of(&job_spec_schema, "data");
    const struct job_spec_section *train = section_of(&job_spec_schema, "train");

    (void)state;
    check_applies(&job_spec_schema, "native");
    check_applies(&job_spec_schema, "command");
    check_applies(&job_spec_schema, "nat");
    check_variants("model", section_of(&job_spec_schema, "model"), NULL);
    check_variants("data.train", section_of(data, "train"), data);
    check_variants("train.optimizer", section_of(train, "optimizer"), NULL);
    check_variants("train.schedule", section_of(train, "schedule"), NULL);
}

/* The document names each variant. */
static void check_names(const char *path, const struct job_spec_section *section)
{
    AUTO_FREE char *file = NULL;
    struct error error = {0};
    size_t size;
    char name[64];

    if (file_read(AT_FDCWD, path, 1 << 20, &file, &size, &error) < 0)
        fail_msg("%s (run from the top of the source)", error.text);
    for (const struct job_spec_variant *v = section->variants; v->name; v++) {
        snprintf(name, sizeof name, "`%s`", v->name);
        if (!strstr(file, name))
            fail_msg("%s does not name %s", path, v->name);
    }
}

static void test_documents_have_all(void **state)
{
    (void)state;
    check_names("docs/models.md", section_of(&job_spec_schema, "model"));
    check_names("docs/data.md", section_of(section_of(&job_spec_schema, "data"), "train"));
}

static void test_documentation(void **state)
{
    AUTO_FREE char *printed = NULL, *file = NULL;
    size_t printed_size, file_size;
    struct error error = {0};
    FILE *stream = open_memstream(&printed, &printed_size);

    (void)state;
    job_spec_print_help(JOB_SPEC_HELP_MARKDOWN, stream);
    fclose(stream);
    if (file_read(AT_FDCWD, "docs/job-spec.md", 1 << 20, &file, &file_size, &error) < 0)
        fail_msg("%s (run from the top of the source)", error.text);
    if (strcmp(file, printed) != 0)
        fail_msg("docs/job-spec.md is old: build/tests/helpers/job_spec_markdown > "
                 "docs/job-spec.md");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_native),
        cmocka_unit_test(test_steps_without_epochs),
        cmocka_unit_test(test_defaults_by_optimizer),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_preemptible),
        cmocka_unit_test(test_command_digest),
        cmocka_unit_test(test_normalised_forms),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_defaults_are_dropped),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_documents_have_all),
        cmocka_unit_test(test_documentation),
    };

    return cmocka_run_group_tests_name("job_spec", tests, NULL, NULL);
}
