/* test_advice_variants.c: which changes of a specification are measured. */
#include "proto/job_spec.h"
#include "worker/trainee/advice_variants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct measurement two_threads = {.step = 0.001,
                                               .batch = 8,
                                               .accumulate = 1,
                                               .threads = 2,
                                               .precision = "float32",
                                               .recompute = "none",
                                               .fast_types = 1u << TENSOR_BFLOAT16};
static const struct advice_place place = {.cores = 2, .samples = 1000};

static struct json_object *spec_new(const char *train, const char *data)
{
    static const char form[] =
        "{\"directory\": \"/\", \"model\": {\"name\": \"mlp\", \"hidden\": [100, 10, 64]}, "
        "\"data\": {\"train\": {\"format\": \"idx\", \"images\": \"a\", \"labels\": \"b\"}%s}, "
        "\"train\": {\"batch_size\": 8%s}}";
    JSON_AUTO struct json_object *raw = NULL;
    struct json_object *normalised = NULL;
    struct error error = {0};
    char text[1024];
    int length = snprintf(text, sizeof text, form, data, train);

    if (json_parse(text, (size_t)length, &raw, &error) < 0 ||
        job_spec_normalise(raw, &normalised, NULL, &error) < 0)
        fail_msg("%s", error.text);
    return normalised;
}

/* The changes of one kind, one behind the other; freed by the next call. */
static const char *changes_of(struct json_object *spec, const struct measurement *base,
                              enum advice_kind kind)
{
    static char text[4096];
    struct advice_variant variants[ADVICE_VARIANTS_MAX];
    int count = advice_variants_list(spec, base, &place, variants);
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (variants[i].kind == kind)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "",
                                     json_text(variants[i].changes, NULL));
        advice_variant_release(&variants[i]);
    }
    return text;
}

static void test_settings_of_the_device(void **state)
{
    JSON_AUTO struct json_object *spec = spec_new("", "");
    struct measurement base = two_threads;

    (void)state;
    assert_string_equal(changes_of(spec, &base, ADVICE_PRECISION),
                        "{\"train.precision\":\"bfloat16\"}");
    assert_string_equal(changes_of(spec, &base, ADVICE_THREADS), "{\"device.threads\":1}");
    assert_string_equal(changes_of(spec, &base, ADVICE_LOADER_THREADS),
                        "{\"data.loader_threads\":1} {\"data.loader_threads\":2}");
    assert_string_equal(changes_of(spec, &base, ADVICE_RECOMPUTE), "");
    assert_string_equal(changes_of(spec, &base, ADVICE_DETERMINISTIC), "");
    /* AVX-512 has 16 lanes; what is narrower than that stays */
    assert_string_equal(changes_of(spec, &base, ADVICE_WIDTH), "{\"model.hidden\":[112,10,64]}");
    base.threads = 1;
    base.loader_threads = 1;
    strcpy(base.precision, "bfloat16");
    strcpy(base.recompute, "selective");
    assert_string_equal(changes_of(spec, &base, ADVICE_PRECISION),
                        "{\"train.precision\":\"float32\"}");
    assert_string_equal(changes_of(spec, &base, ADVICE_THREADS), "{\"device.threads\":0}");
    assert_string_equal(changes_of(spec, &base, ADVICE_LOADER_THREADS),
                        "{\"data.loader_threads\":0} {\"data.loader_threads\":2}");
    assert_string_equal(changes_of(spec, &base, ADVICE_RECOMPUTE),
                        "{\"train.recompute\":\"none\"}");
    base.owns_memory = base.data_on_device = true;
    assert_string_equal(changes_of(spec, &base, ADVICE_THREADS), "");
    assert_string_equal(changes_of(spec, &base, ADVICE_LOADER_THREADS), "");
    assert_string_equal(changes_of(spec, &base, ADVICE_DETERMINISTIC),
                        "{\"train.deterministic\":false}");
    assert_string_equal(changes_of(spec, &base, ADVICE_WIDTH), "{\"model.hidden\":[128,10,64]}");
}

static void test_batches(void **state)
{
    JSON_AUTO struct json_object *spec = spec_new("", "");
    JSON_AUTO struct json_object *sums = spec_new(", \"accumulate\": 12", "");
    JSON_AUTO struct json_object *whole = spec_new(", \"effective_batch_size\": 32", "");
    struct measurement base = two_threads;
    struct advice_variant variant;

    (void)state;
    assert_true(advice_variant_of_batch(spec, &base, &place, 8, &variant));
    assert_string_equal(json_text(variant.changes, NULL), "{\"train.batch_size\":64}");
    advice_variant_release(&variant);
    assert_false(advice_variant_of_batch(spec, &base, &place, 16, &variant)); /* 7 updates */
    assert_false(advice_variant_of_batch(whole, &base, &place, 2, &variant));
    assert_string_equal(changes_of(spec, &base, ADVICE_ACCUMULATE), "");
    base.accumulate = 12;
    assert_false(advice_variant_of_batch(sums, &base, &place, 2, &variant));
    assert_string_equal(changes_of(sums, &base, ADVICE_ACCUMULATE),
                        "{\"train.batch_size\":16,\"train.accumulate\":6} "
                        "{\"train.batch_size\":32,\"train.accumulate\":3} "
                        "{\"train.batch_size\":96,\"train.accumulate\":1}");
    base.accumulate = 4;
    assert_string_equal(changes_of(whole, &base, ADVICE_ACCUMULATE),
                        "{\"train.batch_size\":16} {\"train.batch_size\":32}");
}

static void test_data(void **state)
{
    JSON_AUTO struct json_object *spec =
        spec_new("", ", \"augment\": [\"horizontal_flip\", \"cutout:2\"]");

    (void)state;
    assert_string_equal(
        changes_of(spec, &two_threads, ADVICE_AUGMENT),
        "{\"data.augment\":[\"cutout:2\"]} {\"data.augment\":[\"horizontal_flip\"]}");
    assert_string_equal(changes_of(spec, &two_threads, ADVICE_LENGTH_BUCKETS), "");
}

static void test_text(void **state)
{
    JSON_AUTO struct json_object *spec = spec_new("", "");
    struct advice_rhythm rhythm = {.evaluate_epochs = 5, .checkpoint_steps = 1};
    JSON_AUTO struct json_object *evaluate = advice_evaluate_changes(&rhythm);
    JSON_AUTO struct json_object *checkpoint = advice_checkpoint_changes(&rhythm);
    JSON_AUTO struct json_object *read = NULL;
    struct error error = {0};
    AUTO_FREE char *text = NULL;

    (void)state;
    assert_string_equal(json_text(evaluate, NULL), "{\"train.evaluate_every\":\"5 epochs\"}");
    assert_string_equal(json_text(checkpoint, NULL), "{\"checkpoint.every\":\"1 step\"}");
    text = advice_variant_text(spec, evaluate, &error);
    assert_non_null(text);
    assert_int_equal(json_parse(text, strlen(text), &read, &error), 0);
    assert_string_equal(json_get_string(json_get(read, "train"), "evaluate_every", ""), "5 epochs");
    assert_int_equal(json_get_int(json_get(json_get(spec, "train"), "evaluate_every"), "epochs", 0),
                     1); /* the specification stays as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings_of_the_device),
                                       cmocka_unit_test(test_batches), cmocka_unit_test(test_data),
                                       cmocka_unit_test(test_text)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
