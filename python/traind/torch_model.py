"""torch_model.py: "model": {"torch": "model.py:Net"} of a specification becomes a model in the ONNX format, as `trainctl submit` does."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Dict, List

from .errors import TraindError

INPUTS_MAX = 8


class ModelExportFailed(TraindError):
    """The module of PyTorch could not be exported; no job was submitted. The text says why."""


def file_name(module: Any) -> str:
    """The file beside the module: "net/model.Net.onnx" of "net/model.py:Net"."""
    path, _, name = module.rpartition(":") if isinstance(module, str) else ("", "", "")
    path = path[:-3] if len(path) > 3 and path.endswith(".py") else path
    if not path or not name or "/" in name:
        raise ValueError(f"model.torch is {module!r}: name a file and what is in it, such as \"model.py:Net\"")
    return f"{path}.{name}.onnx"


def shapes_of(given: Any) -> List[str]:
    shapes = given if isinstance(given, (list, tuple)) else [given]
    if not 1 <= len(shapes) <= INPUTS_MAX or not all(isinstance(shape, str) for shape in shapes):
        raise ValueError("model.torch needs model.input: the shape of a batch, such as \"1,3,224,224\" or \"1,64:int64\", or a list "
                         "of one for each input")
    return list(shapes)


def with_model(spec: Dict[str, Any]) -> Dict[str, Any]:
    """The specification; where it names a module of PyTorch, with the file that the module is exported to now. The export runs in
    the job's directory, by the Python that TRAIND_PYTHON names, or else by this one."""
    model = spec.get("model")
    if not isinstance(model, dict) or "torch" not in model:
        return spec
    written = file_name(model["torch"])
    python = os.environ.get("TRAIND_PYTHON") or sys.executable or "python3"
    command = [python, "-m", "traind.export", model["torch"]]
    for shape in shapes_of(model.get("input")):
        command += ["--input", shape]
    # where this package is, it is found there as well
    path = os.pathsep.join(entry for entry in (os.environ.get("PYTHONPATH"), os.path.dirname(os.path.dirname(__file__))) if entry)
    try:
        done = subprocess.run([*command, "-o", written], cwd=spec.get("directory"), env={**os.environ, "PYTHONPATH": path},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except OSError as error:
        raise ModelExportFailed(f"model.torch: cannot start {python} in {spec.get('directory')}: {error.strerror}") from None
    if done.returncode:
        raise ModelExportFailed(f"model.torch: `{python} -m traind.export {model['torch']}` failed; it needs the packages traind, torch "
                                f"and onnxscript (TRAIND_PYTHON names another Python). It said:\n{done.stdout.strip()}")
    kept = {key: value for key, value in model.items() if key not in ("torch", "input")}
    return {**spec, "model": {**kept, "onnx": written}}
