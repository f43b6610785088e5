# traind: `make demo` shows it at work, `make check` tests it, `make help` lists the targets.

PREFIX ?= /usr/local
BUILD ?= build
# `cc` unless told otherwise (make's own default)
# -O3: vectorises the kernels' plain loops; see docs/internals/cpu-backend.md
OPTIMIZE ?= -O3
# e.g. SANITIZE=address,undefined
SANITIZE ?=

VERSION := 0.1.0

# -Wno-psabi: gcc notes that GCC 4.6 changed how vectors are passed; no object here is older than that
ALL_CFLAGS := -std=gnu17 -D_GNU_SOURCE -DTRAIND_VERSION='"$(VERSION)"' -I. -I$(BUILD)/generated \
    -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings \
    -Wno-psabi -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fno-math-errno -g $(OPTIMIZE) \
    $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) $(CFLAGS)
ALL_LDFLAGS := -Wl,--gc-sections -Wl,--as-needed $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

# traind-web is built where libmicrohttpd is
WEB := $(shell echo '\#include <microhttpd.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo web)

# Rooms. Each is an archive, those of the daemon are one; main files and tests stay outside of it.
ROOMS := base proto graph onnx models data train simulated cpu scheduler simulator daemon attempt shim suspend trainee client $(WEB)
DIRECTORY_daemon := daemon $(patsubst %/,%,$(wildcard daemon/*/ daemon/*/*/))
DIRECTORY_graph := engine/graph engine/graph/operators engine/graph/optimizers
DIRECTORY_onnx := engine/onnx
DIRECTORY_models := engine/models
DIRECTORY_data := engine/data
DIRECTORY_client := client $(patsubst %/,%,$(wildcard client/*/))
DIRECTORY_train := engine/train
DIRECTORY_simulated := engine/backends/simulated
DIRECTORY_cpu := engine/backends engine/backends/cpu
DIRECTORY_attempt := worker/attempt
DIRECTORY_shim := worker/shim
DIRECTORY_suspend := worker/suspend
DIRECTORY_trainee := worker/trainee
room_directories = $(or $(DIRECTORY_$(1)),$(1))
room_sources = $(foreach d,$(call room_directories,$(1)),$(filter-out %_main.c $(d)/test_%.c,$(wildcard $(d)/*.c)))
room_objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(call room_sources,$(1)))
library = $(BUILD)/lib/lib$(1).a
LIBRARIES := $(foreach r,$(ROOMS),$(call library,$(r)))

ENGINE := $(foreach r,train models onnx data simulated cpu graph,$(call library,$(r)))
ENGINE_LIBRARIES := -ldnnl -lgomp -ljson-c -lnettle -lprotobuf-c -lpng16 -ljpeg -lwebpdemux -lwebp -ltiff -lzip -lz -lpthread -lm

PROGRAMS := traind trainctl traind-shim traind-suspend traind-worker traind-sim $(if $(WEB),traind-web)
MAIN_traind := daemon/traind_main.c
MAIN_trainctl := client/trainctl_main.c
MAIN_traind-shim := worker/shim/shim_main.c
MAIN_traind-suspend := worker/suspend/suspend_main.c
MAIN_traind-worker := worker/trainee/worker_main.c
MAIN_traind-sim := simulator/sim_main.c
MAIN_traind-web := web/web_main.c
NEEDS_traind := $(foreach r,daemon scheduler proto base,$(call library,$(r)))
NEEDS_trainctl := $(foreach r,client proto base,$(call library,$(r)))
NEEDS_traind-shim := $(foreach r,shim attempt proto base,$(call library,$(r)))
NEEDS_traind-suspend := $(foreach r,suspend proto base,$(call library,$(r)))
NEEDS_traind-worker := $(call library,trainee) $(ENGINE) $(foreach r,attempt proto base,$(call library,$(r)))
NEEDS_traind-sim := $(foreach r,simulator scheduler proto base,$(call library,$(r)))
NEEDS_traind-web := $(foreach r,web proto base,$(call library,$(r)))
LIBS_traind := -luv -lsqlite3 -ljson-c -linih -lsystemd -lnettle -lpthread -lm
LIBS_trainctl := -ljson-c -lnettle -lm
LIBS_traind-shim := -ljson-c -lnettle -lm
LIBS_traind-suspend := -ljson-c -lnettle -lm
LIBS_traind-worker := $(ENGINE_LIBRARIES)
LIBS_traind-sim := -ljson-c -lnettle -lm
LIBS_traind-web := -lmicrohttpd -ljson-c -lnettle -lpthread -lm
# The shim starts for every attempt of every job. Static linking halves the time that takes.
LDFLAGS_traind-shim := $(if $(SANITIZE),,-static)

BINARIES := $(foreach p,$(PROGRAMS),$(if $(wildcard $(MAIN_$(p))),$(BUILD)/bin/$(p)))
# unit tests have the layout of the rooms; their programs share one folder, so a test runs without knowing its room
# tests of a kind of device lie in its folder
UNIT_SOURCES := $(filter-out $(if $(WEB),,tests/unit/web/%),$(sort $(shell find tests/unit -name 'test_*.c'))) \
    $(wildcard daemon/devices/*/test_*.c)
UNIT_TESTS := $(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(UNIT_SOURCES)))
TEST_HELPERS := $(patsubst tests/helpers/%.c,$(BUILD)/tests/helpers/%,$(wildcard tests/helpers/*.c)) \
    $(patsubst tests/libraries/%.c,$(BUILD)/tests/libraries/%.so,$(wildcard tests/libraries/*.c)) \
    $(BUILD)/tests/cuda/compare_operators

# objects of tests are kept, so that a second check compiles nothing
.SECONDARY:

PRESETS := $(patsubst presets/%,$(BUILD)/share/traind/presets/%,$(wildcard presets/*.json))

.PHONY: all
all: $(BINARIES) $(BUILD)/man/trainctl.1 $(PRESETS)

.PHONY: help
help:
	@echo 'all        build the programs into $(BUILD)/bin'
	@echo 'deps       install what is missing from Debian (build-aux/packages-debian)'
	@echo 'demo       install, build and run a real job, show the result'
	@echo 'check      every test that needs no special machine'
	@echo 'check-asan the same under AddressSanitizer and UBSan'
	@echo 'check-signals random models under thousands of signals: the bits of undisturbed runs (SIGNAL_MODELS=$(SIGNAL_MODELS), SIGNALS=$(SIGNALS))'
	@echo 'check-shapes SHAPES=$(SHAPES) random small networks of convolutions on the CPU against loops in double precision'
	@echo 'cuda       the plugin for NVIDIA GPUs, where their compiler is (CUDA=$(CUDA))'
	@echo 'vulkan     the plugin for GPUs by Vulkan, where glslc and the headers are (build-aux/packages-debian-vulkan)'
	@echo 'check-vulkan its operators, models and whole runs against the CPU, with a driver in software (installs Mesa and the validation layer)'
	@echo 'python     the package traind for Python as a wheel in $(BUILD)/python'
	@echo 'tests      every program of check, without running them'
	@echo 'check-cuda every operator on the GPU against the CPU; cuda-package: a folder to run it elsewhere (PACKAGE=$(PACKAGE))'
	@echo 'bench-cuda training steps on the GPU beside those of PyTorch and JAX'
	@echo 'check-attacks two ordinary users against each other, root and the daemon (as root); check-attacks-vm: the installed service'
	@echo 'check-decisions placement of a million random snapshots (DECISIONS=$(DECISIONS))'
	@echo 'check-kills kill -9 of the daemon, 1,600 times: nothing acknowledged is lost, every start succeeds'
	@echo 'check-vm   the installed service under a real systemd, in a virtual machine'
	@echo 'check-onnx modules of PyTorch as ONNX models against PyTorch (MODELS=...; TORCH_PYTHON needs onnxscript)'
	@echo 'check-torch exported weights and whole models against PyTorch (installs python3-torch, python3-torchvision)'
	@echo 'check-python the package traind with mypy, joblib, Hydra, Optuna, Lightning, transformers, TensorBoard, pyarrow and MLflow (of PACKAGES_PYTHON=$(PACKAGES_PYTHON))'
	@echo 'check-web  traind-web and its pages in headless Chromium (installs chromium)'
	@echo 'check-varlink the protocol against python-varlink (downloads it from PyPI)'
	@echo 'bench      speed against tsp, nq and PyTorch, in the same run'
	@echo 'format     clang-format over the sources; lint: that nothing is left to format, clang-tidy, the form of the documents, the table of rooms (includes, calls)'
	@echo 'install    DESTDIR and PREFIX honoured; uninstall'
	@echo 'clean      remove $(BUILD)'

.PHONY: deps
deps:
	@build-aux/install-packages build-aux/packages-debian

# ---- compilation -------------------------------------------------------------------------------

$(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(CFLAGS_$(basename $(notdir $@))) -MMD -MP -c $< -o $@

# A kernel file is compiled once for each instruction set level; KERNEL_LEVEL renames its table
# (engine/backends/cpu/kernels/kernels.h), and the backend picks one at start.
KERNEL_SOURCES := $(wildcard engine/backends/cpu/kernels/*.c)
ifeq ($(shell uname -m),x86_64)
KERNEL_LEVELS := baseline v3 v4
else
KERNEL_LEVELS := baseline
endif
KERNEL_FLAGS_v3 := -march=x86-64-v3
KERNEL_FLAGS_v4 := -march=x86-64-v4 -mprefer-vector-width=512
KERNEL_OBJECTS := $(foreach l,$(KERNEL_LEVELS),$(patsubst %.c,$(BUILD)/obj/%.$(l).o,$(KERNEL_SOURCES)))
define kernel_rule
$(BUILD)/obj/engine/backends/cpu/kernels/%.$(1).o: engine/backends/cpu/kernels/%.c Makefile
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -fopenmp-simd $$(KERNEL_FLAGS_$(1)) -DKERNEL_LEVEL=$(1) -MMD -MP -c $$< -o $$@
endef
$(foreach l,$(KERNEL_LEVELS),$(eval $(call kernel_rule,$(l))))

# Each file of client/commands/ is a command: client/command_table.c includes the list of them.
COMMAND_LIST := $(BUILD)/generated/client/command_list.h
COMMAND_NAMES := $(sort $(patsubst client/commands/%.c,%,$(wildcard client/commands/*.c)))
ifneq ($(COMMAND_NAMES),$(shell sed -n 's/^COMMAND(\(.*\))$$/\1/p' $(COMMAND_LIST) 2>/dev/null | tr '\n' ' ' | sed 's/ $$//'))
.PHONY: $(COMMAND_LIST)
endif
$(COMMAND_LIST):
	@mkdir -p $(@D)
	printf 'COMMAND(%s)\n' $(COMMAND_NAMES) > $@
$(BUILD)/obj/client/command_table.o: $(COMMAND_LIST)

# Each method of the interface is one that the daemon serves: daemon/methods/table.c includes the list of them.
METHOD_LIST := $(BUILD)/generated/daemon/methods/method_list.h
$(METHOD_LIST): proto/io.traind.varlink
	@mkdir -p $(@D)
	sed -n 's/^method \([A-Za-z]*\)(.*/METHOD_NAME(\1)/p' $< > $@
$(BUILD)/obj/daemon/methods/table.o: $(METHOD_LIST)

# Varlink interface files become C strings
INTERFACE_OBJECTS := $(patsubst proto/%.varlink,$(BUILD)/obj/proto/%.varlink.o,$(wildcard proto/*.varlink))
$(BUILD)/obj/proto/%.varlink.o: proto/%.varlink build-aux/embed-text Makefile
	@mkdir -p $(@D)
	build-aux/embed-text $< > $(@:.o=.c)
	$(CC) $(ALL_CFLAGS) -c $(@:.o=.c) -o $@

# The messages of an ONNX file: protobuf-c's compiler makes the functions that read them
ONNX_MESSAGES := $(BUILD)/generated/engine/onnx/onnx.pb-c
$(ONNX_MESSAGES).h: engine/onnx/onnx.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=engine/onnx --c_out=$(@D) $<
$(ONNX_MESSAGES).c: $(ONNX_MESSAGES).h
$(BUILD)/obj/engine/onnx/onnx.pb-c.o: $(ONNX_MESSAGES).c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c $< -o $@
ONNX_READERS := $(wildcard engine/onnx/*.c tests/unit/engine/onnx/*.c) tests/support/made_model.c
$(patsubst %.c,$(BUILD)/obj/%.o,$(ONNX_READERS)): | $(ONNX_MESSAGES).h

# What traind-web shows is in the program. The list of the files is made anew when one comes or goes.
WEB_ASSETS := $(sort $(wildcard web/assets/*))
WEB_ASSET_TABLE := $(BUILD)/generated/web/asset_table.c
ifneq ($(WEB_ASSETS),$(shell sed -n 's/.*incbin \\"\(.*\)\\"\\nweb.*/\1/p' $(WEB_ASSET_TABLE) 2>/dev/null | tr '\n' ' ' | sed 's/ $$//'))
.PHONY: $(WEB_ASSET_TABLE)
endif
$(WEB_ASSET_TABLE): build-aux/embed-assets
	@mkdir -p $(@D)
	build-aux/embed-assets $(WEB_ASSETS) > $@
$(BUILD)/obj/web/asset_table.o: $(WEB_ASSET_TABLE) $(WEB_ASSETS)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c $< -o $@

define library_rule
$(call library,$(1)): $(call room_objects,$(1)) $(if $(filter cpu,$(1)),$(KERNEL_OBJECTS)) $(if $(filter proto,$(1)),$(INTERFACE_OBJECTS)) $(if $(filter onnx,$(1)),$(BUILD)/obj/engine/onnx/onnx.pb-c.o) $(if $(filter web,$(1)),$(BUILD)/obj/web/asset_table.o)
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(AR) qcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call library_rule,$(r))))

define program_rule
$(BUILD)/bin/$(1): $(BUILD)/obj/$(MAIN_$(1):.c=.o) $(NEEDS_$(1))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) $$(LDFLAGS_$(1)) -o $$@ $$< -Wl,--start-group $(NEEDS_$(1)) -Wl,--end-group $(LIBS_$(1))
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

# The manual page describes the commands at length; a command that it lacks gets an entry made from its help
$(BUILD)/man/trainctl.1: docs/man/trainctl.1 build-aux/complete-manual $(BUILD)/bin/trainctl
	@mkdir -p $(@D)
	build-aux/complete-manual $(BUILD)/bin/trainctl $< > $@.new
	mv $@.new $@

# ---- the CUDA plugin ---------------------------------------------------------------------------

# Built by `make cuda` where NVIDIA's compiler and headers are, loaded at run time by traind-worker
# (worker/trainee/worker_plugin.c): nothing else needs either. CUDA_ARCHITECTURES: machine code for these;
# PTX of the last one is compiled by the driver of what comes later.
CUDA ?= /usr/local/cuda
NVCC := $(CUDA)/bin/nvcc
CUDA_ARCHITECTURES ?= 75 80 86 89 90
CUDA_PLUGIN := $(BUILD)/lib/traind-cuda.so
# what a plugin takes along of other rooms
PLUGIN_HOST_SOURCES := $(wildcard engine/graph/*.c engine/graph/operators/*.c engine/graph/optimizers/*.c) engine/backends/choice_table.c engine/backends/update_rule.c base/clock.c base/error.c base/log.c base/memory.c base/text.c
CUDA_HOST_SOURCES := $(wildcard engine/backends/cuda/*.c) $(PLUGIN_HOST_SOURCES)
CUDA_OBJECTS := $(patsubst %.c,$(BUILD)/cuda/%.o,$(CUDA_HOST_SOURCES)) \
    $(patsubst %.cu,$(BUILD)/cuda/%.o,$(wildcard engine/backends/cuda/kernels/*.cu))
CUDA_CODE := $(foreach a,$(CUDA_ARCHITECTURES),-gencode=arch=compute_$(a),code=sm_$(a)) \
    $(foreach a,$(lastword $(CUDA_ARCHITECTURES)),-gencode=arch=compute_$(a),code=compute_$(a))
CUDA_TESTS := $(patsubst tests/cuda/%.c,$(BUILD)/tests/cuda/%,$(wildcard tests/cuda/*.c))

.PHONY: cuda
cuda: $(CUDA_PLUGIN)

$(BUILD)/cuda/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -isystem $(CUDA)/include -MMD -MP -c $< -o $@

$(BUILD)/cuda/%.o: %.cu Makefile
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -I. $(CUDA_CODE) -O3 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -MMD -MP -c $< -o $@

$(CUDA_PLUGIN): $(CUDA_OBJECTS)
	@mkdir -p $(@D)
	$(NVCC) -shared -cudart static -Xlinker --gc-sections,--exclude-libs=ALL -o $@ $^ -ldl

CUDA_CASES := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/cuda/cases/*.c))
$(BUILD)/tests/cuda/%: $(BUILD)/obj/tests/cuda/%.o $(CUDA_CASES) $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(CUDA_CASES) -Wl,--start-group $(LIBRARIES) -Wl,--end-group $(ENGINE_LIBRARIES)

# these tests call the plugin's parts directly
CUDA_CONVOLUTIONS := $(patsubst %.c,$(BUILD)/cuda/%.o,tests/cuda/convolution_plans.c $(wildcard tests/cuda/convolutions/*.c)) \
    $(addprefix $(BUILD)/cuda/,$(addprefix engine/backends/cuda/,choices.o convolution_graph.o convolution_padded.o convolution_plan.o \
        convolution_search.o cudnn.o cudnn_builder.o status.o \
        kernels/convolution.o kernels/depthwise.o kernels/direct.o kernels/implicit.o kernels/narrow.o kernels/pointwise.o kernels/reduce.o \
        kernels/stem.o kernels/weights_tf32.o) engine/backends/choice_table.o base/clock.o base/error.o base/log.o base/memory.o base/text.o) \
    $(patsubst %.c,$(BUILD)/cuda/%.o,$(wildcard engine/graph/*.c engine/graph/operators/*.c engine/graph/optimizers/*.c))
$(BUILD)/tests/cuda/convolution_plans: $(CUDA_CONVOLUTIONS)
	@mkdir -p $(@D)
	$(NVCC) -cudart static -o $@ $^ -ldl -lpthread

# On a machine with a GPU. CARRIED: a folder that cuda-package left, in place of a build of this machine: no rule runs a compiler.
CARRIED ?=
CUDA_RESULTS ?= $(BUILD)/check-cuda.json
.PHONY: cuda-tests
cuda-tests: $(CUDA_TESTS)

.PHONY: check-cuda
check-cuda: $(if $(CARRIED),,all $(CUDA_PLUGIN) $(CUDA_TESTS))
	@mkdir -p $(dir $(CUDA_RESULTS))
	@tests/cuda/check --build $(or $(CARRIED),$(BUILD)) --results $(CUDA_RESULTS)

# Measures speed on such a machine, and that of PyTorch and JAX of $PYTHON (default: python3).
.PHONY: bench-cuda
bench-cuda: $(if $(CARRIED),,all $(CUDA_PLUGIN))
	@mkdir -p $(BUILD)
	@tests/bench/cuda/run --build $(or $(CARRIED),$(BUILD)) --results $(BUILD)/bench-cuda.json

# Makes a folder with the build to be copied to such a machine.
PACKAGE ?= $(BUILD)/package
.PHONY: cuda-package
cuda-package: all $(CUDA_PLUGIN) $(CUDA_TESTS)
	@BUILD=$(BUILD) tests/cuda/package $(PACKAGE)

# ---- the Vulkan plugin -------------------------------------------------------------------------

# Built by `make vulkan` where Vulkan's headers and glslc are, loaded at run time by traind-worker. Each .comp of shaders/ becomes
# SPIR-V, which the plugin contains, once for float32 alone and once for numbers of 16 bits as well; shader_list.h numbers them. Those
# of VULKAN_MATRICES multiply cooperative matrices of float16 and of bfloat16, too.
GLSLC ?= glslc
VULKAN_PLUGIN := $(BUILD)/lib/traind-vulkan.so
VULKAN_SHADERS := $(sort $(wildcard engine/backends/vulkan/shaders/*.comp))
VULKAN_MATRICES := convolution convolution_weights product
VULKAN_SPIRV := $(patsubst %.comp,$(BUILD)/vulkan/%.spv,$(VULKAN_SHADERS))
VULKAN_LIST := $(BUILD)/vulkan/generated/engine/backends/vulkan/shader_list.h
VULKAN_TABLE := $(BUILD)/vulkan/generated/engine/backends/vulkan/shader_table
VULKAN_HOST_SOURCES := $(wildcard engine/backends/vulkan/*.c) $(PLUGIN_HOST_SOURCES) base/clock.c base/file.c
VULKAN_OBJECTS := $(patsubst %.c,$(BUILD)/vulkan/%.o,$(VULKAN_HOST_SOURCES)) $(VULKAN_TABLE).o

.PHONY: vulkan
vulkan: $(VULKAN_PLUGIN)

VULKAN_GLSLC = $(GLSLC) --target-env=vulkan1.2 -Werror -O -MD -MF $(@:.spv=.d) -MT $@ -I engine/backends/vulkan/shaders
$(BUILD)/vulkan/%.spv: %.comp Makefile
	@mkdir -p $(@D)
	$(VULKAN_GLSLC) $< -o $@
$(BUILD)/vulkan/%.halves.spv: %.comp Makefile
	@mkdir -p $(@D)
	$(VULKAN_GLSLC) -DHALVES $< -o $@

$(BUILD)/vulkan/%.matrices.spv: %.comp Makefile
	@mkdir -p $(@D)
	$(VULKAN_GLSLC) -DHALVES -DMATRICES $< -o $@
$(BUILD)/vulkan/%.float16.spv: $(BUILD)/vulkan/%.matrices.spv build-aux/khr-matrices
	build-aux/khr-matrices $< $@
$(BUILD)/vulkan/%.bfloat16.spv: $(BUILD)/vulkan/%.matrices.spv build-aux/khr-matrices
	build-aux/khr-matrices --bfloat16 $< $@
VULKAN_MATRICES_SPIRV := $(foreach type,float16 bfloat16,$(patsubst %,$(BUILD)/vulkan/engine/backends/vulkan/shaders/%.$(type).spv,$(VULKAN_MATRICES)))

VULKAN_NAMES := $(patsubst engine/backends/vulkan/shaders/%.comp,%,$(VULKAN_SHADERS))
ifneq ($(VULKAN_NAMES),$(shell sed -n 's/^SHADER(\(.*\))$$/\1/p' $(VULKAN_LIST) 2>/dev/null | tr '\n' ' ' | sed 's/ $$//'))
.PHONY: $(VULKAN_LIST)
endif
$(VULKAN_LIST):
	@mkdir -p $(@D)
	printf 'SHADER(%s)\n' $(VULKAN_NAMES) > $@
$(VULKAN_TABLE).o: build-aux/embed-shaders $(VULKAN_SPIRV) $(VULKAN_SPIRV:.spv=.halves.spv) $(VULKAN_MATRICES_SPIRV) $(VULKAN_LIST)
	@mkdir -p $(@D)
	build-aux/embed-shaders "$(VULKAN_MATRICES)" $(VULKAN_SPIRV) > $(@:.o=.c)
	$(CC) $(ALL_CFLAGS) -I$(BUILD)/vulkan/generated -c $(@:.o=.c) -o $@
$(patsubst %.c,$(BUILD)/vulkan/%.o,$(wildcard engine/backends/vulkan/*.c)): | $(VULKAN_LIST)

$(BUILD)/vulkan/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -I$(BUILD)/vulkan/generated -MMD -MP -c $< -o $@

$(VULKAN_PLUGIN): $(VULKAN_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,--exclude-libs=ALL -o $@ $^ -ldl -lm

$(BUILD)/tests/vulkan/%: $(BUILD)/obj/tests/vulkan/%.o $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -Wl,--start-group $(LIBRARIES) -Wl,--end-group $(ENGINE_LIBRARIES)

# a layer that loses the device, for test_vulkan_jobs
VULKAN_LAYER := $(BUILD)/tests/vulkan/losing_layer.so
$(VULKAN_LAYER): tests/vulkan/losing_layer.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -o $@ $<

# Installs a driver in software, with which any machine can run it.
.PHONY: check-vulkan
check-vulkan: deps
	@build-aux/install-packages build-aux/packages-debian-vulkan
	@$(MAKE) --no-print-directory all vulkan $(VULKAN_LAYER) $(BUILD)/tests/cuda/compare_operators $(BUILD)/tests/cuda/compare_trajectories $(BUILD)/tests/cuda/data_on_device $(BUILD)/tests/vulkan/rounding
	@tests/vulkan/check --build $(BUILD)
	@BUILD=$(BUILD) tests/run-checks test_vulkan_jobs

# ---- the package for Python --------------------------------------------------------------------

.PHONY: python
python:
	@python3 python/build_backend.py $(BUILD)/python

# ---- tests -------------------------------------------------------------------------------------

# what several unit tests share
SUPPORT_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))
$(BUILD)/lib/libsupport.a: $(SUPPORT_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) qcs $@ $^

define unit_test_rule
$(BUILD)/tests/unit/$(basename $(notdir $(1))): $(BUILD)/obj/$(1:.c=.o) $(BUILD)/lib/libsupport.a $(LIBRARIES)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$< $(BUILD)/lib/libsupport.a \
	    -Wl,--start-group $(LIBRARIES) -Wl,--end-group \
	    -lcmocka -luv -lsqlite3 -linih -lsystemd $(ENGINE_LIBRARIES)
endef
$(foreach s,$(UNIT_SOURCES),$(eval $(call unit_test_rule,$(s))))

# small programs that integration tests run
$(BUILD)/tests/helpers/%: $(BUILD)/obj/tests/helpers/%.o $(BUILD)/lib/libsupport.a $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(BUILD)/lib/libsupport.a -Wl,--start-group $(LIBRARIES) -Wl,--end-group \
	    -luv -lsqlite3 -linih -lsystemd $(ENGINE_LIBRARIES)

# stand-ins for libraries that are loaded at run time; that for the CUDA plugin computes with the CPU backend
STANDIN_LIBRARIES := $(foreach r,simulated cpu graph base,$(call library,$(r)))
$(BUILD)/tests/unit/test_probe_nvidia: $(BUILD)/tests/libraries/fake_nvml.so
$(BUILD)/tests/libraries/%.so: $(BUILD)/obj/tests/libraries/%.o $(STANDIN_LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,--exclude-libs=ALL -o $@ $< \
	    -Wl,--start-group $(STANDIN_LIBRARIES) -Wl,--end-group -ldnnl -lgomp -lpthread -lm

.PHONY: check
check: deps
	@$(MAKE) --no-print-directory check-built BUILD=$(BUILD)

# Split from check so that the compiler is looked for after deps has installed it.
.PHONY: tests check-built
tests: all $(UNIT_TESTS) $(TEST_HELPERS)
check-built: tests
	@build-aux/check-includes
	@build-aux/check-references $(BUILD)
	@BUILD=$(BUILD) tests/run-checks

.PHONY: check-asan
check-asan: deps
	@$(MAKE) --no-print-directory check-built BUILD=build-asan SANITIZE=address,undefined OPTIMIZE=-O1

.PHONY: check-signals
SIGNAL_MODELS ?= 200
SIGNALS ?= 10000
check-signals: all
	@BUILD=$(abspath $(BUILD)) tests/integration/test_worker_signals --models $(SIGNAL_MODELS) --signals $(SIGNALS) Weights

.PHONY: check-shapes
SHAPES ?= 20000
check-shapes: $(BUILD)/tests/unit/test_random_shapes
	@$(BUILD)/tests/unit/test_random_shapes $(SHAPES)

# Placement of random snapshots, each with exactly the workspace that it asks for.
.PHONY: check-decisions
DECISIONS ?= 1000000
check-decisions: $(BUILD)/tests/unit/test_policy_wild
	@$(BUILD)/tests/unit/test_policy_wild $(DECISIONS)

.PHONY: check-vm
check-vm: deps
	@$(MAKE) --no-print-directory all
	@tests/vm/check

# ATTACKS: only attacks whose names contain one of these words; default: all
ATTACKS ?=
.PHONY: check-attacks
check-attacks: deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/attacks/run $(ATTACKS)

# The same against the installed service, in a virtual machine.
.PHONY: check-attacks-vm
check-attacks-vm: deps
	@$(MAKE) --no-print-directory all
	@tests/vm/check attacks $(ATTACKS)

# KILLS=0.1: a tenth of the kills
.PHONY: check-kills
check-kills: deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/kills/run $(KILLS)

# e.g. that of a virtual environment with the newest PyTorch, torchvision and NumPy
TORCH_PYTHON ?= /usr/bin/python3

.PHONY: check-torch
check-torch: deps
	@build-aux/install-packages build-aux/packages-debian-torch
	@$(MAKE) --no-print-directory all $(BUILD)/tests/helpers/trajectory
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-torch
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-trajectories
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-layers
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-lists

# MODELS: of tests/reference/onnx_models.py; when absent, the small ones. Needs onnxscript in TORCH_PYTHON
.PHONY: check-onnx
check-onnx: deps
	@$(MAKE) --no-print-directory all $(BUILD)/tests/helpers/trajectory $(BUILD)/tests/helpers/onnx_outputs
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-onnx $(MODELS)
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-onnx-nodes
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-onnx-standard
	@BUILD=$(BUILD) $(TORCH_PYTHON) tests/reference/check-onnx-export

# Without Chromium `make check` leaves the pages out.
.PHONY: check-web
check-web: deps
	@build-aux/install-packages build-aux/packages-debian-web
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/run-checks integration/test_web

# Debian has no python-varlink: PyPI's goes into a virtual environment below $(BUILD).
.PHONY: check-varlink
check-varlink: deps
	@build-aux/install-packages build-aux/packages-debian-varlink
	@$(MAKE) --no-print-directory all
	@python3 -m venv $(BUILD)/python-varlink
	@$(BUILD)/python-varlink/bin/pip install --quiet --disable-pip-version-check varlink==31.0.0
	@TRAIND_VARLINK_PYTHON=$(abspath $(BUILD))/python-varlink/bin/python BUILD=$(BUILD) \
	    tests/run-checks test_python_varlink

# The package `traind` for Python with other packages. PACKAGES_PYTHON: that of a virtual environment with the newest mypy,
# pandas, joblib, cloudpickle, hydra-core, optuna, lightning, transformers and accelerate; what it lacks is skipped.
PACKAGES_PYTHON ?= /usr/bin/python3
.PHONY: check-python
check-python: deps
	@$(MAKE) --no-print-directory all
	@TRAIND_PACKAGES_PYTHON=$(PACKAGES_PYTHON) BUILD=$(BUILD) tests/run-checks integration/test_python_

.PHONY: demo
demo: deps
	@$(MAKE) --no-print-directory --silent all
	@BUILD=$(BUILD) tests/demo

# The newest PyTorch goes into a virtual environment below $(BUILD), unless TRAIND_TORCH_PYTHON names a python that has one.
# Its usual wheels bring CUDA along (3 GB); BENCH_PIP takes options of pip, such as an --index-url of wheels that do not.
BENCH_TORCH ?= torch==2.15.0 torchvision==0.29.2
BENCH_PIP ?=
.PHONY: bench
bench: deps
	@build-aux/install-packages build-aux/packages-debian-bench
	@$(MAKE) --no-print-directory bench-built BUILD=$(BUILD)
	@$(if $(TRAIND_TORCH_PYTHON),,$(MAKE) --no-print-directory $(BUILD)/python-torch/ready BUILD=$(BUILD))
	@BUILD=$(BUILD) tests/bench/run

$(BUILD)/python-torch/ready: Makefile
	@rm -rf $(@D)
	@python3 -m venv $(@D)
	@$(@D)/bin/pip install --quiet --disable-pip-version-check $(BENCH_PIP) $(BENCH_TORCH) numpy
	@touch $@

# Split from bench as check-built is from check.
.PHONY: bench-built
bench-built: all $(TEST_HELPERS)

# ---- style -------------------------------------------------------------------------------------

FORMATTED = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh')

.PHONY: format
format:
	clang-format -i $(FORMATTED)

# lint compares the references of the objects with the table of rooms: all is built first
CORES = $(shell nproc)
.PHONY: lint
lint: deps
	@build-aux/install-packages build-aux/packages-debian-lint
	@$(MAKE) --no-print-directory all
	build-aux/check-prose
	build-aux/check-includes
	build-aux/check-references $(BUILD)
	build-aux/check-comments
	@echo $(FORMATTED) | xargs -P $(CORES) -n 50 clang-format --dry-run -Werror
	@$(MAKE) --no-print-directory -k $(if $(filter -j%,$(MAKEFLAGS)),,-j$(CORES) --output-sync) tidy

# clang-tidy (.clang-tidy) over every source. A clean source is checked again after it, one of its headers or the checks change.
# TIDY_NODES: how many states of a function the analyzer explores; its own default, 225000, takes eight times as long.
TIDY_NODES ?= 20000
# GCC's extensions that clang 14 does not know: names of CPU levels, __builtin_shuffle, _Float16, initial values of atomics
TIDY_UNREADABLE := engine/backends/cpu/device.c engine/backends/cpu/dispatch.c engine/backends/cpu/kernels/matrix.c engine/graph/rounding.c \
    tests/cuda/convolutions/convolutions.c tests/support/plain_graph.c tests/unit/engine/backends/cpu/test_threads.c
# where NVIDIA's headers are missing
TIDY_CUDA := engine/backends/cuda/% tests/cuda/convolution_plans.c tests/cuda/convolutions/%
# where Vulkan's are
TIDY_VULKAN := engine/backends/vulkan/% tests/vulkan/%
TIDY_SOURCES = $(filter-out $(TIDY_UNREADABLE) $(if $(wildcard /usr/include/vulkan/vulkan.h),,$(TIDY_VULKAN)) $(if $(WEB),,web/% tests/unit/web/%) $(if $(wildcard $(CUDA)/include/cuda.h),,$(TIDY_CUDA)),$(shell git ls-files '*.c'))
TIDY_CFLAGS := $(filter-out -Werror,$(ALL_CFLAGS)) -fopenmp-simd -DKERNEL_LEVEL=baseline -isystem $(CUDA)/include -I$(BUILD)/vulkan/generated
TIDY_PROMISES = $(if $(filter base/error.c,$<),,-include build-aux/clang-tidy-promises.h)

TIDY_CHECKS := .clang-tidy engine/backends/cpu/kernels/.clang-tidy scheduler/.clang-tidy tests/.clang-tidy

.PHONY: tidy
tidy: $(TIDY_SOURCES:%.c=$(BUILD)/tidy/%.ok)

$(patsubst %.c,$(BUILD)/tidy/%.ok,$(wildcard engine/backends/vulkan/*.c)): | $(VULKAN_LIST)
$(BUILD)/tidy/%.ok: %.c $(TIDY_CHECKS) build-aux/clang-tidy-promises.h
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- $(TIDY_CFLAGS) $(TIDY_PROMISES) -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES) >$(@:.ok=.log) 2>&1 || \
	    { cat $(@:.ok=.log); exit 1; }
	@$(CC) $(TIDY_CFLAGS) -MM -MP -MT $@ -MF $(@:.ok=.d) $<
	@touch $@

# trainctl looks for them beside its folder, as it finds them when it is installed
$(BUILD)/share/traind/presets/%.json: presets/%.json
	@mkdir -p $(@D)
	@cp $< $@

# ---- installation ------------------------------------------------------------------------------

INSTALL_FILES := DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' BUILD='$(BUILD)' build-aux/install-files

.PHONY: install
install: all
	@$(INSTALL_FILES) install

.PHONY: uninstall
uninstall:
	@$(INSTALL_FILES) uninstall

.PHONY: clean
clean:
	rm -rf $(BUILD) build-asan

-include $(shell find $(BUILD)/obj $(BUILD)/cuda $(BUILD)/vulkan $(BUILD)/tidy -name '*.d' 2>/dev/null)
