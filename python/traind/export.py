"""Writes a PyTorch module as a model in the ONNX format that traind trains:

    python -m traind.export model.py:Net --input 1,3,224,224 -o net.onnx

`Net` is a class or a function without required arguments, or a module, in model.py. `--input` is the shape of a batch of
samples; its first extent, the batch, is left open. Integers instead of numbers: `--input 1,64:int64`. The names of the weights
are those of state_dict(), so trained weights load back with load_state_dict().

This needs PyTorch with onnxscript ("pip install torch onnxscript"); the rest of the package does not.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import logging
import os
import sys
import tempfile
import warnings
from typing import Any, Iterator
from unittest import mock


class ExportError(Exception):
    """The module cannot be exported; the message says why and what to do."""


def load(reference: str) -> Any:
    """The torch.nn.Module that "path.py:Name" names: an instance, or what a class or function gives without arguments."""
    path, separator, name = reference.rpartition(":")
    if not separator or not name or not path:
        raise ExportError(f"{reference}: name a file and what is in it, such as model.py:Net")
    if not os.path.isfile(path):
        raise ExportError(f"there is no file {path}")
    import torch

    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    if spec is None or spec.loader is None:
        raise ExportError(f"{path} is no Python file")
    code = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = code
    spec.loader.exec_module(code)
    found = getattr(code, name, None)
    if found is None:
        raise ExportError(f"{path} has no {name}")
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise ExportError(f"{name} in {path} is neither a module nor a class or function that gives one")
        required = [parameter.name for parameter in inspect.signature(found).parameters.values()
                    if parameter.default is parameter.empty and parameter.kind in
                    (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)]
        if required:
            raise ExportError(f"{name} in {path} needs the argument{'s' if len(required) > 1 else ''} "
                              f"{', '.join(required)}: write a function that gives the finished module, and name that")
        found = found()
    if not isinstance(found, torch.nn.Module):
        raise ExportError(f"{name} in {path} gives {type(found).__name__}, not a torch.nn.Module")
    return found


def example(text: str) -> Any:
    """A batch of the shape "1,3,224,224", or "1,64:int64" for integers."""
    import torch

    shape, _, kind = text.partition(":")
    try:
        extents = [int(extent) for extent in shape.split(",")]
    except ValueError:
        extents = []
    if len(extents) < 2 or min(extents) < 1 or kind not in ("", "float32", "int64", "int32"):
        raise ExportError(f"--input is {text}: name the shape of a batch, such as 1,3,224,224 or 1,64:int64")
    extents[0] = 2  # torch.export takes an extent of 1 for a constant
    if kind.startswith("int"):
        return torch.zeros(extents, dtype=getattr(torch, kind))
    return torch.randn(extents)


def window_means(extent: int, parts: int) -> list[list[float]]:
    """The matrix [extent, parts] that makes an axis the means of an adaptive pool's windows."""
    windows = [range(part * extent // parts, ((part + 1) * extent + parts - 1) // parts) for part in range(parts)]
    return [[1 / len(window) if at in window else 0.0 for window in windows] for at in range(extent)]


def average_pool(original: Any, axes: int) -> Any:
    """An adaptive average pool that torch.onnx writes in few nodes: where windows differ it would gather every pixel of each."""
    def pool(samples: Any, size: Any) -> Any:
        import torch

        have = samples.shape[-axes:]
        wanted = [extent if part is None else part
                  for extent, part in zip(have, size if isinstance(size, (tuple, list)) else [size] * axes)]
        if all(part == 1 for part in wanted):
            return samples.mean(tuple(range(-axes, 0)), keepdim=True)
        if all(extent % part == 0 for extent, part in zip(have, wanted)):
            return original(samples, size)
        means = [[1.0]]
        for extent, part in zip(have, wanted):  # the product of both axes' matrices (Kronecker)
            means = [[a * b for a in row for b in other] for row in means for other in window_means(extent, part)]
        return (samples.flatten(-axes) @ torch.tensor(means)).unflatten(-1, wanted)

    return pool


def embedding_bag(original: Any) -> Any:
    """An nn.EmbeddingBag of rows of indices, which torch.onnx would write as a loop over the bags."""
    # pylint: disable-next=redefined-builtin  # torch's name
    def bag(input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2.0,
            scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
            include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
        import torch

        if input.dim() != 2 or max_norm is not None or padding_idx is not None or mode not in ("sum", "mean", "max"):
            return original(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
                            include_last_offset, padding_idx)
        rows = torch.nn.functional.embedding(input, weight)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return rows.amax(1) if mode == "max" else rows.mean(1) if mode == "mean" else rows.sum(1)

    return bag


def told_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:  # pylint: disable=unused-argument
    """Whether nn.Transformer's caller says that a mask is causal. PyTorch would compare its numbers, which an export lacks; the
    mask is applied either way."""
    return is_causal is True


def keep_names_apart(graph: Any) -> None:
    """torch.onnx names what a node gives after the function, so a parameter `t` and the result of x.t() may have one name. The
    parameter keeps it."""
    taken = set(graph.initializers) | {value.name for value in graph.inputs}
    for node in graph:
        for value in node.outputs:
            if value.name in graph.initializers and value is not graph.initializers[value.name]:
                number = 1
                while f"{value.name}_result_{number}" in taken:
                    number += 1
                value.name = f"{value.name}_result_{number}"
            taken.add(value.name)


def length(value: Any) -> Any:
    """len(), which of a tensor would give the samples of the example instead of those of any batch."""
    import torch

    return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)


@contextlib.contextmanager
def lengths_open(module: Any) -> Iterator[None]:
    """Gives the files of the module's classes that len()."""
    spaces = {id(space): space for space in (vars(sys.modules[type(part).__module__]) for part in module.modules()
                                             if type(part).__module__.partition(".")[0] != "torch")
              if "len" not in space}
    for space in spaces.values():
        space["len"] = length
    try:
        yield
    finally:
        for space in spaces.values():
            del space["len"]


@contextlib.contextmanager
def norms_moving(module: Any) -> Iterator[None]:
    """Batch norms with the mean of all batches (momentum=None), which ONNX lacks, move as PyTorch's others do."""
    import torch

    norms = [part for part in module.modules()
             if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.momentum is None]
    for norm in norms:
        norm.momentum = 0.1
    try:
        yield
    finally:
        for norm in norms:
            norm.momentum = None


def batches_open(module: Any, count: int) -> tuple[Any, ...]:
    """What tells torch.export that the first extents of the inputs are the batch; those that forward(*inputs) collects are one."""
    import torch

    shapes: list[Any] = [{0: torch.export.Dim("batch")} for _ in range(count)]
    parameters = inspect.signature(module.forward).parameters.values()
    named = sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters)
    if count > named and any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        shapes[named:] = [tuple(shapes[named:])]
    return tuple(shapes)


@contextlib.contextmanager
def traceable(module: Any) -> Iterator[None]:
    """`module` as it is exported: in evaluation, with pools that torch.onnx writes in few nodes, while PyTorch prints no warnings."""
    import torch

    functions = torch.nn.functional
    modes = {part: part.training for part in module.modules()}
    logged = logging.root.manager.disable
    module.eval()
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), lengths_open(module), norms_moving(module), \
            mock.patch.object(functions, "adaptive_avg_pool1d", average_pool(functions.adaptive_avg_pool1d, 1)), \
            mock.patch.object(functions, "adaptive_avg_pool2d", average_pool(functions.adaptive_avg_pool2d, 2)), \
            mock.patch.object(functions, "embedding_bag", embedding_bag(functions.embedding_bag)), \
            mock.patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", told_causal, create=True):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(logged)
            for part, mode in modes.items():
                part.training = mode


def reason(error: BaseException) -> str:
    """What stopped PyTorch: the first line of the error behind its report."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def save(program: Any, path: str, external_data: bool) -> None:
    """Writes the model, which appears under its name when it is whole. A pipe or a device is written as it is."""
    if os.path.exists(path) and not os.path.isfile(path):
        program.save(path, external_data=False)
        return
    path = os.path.realpath(path)
    with tempfile.TemporaryDirectory(prefix=".traind-export-", dir=os.path.dirname(path)) as folder:
        program.save(os.path.join(folder, os.path.basename(path)), external_data=external_data)
        for name in sorted(os.listdir(folder), key=lambda name: name == os.path.basename(path)):  # the model last
            os.replace(os.path.join(folder, name), os.path.join(os.path.dirname(path), name))


def export(module: Any, batch: Any, path: str, opset: int | None = None) -> None:
    """Writes `module`, of which `batch` is an example of a batch of samples (of several inputs: a tuple), to the file `path`."""
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise ExportError(f"this Python lacks {error.name}: pip install torch onnxscript") from None

    parameters = dict(module.named_parameters(remove_duplicate=False))  # tied ones by all their names
    batches = batch if isinstance(batch, tuple) else (batch,)
    try:
        with traceable(module):
            # no optimisation: it would fold batch norm into convolutions, and transposed weights lose their names
            program = torch.onnx.export(module, batches, dynamo=True, optimize=False, verbose=False, opset_version=opset,
                                        dynamic_shapes=batches_open(module, len(batches)))
    except Exception as error:  # pylint: disable=broad-except  # torch.onnx has an error for each of its stages, and others'
        raise ExportError(f"PyTorch cannot export the module{f' with opset {opset}' if opset else ''}: {reason(error)}") from error
    if program is None:
        raise ExportError("torch.onnx gave no model")
    written = program.model.opset_imports.get("")
    if opset and written != opset:
        raise ExportError(f"PyTorch cannot write this module with opset {opset}: it gave one with {written}")
    for node in program.model.graph:  # where in the source each node comes from: paths of this machine
        node.metadata_props.clear()
    keep_names_apart(program.model.graph)
    if any(given.shape and isinstance(given.shape[0], int) for given in program.model.graph.inputs):
        print(f"traind.export: the module takes the number of samples for a constant, as int(x.shape[0]) does: {path} has a fixed "
              "batch, and not all operators train with another one; x.shape[0] leaves it open", file=sys.stderr)
    program.model.metadata_props["traind.parameters"] = "\n".join(
        name for name, parameter in parameters.items() if parameter.requires_grad)
    try:
        save(program, path, external_data=sum(parameter.nbytes for parameter in parameters.values()) > 1 << 30)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror}") from None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m traind.export", description="Writes a PyTorch module as an ONNX model.")
    parser.add_argument("module", metavar="FILE:NAME", help="a file of Python, and the module, class or function in it")
    parser.add_argument("--input", required=True, metavar="SHAPE", action="append",
                        help="a batch of samples, such as 1,3,224,224 or 1,64:int64; once for each input of forward()")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the ONNX model that is written")
    parser.add_argument("--opset", type=int, help="version of ONNX's operators; when absent: PyTorch's choice")
    options = parser.parse_args(arguments)
    try:
        export(load(options.module), tuple(example(shape) for shape in options.input), options.output, options.opset)
    except ExportError as error:
        print(f"traind.export: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"traind.export: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
