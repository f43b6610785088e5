/* model_kinds.h: the models that a specification may name. The schema, its help and checks, the
 * documentation and enum model_kind are made from this list. engine/models/ builds them. */
#pragma once

/* The samples that a model reads. */
enum model_trait {
    MODEL_READS_NUMBERS = 1,
    MODEL_READS_IMAGES = 2, /* only numbers of three dimensions */
    MODEL_READS_TEXT = 4, /* symbols of a text; with MODEL_READS_NUMBERS the first layer decides */
    MODEL_READS_SEQUENCES = 8, /* sequences of symbols, each with a label */
    MODEL_PREDICTS_EACH =
        16, /* of a text the symbol after each of the context, not the last alone */
    MODEL_CARRIES_STATE = 32 /* from window to window of a text: model.carry_state */
};

/* Columns: MODEL_<upper> of enum model_kind; the name in specifications and messages; the traits;
 * then the model's keys of `model` (proto/job_spec_schema_model.c), each with its default as JSON.
 * NULL: the default in the key's own row, if any. A key that no row names belongs to all models. */
/* clang-format off */
#define MODEL_KINDS(MODEL)                                                                        \
    MODEL(MLP, mlp, MODEL_READS_NUMBERS,                                                          \
          {"classes", NULL}, {"hidden", NULL}, {"activation", "\"relu\""}, {"batch_norm", NULL},  \
          {"dropout", "0"})                                                                       \
    MODEL(CNN, cnn, MODEL_READS_NUMBERS | MODEL_READS_IMAGES,                                     \
          {"classes", NULL}, {"channels", NULL}, {"kernel", NULL}, {"hidden", NULL},              \
          {"activation", "\"relu\""}, {"batch_norm", NULL}, {"dropout", "0"})                     \
    MODEL(CHAR_MLP, char_mlp, MODEL_READS_TEXT,                                                   \
          {"context", "16"}, {"embedding", NULL}, {"hidden", NULL}, {"activation", "\"tanh\""})   \
    MODEL(TEXT_CNN, text_cnn, MODEL_READS_SEQUENCES,                                              \
          {"classes", NULL}, {"embedding", "128"}, {"filters", NULL},                             \
          {"kernels", "[3, 4, 5]"}, {"hidden", "[]"}, {"dropout", "0.5"})                         \
    MODEL(DNA_CNN, dna_cnn, MODEL_READS_SEQUENCES,                                                \
          {"classes", NULL}, {"embedding", "4"}, {"channels", "[128, 128]"},                      \
          {"kernels", "[11, 7]"}, {"batch_norm", "true"}, {"pooling", "\"flatten\""},             \
          {"hidden", "[64]"}, {"dropout", "0.4"})                                                 \
    MODEL(CADUCEUS, caduceus, MODEL_READS_SEQUENCES,                                              \
          {"classes", NULL}, {"embedding", "128"}, {"depth", "4"}, {"states", NULL},              \
          {"expand", NULL}, {"kernel", "4"}, {"norm", NULL}, {"add_norm", NULL},                  \
          {"epsilon", NULL}, {"reverse_complement", NULL}, {"pooling", "\"mean\""},               \
          {"dropout", "0"}, {"head_dropout", NULL})                                               \
    MODEL(RESNET18, resnet18, MODEL_READS_NUMBERS | MODEL_READS_IMAGES,                           \
          {"classes", NULL}, {"width", NULL})                                                     \
    MODEL(MOBILENET_V3_SMALL, mobilenet_v3_small, MODEL_READS_NUMBERS | MODEL_READS_IMAGES,       \
          {"classes", NULL}, {"dropout", "0.2"}, {"stem_stride", NULL}, {"width", NULL})          \
    MODEL(EFFICIENTNET_B0, efficientnet_b0, MODEL_READS_NUMBERS | MODEL_READS_IMAGES,             \
          {"classes", NULL}, {"dropout", "0.2"}, {"stochastic_depth", NULL},                      \
          {"stem_stride", NULL}, {"width", NULL})                                                 \
    MODEL(GPT, gpt, MODEL_READS_TEXT | MODEL_PREDICTS_EACH,                                       \
          {"context", "64"}, {"embedding", "128"}, {"depth", "4"}, {"heads", "4"},                \
          {"mlp_ratio", NULL}, {"positions", NULL}, {"dropout", "0"})                             \
    MODEL(VIT, vit, MODEL_READS_NUMBERS | MODEL_READS_IMAGES,                                     \
          {"classes", NULL}, {"patch", NULL}, {"embedding", "192"}, {"depth", "12"},              \
          {"heads", "3"}, {"mlp_ratio", NULL}, {"pool", NULL}, {"dropout", "0"})                  \
    MODEL(LSTM, lstm,                                                                             \
          MODEL_READS_NUMBERS | MODEL_READS_SEQUENCES | MODEL_READS_TEXT | MODEL_PREDICTS_EACH |  \
              MODEL_CARRIES_STATE,                                                                \
          {"classes", NULL}, {"context", NULL}, {"embedding", "64"}, {"hidden_size", NULL},       \
          {"num_layers", NULL}, {"bidirectional", NULL}, {"readout", NULL},                       \
          {"carry_state", NULL}, {"dropout", "0"})                                                \
    MODEL(GRU, gru,                                                                               \
          MODEL_READS_NUMBERS | MODEL_READS_SEQUENCES | MODEL_READS_TEXT | MODEL_PREDICTS_EACH |  \
              MODEL_CARRIES_STATE,                                                                \
          {"classes", NULL}, {"context", NULL}, {"embedding", "64"}, {"hidden_size", NULL},       \
          {"num_layers", NULL}, {"bidirectional", NULL}, {"readout", NULL},                       \
          {"carry_state", NULL}, {"dropout", "0"})                                                \
    MODEL(LAYERS, layers, MODEL_READS_NUMBERS | MODEL_READS_TEXT | MODEL_READS_SEQUENCES,         \
          {"classes", NULL}, {"context", NULL}, {"layers", NULL})                                 \
    MODEL(GRAPH, graph, MODEL_READS_NUMBERS | MODEL_READS_TEXT | MODEL_READS_SEQUENCES,           \
          {"classes", NULL}, {"context", NULL}, {"nodes", NULL}, {"outputs", NULL})               \
    MODEL(ONNX, onnx, MODEL_READS_NUMBERS | MODEL_READS_TEXT | MODEL_READS_SEQUENCES,             \
          {"classes", NULL}, {"context", NULL}, {"onnx", NULL}, {"weights", NULL})
/* clang-format on */
