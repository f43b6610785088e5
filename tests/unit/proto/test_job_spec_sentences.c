/* test_job_spec_sentences.c: errors in a specification are refused with a sentence that names the
 * place. For an unknown word it also names the nearest known one. */
#include "proto/job_spec.h"
#include "tests/support/job_spec_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define IDX_WITH(more) \
    "\"data\":{\"train\":{\"format\":\"idx\",\"images\":\"i\",\"labels\":\"l\"}," more "}"
#define GENERATE(keys, words, test)                                                                \
    "\"data\":{\"train\":{\"format\":\"generate\"," keys "\"samples\":9,\"command\":[\"a\"," words \
    "]}" test "}"
#define CSV_WITH(more) "\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"a.csv\"}," more "}"
#define AUGMENTATIONS                                                                           \
    "an array with some of \"random_crop:PADDING\" (an integer from 1 to 1024), "               \
    "\"horizontal_flip\", \"vertical_flip\", \"random_resized_crop:LEAST_SHARE\" (0.01 to 1), " \
    "\"rand_augment:MAGNITUDE\" (an integer from 1 to 30), \"brightness:STRENGTH\" (0.001 to "  \
    "10), \"contrast:STRENGTH\" (0.001 to 10), \"saturation:STRENGTH\" (0.001 to 10), "         \
    "\"hue:STRENGTH\" (0.001 to 0.5), \"rotation:DEGREES\" (0.1 to 180), "                      \
    "\"random_erasing:PROBABILITY\" (0.001 to 1), \"cutmix:ALPHA\" (0.01 to 4), "               \
    "\"cutout:SIDE\" (an integer from 1 to 4096), \"mixup:ALPHA\" (0.01 to 4)"

static void test_sentences(void **state)
{
    static const struct {
        const char *spec, *path, *nearest, *sentence;
    } cases[] = {
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"lrate\":1}}}", "train.optimizer.lrate",
         "train.optimizer.lr",
         "train.optimizer.lrate is not a key; did you mean train.optimizer.lr?"},
        {"{" MLP "," IDX ",\"train\":{\"lerning_rate\":1}}", "train.lerning_rate",
         "train.optimizer.lr", "train.lerning_rate is not a key; did you mean train.optimizer.lr?"},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":\"ten\"}}", "train.epochs", "",
         "train.epochs is \"ten\"; it must be an integer from 1 to 1000000"},
        {"{" MLP "," IDX ",\"epochs\":3}", "epochs", "train.epochs",
         "epochs is not a key; did you mean train.epochs?"},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":-1}}", "train.epochs", "",
         "train.epochs is -1; it must be an integer from 1 to 1000000"},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":1.5}}", "train.epochs", "",
         "train.epochs is 1.5; it must be an integer from 1 to 1000000"},
        {"{" MLP "," IDX ",\"train\":{\"epochs\":1e300}}", "train.epochs", "",
         "train.epochs is 1e300; it must be an integer from 1 to 1000000"},
        {"{" MLP "," IDX ",\"train\":{\"seed\":-1}}", "train.seed", "",
         "train.seed is -1; it must be an integer from 0 to 9223372036854775807"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"lr\":0}}}", "train.optimizer.lr", "",
         "train.optimizer.lr is 0; it must be a number greater than 0 and at most 1000000"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"adan\"}}}", "train.optimizer.name",
         "adam",
         "train.optimizer.name is \"adan\"; it must be one of sgd, adam, adamw, rmsprop, lion, "
         "adagrad, adadelta, nadam, muon, adamax, amsgrad, schedule_free_adamw, lamb; did you "
         "mean adam?"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"schedule_free_adamw\"},"
         "\"schedule\":{\"name\":\"cosine\"}}}",
         "train.schedule.name", "",
         "schedule_free_adamw needs no schedule but a warm-up; leave train.schedule.name at "
         "constant"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"schedule_free_adamw\"},"
         "\"ema\":{}}}",
         "train.ema", "", "schedule_free_adamw averages the weights itself; leave out train.ema"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"groups\":[{\"lr\":1}]}}}",
         "train.optimizer.groups[0].match", "",
         "train.optimizer.groups[0].match is missing; it must be a text or an array of 1 to 64 "
         "texts, the first of them not empty"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"momentum\":0.9}}}",
         "train.optimizer.momentum", "",
         "train.optimizer.momentum does not apply to adam; sgd, rmsprop and muon have it"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"adamw\",\"betas\":[0.9]}}}",
         "train.optimizer.betas", "",
         "train.optimizer.betas is [0.9]; it must be an array of 2 numbers of at least 0 and less "
         "than 1"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"betas\":[0.9,1]}}}",
         "train.optimizer.betas[1]", "",
         "train.optimizer.betas[1] is 1; train.optimizer.betas must be an array of 2 numbers of at "
         "least 0 and less than 1"},
        {"{\"model\":[{\"type\":\"relu\"},{\"type\":\"conv2d\",\"channels\":1,\"kernl\":3}]," IDX
         "}",
         "model.layers[1].kernl", "model.layers[1].kernel",
         "model.layers[1].kernl is not a key; did you mean model.layers[1].kernel?"},
        {"{\"model\":[{\"type\":\"relu\",\"features\":3}]," IDX "}", "model.layers[0].features", "",
         "model.layers[0].features does not apply to relu; linear has it"},
        {"{\"model\":[{\"type\":\"linear\"}]," IDX "}", "model.layers[0].features", "",
         "model.layers[0].features is missing; it must be an integer from 1 to 1000000"},
        {"{\"model\":[]," IDX "}", "model.layers", "",
         "model.layers is []; it must be an array of 1 to 4096 objects"},
        {"{\"model\":[{\"type\":\"branches\",\"branches\":[[],[{\"type\":\"linear\"}]]}]," IDX "}",
         "model.layers[0].branches[1][0].features", "",
         "model.layers[0].branches[1][0].features is missing; it must be an integer from 1 to "
         "1000000"},
        {"{\"model\":[{\"type\":\"branches\",\"branches\":[{\"type\":\"relu\"}]}]," IDX "}",
         "model.layers[0].branches[0]", "",
         "model.layers[0].branches[0] is {\"type\":\"relu\"}; it must be an array of 0 to 4096 "
         "objects"},
        {"{\"model\":{\"nodes\":[{\"type\":\"residual\",\"layers\":[]}]}," IDX "}",
         "model.nodes[0].layers", "",
         "model.nodes[0].layers is []; it must be an array of 1 to 4096 objects"},
        {"{\"model\":[5]," IDX "}", "model.layers[0]", "",
         "model.layers[0] is 5; it must be an object"},
        {"{" MLP "," IDX ",\"device\":{\"fallback\":\"maybe\"}}", "device.fallback", "",
         "device.fallback is \"maybe\"; it must be true or false"},
        {"{" MLP "," IDX ",\"train\":{\"precision\":\"int8\"}}", "train.precision", "",
         "train.precision is \"int8\"; it must be one of auto, float32, tf32, bfloat16, float16, "
         "pure_bfloat16, pure_float16"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"every\":\"0 steps\"}}", "checkpoint.every", "",
         "checkpoint.every is \"0 steps\"; it must be a text such as \"2 epochs\", \"500 steps\" "
         "or "
         "\"10 min\", from one step or 1 ms upwards"},
        {"{" MLP "," IDX ",\"checkpoint\":{\"every\":0.5}}", "checkpoint.every", "",
         "checkpoint.every is 0.5; it must be a text such as \"2 epochs\", \"500 steps\" or "
         "\"10 min\", from one step or 1 ms upwards"},
        {"{" MLP "}", "data", "", "data is missing; it must be an object"},
        {"{}", "model", "", "a job needs a model and data, or a command"},
        {"[]", "", "", "a job specification has to be a JSON object"},
        {"{\"command\":[\"a\"]," MLP "}", "model", "",
         "model belongs to a native job: a job has either a command or model, data, train and "
         "checkpoint"},
        {"{" MLP "," IDX ",\"resources\":{}}", "resources", "",
         "resources belongs to a command job: a job has either a command or model, data, train and "
         "checkpoint"},
        {"{\"command\":[\"\"]}", "command[0]", "",
         "command[0] is \"\"; command must be an array of 1 to 4096 texts, the first of them not "
         "empty"},
        {"{\"command\":[\"a\"],\"preemptible\":false,\"checkpoint_grace\":1}", "checkpoint_grace",
         "",
         "preemptible is false, so the command is never asked to save its state; leave out "
         "checkpoint_signal and checkpoint_grace"},
        {"{\"command\":[\"a\"],\"checkpoint_signal\":\"SIGKILL\"}", "checkpoint_signal", "",
         "checkpoint_signal is \"SIGKILL\"; it must be one of SIGTERM, SIGINT, SIGHUP, SIGQUIT, "
         "SIGUSR1, SIGUSR2"},
        {"{\"command\":[\"a\"],\"directory\":\"b\"}", "directory", "",
         "directory is \"b\"; it must be an absolute path (one that begins with /)"},
        {"{\"command\":[\"a\"],\"environment\":{\"A=B\":\"c\"}}", "environment.A=B", "",
         "environment.A=B cannot be a variable: its name is empty or has a \"=\""},
        {"{\"command\":[\"a\"],\"environment\":{\"A\":1}}", "environment.A", "",
         "environment.A is 1; it must be a text"},
        {"{\"command\":[\"a\"],\"name\":\"a\\u001b[2J\"}", "name", "",
         "name is \"a\\u001b[2J\"; it must be a text of 1 to 128 bytes without control characters"},
        {"{\"command\":[\"a\"],\"name\":\"a\\u009b2J\"}", "name", "",
         "name is \"a\\x9b2J\"; it must be a text of 1 to 128 bytes without control characters"},
        {"{\"command\":[\"a\"],\"group\":\"a\\u202eb\"}", "group", "",
         "group is \"a\\xe2\\x80\\xaeb\"; it must be a text of 1 to 64 bytes without control "
         "characters"},
        {"{" MLP "," IDX
         ",\"train\":{\"schedule\":{\"name\":\"cosine\",\"warmup_steps\":5,\"warmup_epochs\":1}}}",
         "train.schedule.warmup_epochs", "",
         "train.schedule has both warmup_steps and warmup_epochs; leave one out"},
        {"{" MLP "," IDX
         ",\"train\":{\"schedule\":{\"name\":\"multi_step\",\"milestones\":[5,5]}}}",
         "train.schedule.milestones", "", "train.schedule.milestones must ascend"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"adagrad\"},"
         "\"schedule\":{\"name\":\"one_cycle\",\"cycle_momentum\":true}}}",
         "train.schedule.cycle_momentum", "",
         "train.schedule.cycle_momentum needs an optimizer with momentum above 0 or betas"},
        {"{" MLP "," IDX ",\"train\":{\"evaluate_every\":\"5 min\"}}", "train.evaluate_every", "",
         "train.evaluate_every is \"5 min\"; it must be a text such as \"2 epochs\" or \"500 "
         "steps\""},
        {"{" MLP "," IDX ",\"train\":{\"batch_size\":\"atuo\"}}", "train.batch_size", "auto",
         "train.batch_size is \"atuo\"; it must be an integer from 1 to 1000000 or auto; did you "
         "mean auto?"},
        {"{" MLP "," IDX ",\"train\":{\"batch_size\":64,\"effective_batch_size\":96}}",
         "train.effective_batch_size", "",
         "train.effective_batch_size is 96, which batches of 64 do not divide; batch_size 48 does, "
         "and \"auto\" finds one"},
        {"{" MLP "," IDX ",\"train\":{\"accumulate\":2,\"effective_batch_size\":96}}",
         "train.accumulate", "",
         "train.accumulate follows from effective_batch_size and batch_size; leave it out"},
        {"{" MLP "," IDX ",\"train\":{\"recompute\":0}}", "train.recompute", "",
         "train.recompute is 0; it must be an integer from 1 to 1000 or one of none, selective, "
         "full, auto"},
        {"{" MLP "," IDX ",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"nesterov\":true}}}",
         "train.optimizer.nesterov", "",
         "train.optimizer.nesterov needs a momentum above 0 and no dampening"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"text\",\"path\":\"a\"}}}", "model.name",
         "char_mlp",
         "model.name is mlp, which cannot read text; these can: char_mlp, gpt, lstm, gru, layers, graph and onnx "
         "(layers begin with an embedding)"},
        {"{\"model\":{\"name\":\"char_mlp\"}," IDX "}", "data.train.format", "text",
         "data.train.format is idx; the model char_mlp needs text"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," IDX "}", "model.loss", "cross_entropy",
         "model.loss is mse, which needs values to predict: only csv, table, csv_sequences, fasta, time_series, npy, image_csv and generate have "
         "them, and data.train.format is idx"},
        {"{" MLP "," GENERATE("", "\"{first}\",\"{count}\",\"{output}\"", "") "}",
         "data.train.shape", "",
         "data.train.shape is missing; generate needs the shape of one sample"},
        {"{" MLP "," GENERATE("\"shape\":[2],", "\"{first}\",\"{count}\"", "") "}",
         "data.train.command", "",
         "data.train.command has no {output}: each run of the command has to know its samples and "
         "where to write them"},
        {"{" MLP "," GENERATE("\"shape\":[2],", "\"{first}\",\"{count}\",\"{output}\"", "") "}",
         "model.classes", "",
         "model.classes is missing; the labels of generated samples are not known before they are "
         "made"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," GENERATE(
             "\"shape\":[2],", "\"{first}\",\"{count}\",\"{output}\"",
             ",\"test\":{\"samples\":3,\"seed\":1}") "}",
         "data.test.command", "",
         "data.test.command is that of data.train and has no {seed}: it would make the same "
         "samples"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," GENERATE(
             "\"shape\":[2],", "\"{first}\",\"{count}\",\"{output}\",\"{seed}\"",
             ",\"test\":{\"samples\":3}") "}",
         "data.test.seed", "",
         "data.test.seed is that of data.train: the command would make the same samples"},
        {"{" MLP "," IDX_WITH("\"augment\":[\"random_crp:4\"]") "}", "data.augment[0]",
         "random_crop", "data.augment[0] is \"random_crp:4\"; did you mean random_crop?"},
        {"{" MLP "," IDX_WITH("\"augment\":[\"cutout:1.5\"]") "}", "data.augment[0]", "",
         "data.augment[0] is \"cutout:1.5\"; it must be " AUGMENTATIONS},
        {"{" MLP "," IDX_WITH("\"augment\":[\"horizontal_flip\",\"mixup\"]") "}", "data.augment[1]",
         "", "data.augment[1] is \"mixup\"; it must be " AUGMENTATIONS},
        {"{" MLP "," IDX_WITH("\"augment\":[\"horizontal_flip:1\"]") "}", "data.augment[0]", "",
         "data.augment[0] is \"horizontal_flip:1\"; it must be " AUGMENTATIONS},
        {"{" MLP "," IDX_WITH("\"augment\":[\"mixup:inf\"]") "}", "data.augment[0]", "",
         "data.augment[0] is \"mixup:inf\"; it must be " AUGMENTATIONS},
        {"{" MLP "," IDX_WITH("\"augment\":[\"cutout:2\",\"cutout:3\"]") "}", "data.augment[1]", "",
         "data.augment[1] repeats cutout; each may be given once"},
        {"{" MLP "," IDX_WITH("\"augment\":\"mixup:1\"") "}", "data.augment", "",
         "data.augment is \"mixup:1\"; it must be " AUGMENTATIONS},
        {"{" MLP "," IDX_WITH("\"augment\":[7]") "}", "data.augment[0]", "",
         "data.augment[0] is 7; it must be " AUGMENTATIONS},
        {"{" MLP "," IDX_WITH("\"label_noise\":1") "}", "data.label_noise", "",
         "data.label_noise is 1; it must be a number of at least 0 and less than 1"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," CSV_WITH(
             "\"augment\":[\"mixup:1\"]") "}",
         "data.augment", "", "data.augment: mixup needs classes to predict, but model.loss is mse"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," CSV_WITH("\"label_noise\":0.1") "}",
         "data.label_noise", "",
         "data.label_noise needs classes to predict, but model.loss is mse"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," CSV
         ",\"train\":{\"label_smoothing\":0.1}}",
         "train.label_smoothing", "",
         "train.label_smoothing needs classes to predict, but model.loss is mse"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"ordinal\"}," CSV
         ",\"train\":{\"label_smoothing\":0.1}}",
         "train.label_smoothing", "",
         "train.label_smoothing needs cross_entropy, which has probabilities to predict, but "
         "model.loss is ordinal"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\",\"pos_weight\":[2]}," CSV "}",
         "model.pos_weight", "",
         "model.pos_weight belongs to the loss binary_cross_entropy, but model.loss is mse"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"smooth_l1\",\"huber_delta\":2}," CSV "}",
         "model.huber_delta", "",
         "model.huber_delta belongs to the loss huber, but model.loss is smooth_l1"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"quantile\",\"quantile\":0.5,"
         "\"quantiles\":[0.1,0.9]}," CSV "}",
         "model.quantile", "",
         "model.quantile is one quantile and model.quantiles are several; leave out one"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"quantile\",\"quantiles\":[0.9,0.1,0.9]}," CSV "}",
         "model.quantiles", "", "model.quantiles has 0.9 twice; leave one out"},
        {"{\"model\":{\"name\":\"char_mlp\"},\"data\":{\"train\":{\"format\":\"text\",\"path\":"
         "\"a\"},"
         "\"augment\":[\"mixup:1\"]}}",
         "data.augment", "",
         "data.augment does not apply to text; idx, csv, cifar_binary, npy, image_folder, image_csv and "
         "generate have it"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"a\"},"
         "\"validation_fraction\":0},\"train\":{\"early_stop\":{}}}",
         "train.early_stop.metric", "train_loss",
         "train.early_stop.metric is validation_loss, but data.validation_fraction is 0; use "
         "train_loss or set samples aside"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"a\"},"
         "\"split\":{\"by\":\"order\",\"column\":\"when\"}}}",
         "data.split.column", "",
         "data.split.column names a column, which only data of the format table have; leave it "
         "out, or read the file as a table"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," CSV
         ",\"train\":{\"sampling\":\"balanced\"}}",
         "train.sampling", "shuffled",
         "train.sampling is balanced, but values (model.loss mse and the like) have no class for each "
         "sample; use shuffled"},
        {"{\"model\":{\"name\":\"char_mlp\"},\"data\":{\"train\":{\"format\":\"text\",\"path\":"
         "\"a\"},\"split\":{\"folds\":3}}}",
         "data.split", "",
         "texts and time series are cut at one place, and their end validates; leave out "
         "data.split"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"table\",\"path\":\"a\"},"
         "\"split\":{\"by\":\"group\"}}}",
         "data.split.column", "",
         "data.split.by is group, so data.split.column has to name the column whose texts are the "
         "groups"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"table\",\"path\":\"a\"},"
         "\"split\":{\"by\":\"column\"}}}",
         "data.split.column", "",
         "data.split.by is column, so data.split.column has to name the column that says which "
         "samples validate"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"table\",\"path\":\"a\"},"
         "\"split\":{\"test_values\":\"2026\"}}}",
         "data.split.by", "",
         "data.split.validation_values and data.split.test_values name parts, so data.split.by has "
         "to be column"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"table\",\"path\":\"a\"},"
         "\"split\":{\"by\":\"column\",\"column\":\"part\",\"folds\":5}}}",
         "data.split.folds", "",
         "data.split.by is column, so the column says which samples validate; leave out "
         "data.split.folds"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," CSV
         ",\"train\":{\"class_weights\":\"balanced\"}}",
         "train.class_weights", "",
         "train.class_weights needs a class for each sample and the loss cross_entropy; leave it "
         "out"},
        {"{" MLP "," CSV ",\"train\":{\"class_weights\":\"balance\"}}", "train.class_weights", "",
         "train.class_weights is \"balance\"; it must be balanced, an array or an object of numbers "
         "from 0 to 1000000"},
        {"{" MLP "," CSV ",\"train\":{\"class_weights\":{\"ill\":-1}}}", "train.class_weights.ill",
         "",
         "train.class_weights.ill is -1; it must be balanced, an array or an object of numbers from "
         "0 to 1000000"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"npy\",\"path\":\"a\",\"labels\":\"b\","
         "\"sample_weights\":\"c\"},\"augment\":[\"cutmix:1\"]}}",
         "data.train.sample_weights", "",
         "data.train.sample_weights gives each sample a weight, but mixup and cutmix mix samples; "
         "leave out one"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"a\"},"
         "\"split\":{\"folds\":5,\"fold\":5}}}",
         "data.split.fold", "",
         "data.split.fold counts from 0 and has to be below data.split.folds"},
        {"{" MLP ",\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"a\"},"
         "\"validation_fraction\":0,\"split\":{\"folds\":5}}}",
         "data.validation_fraction", "",
         "data.split.folds lets a part of the samples validate, but data.validation_fraction is 0; "
         "leave it out"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\"}," CSV
         ",\"checkpoint\":{\"best\":\"validation_accuracy\"}}",
         "checkpoint.best", "validation_loss",
         "checkpoint.best is validation_accuracy, but values (model.loss mse and the like) have no accuracy; "
         "use validation_loss"},
        {"{" MLP "," CSV ",\"train\":{\"early_stop\":{\"metric\":\"validation_perplexity\"}}}",
         "train.early_stop.metric", "validation_loss",
         "train.early_stop.metric is validation_perplexity, but classes have no perplexity; use "
         "validation_loss"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"mse\",\"output_heads\":[{\"name\":\"a\",\"classes\":2}]}," CSV
         "}",
         "model.loss", "", "model.output_heads have losses of their own; leave model.loss out"},
        {"{\"model\":{\"name\":\"mlp\",\"output_heads\":[{\"name\":\"a\",\"classes\":2},{\"name\":\"a\","
         "\"classes\":3}]}," CSV "}",
         "model.output_heads", "", "two of model.output_heads have the same name"},
        {"{\"model\":{\"name\":\"mlp\",\"output_heads\":[{\"name\":\"a b\",\"classes\":2}]}," CSV
         "}",
         "model.output_heads", "",
         "model.output_heads[0].name is \"a b\"; it is part of the names of metrics, so it may have "
         "letters, digits, _ and - only"},
        {"{\"model\":{\"name\":\"gpt\",\"output_heads\":[{\"name\":\"a\",\"classes\":2}]},\"data\":{"
         "\"train\":{\"format\":\"text\",\"path\":\"t\"}}}",
         "model.output_heads", "",
         "model.output_heads share the labels of a sample, but a text has one symbol to predict at "
         "each place: leave them out, or take time_series or npy"},
        {"{\"model\":{\"name\":\"dna_cnn\",\"channels\":[8],\"kernels\":[5,3]},\"data\":{\"train\":{"
         "\"format\":\"fasta\",\"path\":\"f\",\"tokens\":\"bytes\"}}}",
         "model.kernels", "",
         "model.kernels has 2 widths, but model.channels 1 convolutions: leave out those beyond, or "
         "add channels"},
        {"{\"model\":{\"name\":\"dna_cnn\",\"kernels\":[5,3,3]},\"data\":{\"train\":{\"format\":"
         "\"fasta\",\"path\":\"f\",\"tokens\":\"bytes\"}}}",
         "model.kernels", "",
         "model.kernels has 3 widths, but model.channels 2 convolutions: leave out those beyond, or "
         "add channels"},
        {"{\"model\":{\"name\":\"mlp\",\"loss\":\"output_heads\"}," CSV "}", "model.output_heads",
         "", "model.output_heads is missing; model.loss output_heads is the sum of their losses"},
        {"{\"model\":{\"name\":\"mlp\",\"output_heads\":[{\"name\":\"a\",\"classes\":2}]}," CSV_WITH(
             "\"label_noise\":0.1") "}",
         "data.label_noise", "",
         "data.label_noise needs one class for each sample to predict, but model.loss is output_heads"},
        {"{\"model\":{\"name\":\"mlp\",\"output_heads\":[{\"name\":\"a\",\"classes\":2}]}," CSV
         ",\"checkpoint\":{\"best\":\"validation_accuracy\"}}",
         "checkpoint.best", "validation_loss",
         "checkpoint.best is validation_accuracy, but several labels (model.output_heads) have no "
         "accuracy; use validation_loss"},
        {"{\"model\":{\"name\":\"mlp\",\"output_heads\":[{\"name\":\"a\",\"classes\":2}]}," CSV
         ",\"checkpoint\":{\"best\":\"validation_b_loss\"}}",
         "checkpoint.best", "validation_loss",
         "checkpoint.best is validation_b_loss, but several labels (model.output_heads) have no "
         "b_loss; use validation_loss"},
        {"{" MLP "," CSV ",\"train\":{\"metrics\":[\"f1\",\"mae\"]}}", "train.metrics[1]", "",
         "train.metrics[1] is mae, but classes have no mae; leave it out"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *spec = job_spec_text_parse(cases[i].spec), *normalised = NULL;
        struct job_spec_fault fault;
        struct error error = {0};

        assert_int_equal(job_spec_normalise(spec, &normalised, &fault, &error), -EINVAL);
        assert_null(normalised);
        assert_string_equal(error.text, cases[i].sentence);
        assert_string_equal(fault.path, cases[i].path);
        assert_string_equal(fault.nearest, cases[i].nearest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
