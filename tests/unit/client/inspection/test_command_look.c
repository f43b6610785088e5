/* test_command_look.c: what a quick look says of commands, and that nothing it meets hurts it. */
#include "base/clock.h"
#include "base/memory.h"
#include "client/inspection/command_look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/test_command_look.XXXXXX";

static char *path_of(const char *name)
{
    return memory_format("%s/%s", folder, name);
}

/* Writes a file of the folder; folders on its way are made. */
static void write_bytes(const char *name, const void *text, size_t size)
{
    AUTO_FREE char *path = path_of(name);
    FILE *file;

    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fwrite(text, 1, size, file);
    fclose(file);
    chmod(path, 0700);
}

static void write_file(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

/* Looks at the words, separated by "|", in the folder. */
static struct command_look look_at(const char *words)
{
    JSON_AUTO struct json_object *spec = json_object_new_object();
    struct json_object *command = json_object_new_array(), *environment = json_object_new_object();
    AUTO_FREE char *copy = memory_copy_text(words);
    struct command_look look;
    char *rest = copy, *word;

    while ((word = strsep(&rest, "|")))
        json_object_array_add(command, json_object_new_string(word));
    json_set(spec, "command", command);
    json_set_string(spec, "directory", folder);
    json_set(spec, "environment", environment);
    json_set_string(environment, "PATH", "/usr/bin:/bin");
    json_set_string(environment, "PYTHONPATH", "library");
    json_set_string(environment, "HOME", folder);
    command_look(spec, &look);
    return look;
}

struct expected {
    const char *words;
    enum command_look_use use;
    const char *reason; /* that the sentence contains; NULL: any */
};

static void expect(const struct expected *expected)
{
    static const char *const uses[] = {"unknown", "no GPU", "a GPU"};
    struct command_look look = look_at(expected->words);

    if (look.use != expected->use || (expected->reason && !strstr(look.reason, expected->reason)))
        fail_msg("%s: %s (%s), expected %s (%s)", expected->words, uses[look.use], look.reason,
                 uses[expected->use], expected->reason);
}

static void expect_all(const struct expected *expected)
{
    for (; expected->words; expected++)
        expect(expected);
}

static int make_files(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    write_file("train.py", "import os, sys\nimport numpy as np, torch.nn as nn\n");
    write_file("jax.train", "#!/usr/bin/env python3\nfrom jax import numpy\n");
    write_file("plain.py", "\"\"\"import torch\"\"\"\nimport json  # import torch\n"
                           "s = 'import torch'; t = r'\\'\nx = (\nimport_torch)\n");
    write_file("via.py",
               "from nets.models.small import (  # a comment\n    Net,\n    Other as O)\n");
    write_file("nets/__init__.py", "");
    write_file("nets/models/small.py", "from ..layers import linear\nfrom . import far\n");
    write_file("nets/layers.py", "def linear():\n    import cupy\n");
    write_file("nets/models/far.py", "");
    write_file("circle.py", "import circle_b\n");
    write_file("circle_b.py", "import circle\nfrom circle import circle_b\n");
    write_file("types.py", "import typing\nif typing.TYPE_CHECKING:\n    import torch\n\n"
                           "    # more\n    import jax\nimport json\n");
    write_file("types_after.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING: import jax\n"
                                 "else:\n    import tensorflow as tf\n");
    write_file("broken.py", "import torch\ndef f(:\n  \"\"\" (((\n");
    write_file("late.py", "try:\n    import torch\nexcept ImportError: torch = None\n");
    write_file("dynamic.py", "import importlib\nt = importlib.import_module(\"torch.nn\")\n");
    write_file("numba_.py", "from numba import njit, cuda\n");
    write_file("numba_cpu.py", "from numba import njit\n");
    write_file("hub.py", "import transformers\n");
    write_file("own/whisper.py", "import json\n");
    write_file("own/main.py", "import whisper\n");
    write_file("library/shared.py", "import tensorflow\n");
    write_file("uses_shared.py", "import shared\n");
    write_file("package/__main__.py", "from .train import main\n");
    write_file("package/__init__.py", "");
    write_file("package/train.py", "import torch\n");
    write_file("job.sh", "#!/bin/bash -e\n# python3 train.py\nset -euo pipefail\n"
                         "cd \"$(dirname \"$0\")\"\nLR=${LR:-0.1}\n"
                         "for seed in 1 2; do\n  python3 -u \"$1\" --lr \"$LR\" > log_$seed 2>&1\n"
                         "done\n");
    write_file("plain.sh", "echo python3 train.py\nmake -j8 all # torch\ncat <<END\n"
                           "python3 train.py\nEND\n");
    write_file("here.sh", "python3 - \"$@\" <<'END'\nimport torch\nEND\n");
    write_file("hidden.sh", "export CUDA_VISIBLE_DEVICES=\npython3 train.py\n");
    write_file("once.sh", "CUDA_VISIBLE_DEVICES= python3 train.py\npython3 late.py\n");
    write_file("venv/bin/trainer",
               "#!/usr/bin/python3\nimport sys\nfrom trainer.cli import main\n");
    write_file("venv/lib/python3.11/site-packages/trainer/__init__.py", "");
    write_file("venv/lib/python3.11/site-packages/trainer/cli.py", "import trainer.loop\n");
    write_file("venv/lib/python3.11/site-packages/trainer/loop.py", "import torch\n");
    write_file("cuda-program", "\x7f"
                               "ELF\x02 .. libcudart.so.12 ..");
    write_file("note.ipynb", "{\"cells\": [{\"cell_type\": \"markdown\", \"source\": \"x\"}, "
                             "{\"cell_type\": \"code\", \"source\": [\"%time\\n\", \"import "
                             "torch\\n\", null, 3]}], \"nbformat\": 4}");
    return 0;
}

static int remove_files(void **state)
{
    AUTO_FREE char *command = memory_format("chmod -R u+rwX %s; rm -r %s", folder, folder);

    (void)state;
    return system(command);
}

static void python_programs(void **state)
{
    (void)state;
    expect_all((const struct expected[]){
        {"python3|train.py", COMMAND_LOOK_GPU, "train.py imports torch"},
        {"python3.11|-u|-X|dev|-W|ignore|train.py|--lr|1", COMMAND_LOOK_GPU, "train.py"},
        {"python3|plain.py", COMMAND_LOOK_NO_GPU, "plain.py imports nothing that uses a GPU"},
        {"python|via.py", COMMAND_LOOK_GPU, "nets/layers.py imports cupy"},
        {"python3|circle.py", COMMAND_LOOK_NO_GPU, "circle.py"},
        {"python3|types.py", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|types_after.py", COMMAND_LOOK_GPU, "tensorflow"},
        {"python3|broken.py", COMMAND_LOOK_GPU, "torch"},
        {"python3|late.py", COMMAND_LOOK_GPU, "torch"},
        {"python3|dynamic.py", COMMAND_LOOK_GPU, "torch"},
        {"python3|numba_.py", COMMAND_LOOK_GPU, "numba"},
        {"python3|numba_cpu.py", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|hub.py", COMMAND_LOOK_GPU, "transformers"},
        {"python3|own/main.py", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|uses_shared.py", COMMAND_LOOK_GPU, "shared.py imports tensorflow"},
        {"python3|package", COMMAND_LOOK_GPU, "torch"},
        {"python3|-m|package", COMMAND_LOOK_GPU, "package/train.py imports torch"},
        {"python3|-m|package.train|-x", COMMAND_LOOK_GPU, "torch"},
        {"python3|-m|json.tool", COMMAND_LOOK_NO_GPU, "json.tool uses no GPU"},
        {"python3|-m|pip|install|torch", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|-m|cProfile|-o|x|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"python3|-m|traind.task|f", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|-m|pytest", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|-m|torch.distributed.run|plain.py", COMMAND_LOOK_GPU, "program of torch"},
        {"python3|-c|import torch; print(1)", COMMAND_LOOK_GPU, "-c imports torch"},
        {"python3|-uc|print(1)", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|-", COMMAND_LOOK_NO_GPU, NULL},
        {"python3", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|-m", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|missing.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"./jax.train", COMMAND_LOOK_GPU, "jax.train imports jax"},
        {"venv/bin/trainer", COMMAND_LOOK_GPU, "trainer/loop.py imports torch"},
        {"papermill|note.ipynb|out.ipynb", COMMAND_LOOK_GPU, "note.ipynb imports torch"},
        {"jupyter|nbconvert|--execute|note.ipynb", COMMAND_LOOK_GPU, "torch"},
        {"jupyter|lab", COMMAND_LOOK_UNKNOWN, NULL},
        {0},
    });
}

static void launchers(void **state)
{
    (void)state;
    expect_all((const struct expected[]){
        {"torchrun|--nproc-per-node|2|plain.py", COMMAND_LOOK_GPU, "torchrun"},
        {"accelerate|launch|plain.py", COMMAND_LOOK_GPU, "accelerate launch"},
        {"env|-u|A|X=1|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"env|-S|python3 -u|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"env|X=1|make", COMMAND_LOOK_NO_GPU, NULL},
        {"env", COMMAND_LOOK_UNKNOWN, NULL},
        {"env|CUDA_VISIBLE_DEVICES=|python3|train.py", COMMAND_LOOK_NO_GPU, "CUDA_VISIBLE_DEVICES"},
        {"env|CUDA_VISIBLE_DEVICES=-1|python3|train.py", COMMAND_LOOK_NO_GPU, NULL},
        {"env|CUDA_VISIBLE_DEVICES=1|python3|train.py", COMMAND_LOOK_GPU, NULL},
        {"uv|run|--with|rich|--python=3.12|train.py|--x", COMMAND_LOOK_GPU, "train.py"},
        {"uv|run|-m|package", COMMAND_LOOK_GPU, "torch"},
        {"uv|run|python|plain.py", COMMAND_LOOK_NO_GPU, NULL},
        {"conda|run|-n|test|--no-capture-output|python|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"poetry|run|python|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"nice|-n|5|timeout|-k|1|10m|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"taskset|-c|0,1|python3|plain.py", COMMAND_LOOK_NO_GPU, NULL},
        {"mpirun|-np|2|-x|A|--unknown|3|python3|train.py", COMMAND_LOOK_GPU, NULL},
        {"coverage|run|-o|x|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"xargs|-n|1|-P|2|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"parallel|-j2|python3|train.py|:::|1|2", COMMAND_LOOK_GPU, "train.py"},
        {"unshare|-r|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"unshare|-n|bash|job.sh|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"watch|-t|./cuda-program", COMMAND_LOOK_GPU, "cuda-program"},
        {"watch|-n|10|./cuda-program", COMMAND_LOOK_GPU, "cuda-program"},
        {"choom|-n|500|--|./cuda-program", COMMAND_LOOK_GPU, "cuda-program"},
        {"setsid|-f|./cuda-program", COMMAND_LOOK_GPU, "cuda-program"},
        {"time|-o|log|./cuda-program", COMMAND_LOOK_GPU, "cuda-program"},
        {"setarch|x86_64|-R|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"gdb|-batch|-ex|run|--args|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"perf|stat|-r|3|python3|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"script|-qec|python3 train.py|log", COMMAND_LOOK_GPU, "train.py"},
        {"xargs", COMMAND_LOOK_NO_GPU, "xargs starts nothing"},
        {"xargs|rm", COMMAND_LOOK_NO_GPU, NULL},
        {"tmux|new|-d|python3 train.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"su|-c|python3 train.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"pip|install|torch", COMMAND_LOOK_NO_GPU, NULL},
        {"julia|train.jl", COMMAND_LOOK_UNKNOWN, NULL},
        {"no-such-program", COMMAND_LOOK_UNKNOWN, NULL},
        {"/bin/true", COMMAND_LOOK_NO_GPU, "true uses no library of CUDA"},
        {"./cuda-program", COMMAND_LOOK_GPU, "cuda-program uses libcudart.so"},
        {"", COMMAND_LOOK_UNKNOWN, NULL},
        {0},
    });
}

static void shells(void **state)
{
    (void)state;
    expect_all((const struct expected[]){
        {"./job.sh|train.py", COMMAND_LOOK_GPU, "train.py imports torch"},
        {"bash|job.sh|plain.py", COMMAND_LOOK_NO_GPU, "job.sh starts nothing that uses a GPU"},
        {"sh|plain.sh", COMMAND_LOOK_NO_GPU, NULL},
        {"sh|here.sh", COMMAND_LOOK_GPU, "torch"},
        {"sh|hidden.sh", COMMAND_LOOK_NO_GPU, NULL},
        {"sh|once.sh", COMMAND_LOOK_GPU, "late.py"},
        {"sh|-c|echo $TRAIND_DEVICE > /dev/null", COMMAND_LOOK_NO_GPU, NULL},
        {"bash|-lc|source venv/x; exec python3 train.py", COMMAND_LOOK_GPU, "train.py"},
        {"sh|-c|P=train.py; f() { python3 $P | tee log; }; f", COMMAND_LOOK_GPU, "train.py"},
        {"sh|-c|exec python3 \"$@\"|sh|train.py", COMMAND_LOOK_GPU, "train.py"},
        {"sh|-c|true && (cd nets; python3 layers.py) &", COMMAND_LOOK_GPU, "cupy"},
        {"bash|-c|if [ -e x ]; then ~/jax.train; fi", COMMAND_LOOK_GPU, "jax"},
        {"bash|-c|bash -c 'bash -c \"python3 train.py\"'", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|xargs -I{} python3 train.py {} <list", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|xargs <list", COMMAND_LOOK_NO_GPU, NULL},
        {"bash|-c|julia x.jl; true", COMMAND_LOOK_UNKNOWN, NULL},
        {"bash|-eo|pipefail|-c|true", COMMAND_LOOK_NO_GPU, NULL},
        {"bash|-c|C='python3 train.py'; eval $C --x", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|eval \"python3 $P\" train.py", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|A=$(cd .; python3 train.py)", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|echo \"it is $(python3 train.py)\"", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|A=`python3 train.py`", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|echo \"it is `python3 train.py`\"", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|echo '`python3 train.py`'; A=$((1 + 2)); B=$(date)", COMMAND_LOOK_NO_GPU, NULL},
        {"bash|-c|function f { python3 train.py; }; f", COMMAND_LOOK_GPU, "train.py"},
        {"bash|-c|python3 < train.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"bash|-c|xargs -n 1 -P2 python3 train.py < seeds", COMMAND_LOOK_GPU, "train.py"},
        {"bash", COMMAND_LOOK_NO_GPU, NULL},
        {"bash|missing.sh", COMMAND_LOOK_UNKNOWN, NULL},
        {0},
    });
}

/* Files and texts that are meant to hurt. */
static void hostile_input(void **state)
{
    static const char *const texts[] = {
        "X='eval $X'; eval $X",
        "$(",
        "${",
        "\"$",
        "'",
        "<<",
        "<<A",
        "python3 - <<A\nimport",
        "a=$",
        "A=$A$A",
        ">&",
        "`",
        "\"`",
        "A='$(eval $A)'; eval $A",
        "f() { A=`f`; }; $(f $(f",
        "\\",
        "cd",
        ". ",
        "if",
        "env env env",
        "$9 ${12} ${!x} $",
        "A=1",
        "python3 -m; python3 -c; python3 - ; bash -c; conda run; uv run -m",
    };
    AUTO_FREE char *link = path_of("loop.py"), *pipe = path_of("pipe.py"),
                   *large = path_of("large.py"), *locked = path_of("locked.py");
    double started = clock_monotonic();

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        AUTO_FREE char *words = memory_format("sh|-c|%s", texts[i]);

        look_at(words);
    }
    look_at("sh|-c|A=xxxxxxxx; while true; do A=$A$A$A$A; A=$A$A$A$A; A=$A$A$A$A; A=$A$A$A$A; "
            "A=$A$A$A$A; A=$A$A$A$A; A=$A$A$A$A; A=$A$A$A$A; A=$A$A$A$A; done; echo $A");
    assert_return_code(symlink("loop.py", link), 0);
    assert_return_code(mkfifo(pipe, 0600), 0);
    write_file("large.py", "import torch\n");
    assert_return_code(truncate(large, 100 << 20), 0);
    write_file("locked.py", "import torch\n");
    assert_return_code(chmod(locked, 0), 0);
    write_bytes("nul.py", "import json\0import torch\n", 25);
    write_file("bytes.py", "import caf\xe9\nimport \xff\xfe\nfrom . import ..\nfrom\nimport\n");
    write_file("\xff.py", "import torch\n");
    write_file("self", "#!./self\n");
    write_file("empty", "#!\n");
    write_file("relative.py", "from ............ import a\nfrom ..................x import y\n");
    expect_all((const struct expected[]){
        {"python3|loop.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|pipe.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|/dev/zero", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|/dev/stdin", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|large.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|nul.py", COMMAND_LOOK_UNKNOWN, NULL},
        {"python3|bytes.py", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|relative.py", COMMAND_LOOK_NO_GPU, NULL},
        {"python3|\xff.py", COMMAND_LOOK_GPU, "?.py imports torch"},
        {"./self", COMMAND_LOOK_UNKNOWN, NULL},
        {"./empty", COMMAND_LOOK_UNKNOWN, NULL},
        {0},
    });
    if (geteuid() != 0)
        expect(&(struct expected){"python3|locked.py", COMMAND_LOOK_UNKNOWN, NULL});
    assert_true(clock_monotonic() - started < 30); /* none of them goes on for ever */
}

/* More files than a look reads: it says that it does not know. */
static void many_files(void **state)
{
    const struct expected expected = {"python3|many.py", COMMAND_LOOK_UNKNOWN, NULL};
    FILE *file;
    size_t size;
    AUTO_FREE char *text = NULL;

    (void)state;
    file = open_memstream(&text, &size);
    for (int i = 0; i < 1100; i++) {
        AUTO_FREE char *name = memory_format("many/m%d.py", i);

        write_file(name, "import json\n");
        fprintf(file, "import many.m%d\n", i);
    }
    fclose(file);
    write_file("many.py", text);
    write_file("many/__init__.py", "");
    expect(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_programs), cmocka_unit_test(launchers),  cmocka_unit_test(shells),
        cmocka_unit_test(hostile_input),   cmocka_unit_test(many_files),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
