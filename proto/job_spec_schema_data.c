/* job_spec_schema_data.c: the keys of a specification's `data`; see job_spec_schema.c. */
#include "proto/data_formats.h"
#include "proto/job_spec_schema_table.h"
#include "proto/split_rules.h"
#include "proto/token_kinds.h"

#define NAME(upper, lower, ...) #lower,
#define ROW(upper, lower, traits, help, ...) VARIANT(#lower, traits, __VA_ARGS__),
#define HELP(upper, lower, traits, help, ...) #lower ": " help "; "
static const char *const format_names[] = {DATA_FORMATS(NAME) NULL};
#define TOKEN_HELP(upper, lower, help) #lower ": " help "; "
static const char *const token_names[] = {TOKEN_KINDS(NAME) NULL};
static const struct job_spec_variant source_variants[] = {DATA_FORMATS(ROW) VARIANTS_END};

static const struct job_spec_key source_keys[] = {
    {"format", JOB_SPEC_CHOICE, .required = true, .choices = format_names,
     .help = DATA_FORMATS(HELP) "see data.md"},
    {"images", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX, .required = true,
     .help = "File of the images; a relative path starts at directory"},
    {"labels", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX, .required = true,
     .help = "File of the labels, or with model.loss mse of the values to predict"},
    {"lengths", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX,
     .help =
         "File of how many steps of each sample count: [n] whole numbers from 1; the others fill "
         "up short sequences. Needs layout sequence. When absent: all"},
    {"sample_weights", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX,
     .help = "File of what each sample counts in the loss of training: [n] numbers from 0. When "
             "absent: all count alike"},
    {"path", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .required = true,
     .help = "File, or list of files that are joined; image_folder: the one folder"},
    {"command", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .required = true,
     .help = "Program and arguments. traind replaces {first}, {count}, {seed} and {output}; the "
             "program writes count rows of numbers to the file {output}"},
    {"samples", JOB_SPEC_INTEGER, .minimum = 1, .maximum = INT64_C(4294967295), .required = true,
     .unit = "samples", .help = "Number of samples in the whole data set"},
    {"chunk", JOB_SPEC_INTEGER, .minimum = 1, .maximum = INT64_C(4294967295), .unit = "samples",
     .help = "Number of samples that one run of the command makes. When absent: a 64th of all"},
    {"values", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .fallback = "1",
     .help = "Numbers to predict, with model.loss mse"},
    {"seed", JOB_SPEC_INTEGER, .minimum = 0, .maximum = INT64_MAX, .fallback = "0",
     .help = "The value of {seed}; data.test needs a different one"},
    {"label_column", JOB_SPEC_COLUMN, .minimum = 0, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 255, .fallback = "\"last\"",
     .help = "first, last, a number from 0, or the name in the header; fasta: of the fields in a "
             "record's first line, or NAME of a field NAME=label"},
    {"weight_column", JOB_SPEC_COLUMN, .minimum = 0, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 255,
     .help = "Column of what each sample counts in the loss of training: numbers from 0. It is no "
             "feature unless features names it. When absent: all count alike"},
    {"header", JOB_SPEC_SWITCH, .choices = CHOICES("auto", "yes", "no"), .fallback = "\"auto\"",
     .help =
         "Whether the first line names the columns; auto: yes if no cell of it is a number and, in "
         "csv_sequences, its label is not one of the rows behind it"},
    {"delimiter", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = 4, .fallback = "\",\"",
     .help = "Character between cells; auto: the comma, semicolon, tab or bar that the first rows "
             "have"},
    {"comment", JOB_SPEC_TEXT, .count_minimum = 0, .count_maximum = 16, .fallback = "\"#\"",
     .help = "Lines that begin with this text are skipped; empty: no line is"},
    {"shape", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = WIDTH_MAX, .count_minimum = 1,
     .count_maximum = 4,
     .help = "Shape of one sample, such as [1, 8, 8] (channels, height, width)"},
    {"layout", JOB_SPEC_CHOICE, .choices = CHOICES("auto", "chw", "hwc", "sequence"),
     .fallback = "\"auto\"",
     .help = "Whether the channels of images come first or last; auto: first, but an error if the "
             "shape looks as if they came last; sequence: samples are no images, but steps of "
             "features"},
    {"color", JOB_SPEC_CHOICE, .choices = CHOICES("rgb", "grey"), .fallback = "\"rgb\"",
     .help = "Whether images become 3 channels or 1"},
    {"image_column", JOB_SPEC_COLUMN, .minimum = 0, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 255, .fallback = "\"first\"", .help = "Column of the paths of images"},
    {"images_folder", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX,
     .help = "Folder that the paths of images begin in. When absent: that of the table"},
    {"resize", JOB_SPEC_PAIR, .minimum = 1, .maximum = 4096, .unit = "pixels",
     .help =
         "Height and width to which all images are resized, bilinear as in Pillow. When absent: "
         "all images must have the same size, unless resize_shorter or center_crop is given"},
    {"resize_shorter", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 4096, .unit = "pixels",
     .help = "Length to which the shorter side of each image is resized, and the other one in "
             "proportion: torchvision's Resize(length)"},
    {"center_crop", JOB_SPEC_PAIR, .minimum = 1, .maximum = 4096, .unit = "pixels",
     .help = "Height and width of the part in the middle that is kept, after resizing: "
             "torchvision's CenterCrop. Smaller images get a black frame"},
    {"tokens", JOB_SPEC_CHOICE, .choices = token_names, .required = true,
     .help = TOKEN_KINDS(TOKEN_HELP) "the last token of the vocabulary is the padding"},
    {"kmer", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 8, .fallback = "6", .unit = "nucleotides",
     .help = "Nucleotides of a token, if tokens are kmers"},
    {"kmer_stride", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1024, .fallback = "1",
     .unit = "nucleotides", .help = "From the beginning of a k-mer to that of the next"},
    {"length", JOB_SPEC_INTEGER, .minimum = 1, .maximum = INT64_C(100000000), .unit = "tokens",
     .help =
         "Length of all samples: longer sequences lose their end, shorter ones are padded. When "
         "absent: the length of the longest sequence of data.train"},
    {"sequence_column", JOB_SPEC_COLUMN, .minimum = 0, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 255, .fallback = "\"first\"",
     .help = "Column of the sequences: first, last, a number from 0, or the name in the header"},
    {"class_of_file", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help =
         "A label for each file of path. When absent: each record has its own, in label_column"},
    {"empty_records", JOB_SPEC_CHOICE, .choices = CHOICES("error", "skip"), .fallback = "\"error\"",
     .help = "Whether records without letters are an error or left out with a warning"},
    {"input", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .required = true,
     .unit = "rows", .help = "Rows that a sample holds"},
    {"horizon", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .fallback = "1",
     .unit = "rows", .help = "Rows after these to predict"},
    {"stride", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .fallback = "1",
     .unit = "rows", .help = "From the beginning of a sample to that of the next"},
    {"features", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help =
         "Columns that a sample holds: names in the header, or numbers from 0. When absent: all "
         "columns of numbers; table: all but those to predict"},
    {"targets", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help = "Columns to predict. When absent: time_series: the last; table: label_column; "
             "image_csv: all but image_column, where numbers are predicted"},
    {"ignore", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help = "Columns that are left out: names in the header, or numbers from 0"},
    {"categories", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help = "Columns whose numbers stand for categories, such as postcodes"},
    {"missing", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help = "Texts that stand for no value. When absent: NA, NaN, NULL, None, ? and the like; an "
             "empty cell always does"},
    {"missing_values", JOB_SPEC_CHOICE, .choices = CHOICES("indicate", "mean", "drop", "error"),
     .fallback = "\"indicate\"",
     .help = "A missing value becomes the column's mean, and one more feature says that it was "
             "missing (indicate) or not (mean); or its row is left out (drop)"},
    {"decimal", JOB_SPEC_CHOICE, .choices = CHOICES("auto", "point", "comma"),
     .fallback = "\"auto\"",
     .help =
         "The decimal sign of numbers, of which the other one parts thousands; auto: point, but "
         "a comma that may be either is an error"},
    {"bins", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 64, .fallback = "0",
     .help = "A number becomes a feature, and up to so many more that say how much of each bin of "
             "its column lies below it. The bins end at quantiles, so a model can tell values "
             "apart as a tree does. 0: none"},
    {"day_first", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Whether 3/4/2026 is in April; other dates tell by themselves"},
    {"rows", JOB_SPEC_NUMBERS, .from = 0, .to = 1e15, .count_minimum = 2, .count_maximum = 2,
     .help = "The rows to predict, from the first to before the second; 0 is the oldest. Two "
             "numbers up to 1 are shares of all rows: [0.8, 1] is the last fifth. The rows that a "
             "sample holds may lie before the first. When absent: all"},
    {"newest_first", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Whether the first row of the file is the latest"},
    {"first_label", JOB_SPEC_INTEGER, .minimum = 0, .maximum = WIDTH_MAX, .fallback = "0",
     .help = "The number in the file that stands for class 0, if classes are predicted"},
    {"season", JOB_SPEC_INTEGER, .minimum = 0, .maximum = WIDTH_MAX, .fallback = "0",
     .unit = "rows",
     .help =
         "Rows after which values are alike, such as 24 hours: for the forecast that the run is "
         "compared with; 0: none"},
    {"divide_by", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true, .fallback = "1",
     .help = "Number by which every feature is divided"},
    {"label_bytes", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 2, .fallback = "1", .unit = "bytes",
     .help = "Bytes of labels in a record. 1: CIFAR-10; 2: CIFAR-100, whose second (fine) label is "
             "used"},
};
SECTION_VARIANTS(source, "format");

static const struct job_spec_operation augmentations[] = {
    {"random_crop", "PADDING", 1, 1024, true},
    {"horizontal_flip", NULL, 0, 0, false},
    {"vertical_flip", NULL, 0, 0, false},
    {"random_resized_crop", "LEAST_SHARE", 0.01, 1, false},
    {"rand_augment", "MAGNITUDE", 1, 30, true},
    {"brightness", "STRENGTH", 0.001, 10, false},
    {"contrast", "STRENGTH", 0.001, 10, false},
    {"saturation", "STRENGTH", 0.001, 10, false},
    {"hue", "STRENGTH", 0.001, 0.5, false},
    {"rotation", "DEGREES", 0.1, 180, false},
    {"random_erasing", "PROBABILITY", 0.001, 1, false},
    {"cutmix", "ALPHA", 0.01, 4, false},
    {"cutout", "SIDE", 1, 4096, true},
    {"mixup", "ALPHA", 0.01, 4, false},
    {NULL, NULL, 0, 0, false},
};

static const char *const split_rule_names[] = {SPLIT_RULES(NAME) NULL};

static const struct job_spec_key split_keys[] = {
    {"by", JOB_SPEC_CHOICE, .choices = split_rule_names, .fallback = "\"random\"",
     .help = SPLIT_RULES(TOKEN_HELP) "see data.md"},
    {"column", JOB_SPEC_COLUMN, .minimum = 0, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 255,
     .help = "Column of a table whose texts are the groups or name the parts, or whose numbers or "
             "dates are the order. It is no feature unless features names it"},
    {"validation_values", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help = "Texts in the column of the samples that validate, if by is column. With this key or "
             "test_values samples with any other text train. Without both the column holds train, "
             "validation or test, or other common words for these"},
    {"test_values", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096,
     .help = "Texts in the column of the samples that are the test set, if by is column"},
    {"folds", JOB_SPEC_INTEGER, .minimum = 2, .maximum = SPLIT_FOLDS_MAX, .unit = "folds",
     .help = "Number of parts that data.train is cut into for cross-validation; one of them "
             "validates, instead of the share validation_fraction"},
    {"fold", JOB_SPEC_INTEGER, .minimum = 0, .maximum = SPLIT_FOLDS_MAX - 1, .fallback = "0",
     .help = "The part that validates, from 0; a sweep over it is a cross-validation (trainctl "
             "submit --folds)"},
};
SECTION(split, NULL);

static const struct job_spec_key data_keys[] = {
    {"train", JOB_SPEC_OBJECT, .section = &source_section, .required = true,
     .help = "The samples to learn from"},
    {"test", JOB_SPEC_OBJECT, .section = &source_section,
     .help = "Samples for the test at the end. Keys that are left out, except files and paths, are "
             "taken from data.train"},
    {"validation_fraction", JOB_SPEC_NUMBER, .from = 0, .to = 0.9, .fallback = "0.1",
     .help = "Share of data.train that is set aside for validation; for a text, its end"},
    {"split", JOB_SPEC_OBJECT, .section = &split_section,
     .help = "How the samples for validation are chosen. When absent: at random; for texts and "
             "time series always the end"},
    {"normalize", JOB_SPEC_CHOICE, .choices = CHOICES("none", "standard"),
     .help =
         "standard: mean 0 and deviation 1 over the training set, for each channel of images and "
         "each column of other data and of values to predict"},
    {"normalize_mean", JOB_SPEC_NUMBERS, .from = -1e30, .to = 1e30, .count_minimum = 1,
     .count_maximum = 4096,
     .help = "Constants to subtract instead of measured ones, one for each channel or column; of "
             "images of bytes on the scale from 0 to 1, as for torchvision's Normalize. Needs "
             "normalize_deviation"},
    {"normalize_deviation", JOB_SPEC_NUMBERS, .from = 0, .to = 1e30, .above_from = true,
     .count_minimum = 1, .count_maximum = 4096,
     .help = "Constants to divide by after that, as many as in normalize_mean"},
    {"augment", JOB_SPEC_OPERATIONS, .operations = augmentations, .count_maximum = 14,
     .fallback = "[]",
     .help =
         "How training samples are changed, differently in each epoch: random_crop:PADDING, "
         "horizontal_flip, cutout:SIDE and others for images, mixup:ALPHA for pairs of samples; see "
         "data.md"},
    {"label_noise", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0",
     .help =
         "Share of the training labels that are replaced by another class, each class with equal "
         "probability; the same labels in every epoch"},
    {"length_buckets", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 8, .fallback = "1",
     .unit = "lengths",
     .help =
         "Lengths that batches of sequences are padded to. Each batch then has sequences of "
         "similar lengths, and short ones take less time. 1: all are padded to the longest. See "
         "data.md"},
    {"loader_threads", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 64,
     .help =
         "Threads that prepare batches ahead; 0: the training thread prepares them. When absent: "
         "chosen from the size of a batch and the number of cores"},
};
const struct job_spec_section job_spec_data_section = {
    data_keys, sizeof data_keys / sizeof *data_keys, NULL, source_variants};
