/* worker_model.c: see worker_model.h. */
#include "worker/trainee/worker_model.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void folder_close(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

/* The only model in the folder; the caller frees the path. NULL with a sentence. */
static char *find_in_folder(const char *path, DIR *folder, struct error *error)
{
    static const char ending[] = ".safetensors";
    struct dirent *entry;
    char *found = NULL;
    int count = 0;

    while ((entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);

        if (length < sizeof ending ||
            strcmp(entry->d_name + length + 1 - sizeof ending, ending) != 0)
            continue;
        free(TAKE_POINTER(found));
        if (asprintf(&found, "%s/%s", path, entry->d_name) < 0)
            found = NULL;
        count++;
    }
    if (count == 1 && found)
        return found;
    free(found);
    error_set(error, -EINVAL, "the folder %s has %d models (*.safetensors); name the file", path,
              count);
    return NULL;
}

int worker_model_open(const struct worker_options *options, const char *path,
                      struct checkpoint *checkpoint, struct worker_setup *setup,
                      struct error *error)
{
    CLEANUP(folder_close) DIR *folder = opendir(path);
    AUTO_FREE char *file = folder ? find_in_folder(path, folder, error) : strdup(path);
    int r;

    *checkpoint = (struct checkpoint){0};
    *setup = (struct worker_setup){.stage = WORKER_STAGE_CHECKPOINT};
    if (!file)
        return folder ? -EINVAL : error_no_memory(error, "%s", path);
    r = checkpoint_open_model(file, checkpoint, error);
    return r < 0 ? r : worker_setup_open_model(options, checkpoint, file, setup, error);
}

int worker_model_check_lengths(const struct worker_setup *setup,
                               const struct worker_options *options, struct error *error)
{
    if (!setup->train->lengths || options->lengths)
        return 0;
    return error_set(error, -EINVAL,
                     "the model reads sequences of several lengths: name the file of those of %s "
                     "with --lengths",
                     options->data);
}

int worker_model_check_files(const struct worker_setup *setup, const struct worker_options *options,
                             struct error *error)
{
    enum dataset_format format = setup->train->format;

    if (!options->labels &&
        (format == DATASET_NPY || format == DATASET_IDX || format == DATASET_GENERATE))
        return error_set(error, -EINVAL, "name the file of the labels of %s with --labels",
                         options->data);
    return worker_model_check_lengths(setup, options, error);
}

static bool is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

struct dataset_config worker_model_data(struct worker_setup *setup, const char *const *path)
{
    struct dataset_config config = setup->spec.train.config;

    if (config.format == DATASET_GENERATE) /* the same samples, of another source */
        config.format = setup->train->format = DATASET_NPY;
    if (dataset_format_is_of_images(config.format)) {
        bool table = !is_folder(*path);

        if (table && config.format != DATASET_IMAGE_CSV)
            config.csv.delimiter = '\0'; /* found by reading */
        config.format = setup->train->format = table ? DATASET_IMAGE_CSV : DATASET_IMAGE_FOLDER;
        config.image.folder_beside = true;
    }
    config.directory = NULL;
    config.paths = path;
    config.path_count = 1;
    config.labels_path = config.lengths_path = NULL;
    config.series.rows[0] = config.series.rows[1] = 0; /* those of the training are of its file */
    config.fasta.class_of_file = NULL;
    config.fasta.class_count = 0;
    return config;
}
