#!/usr/bin/python3
"""make_onnx.py: writes tests/reference/data/onnx/: small models as python/traind/export.py exports them, and for each a dump
(README.md has its format) of ten training steps of the module in PyTorch, in float64. `make_onnx.py NAME ...` makes some of them
anew. It needs PyTorch with onnxscript; the tests read what is committed.
"""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import onnx_training  # noqa: E402
from onnx_models import MODELS  # noqa: E402
from traind import export  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "onnx")


def make(name, case):
    torch.manual_seed(sum(map(ord, name)))
    model = case.build()
    batches = onnx_training.batches_of(case)
    samples = batches[0][0]
    export.export(model, onnx_training.example_of(model, samples), os.path.join(FOLDER, name + ".onnx"), case.opset)
    model = model.double()
    batches = [(x if case.symbols else x.double(), y) for x, y in batches]
    tensors = {"attribute/learning_rate": case.rate, "attribute/classes": case.classes,
               "expected/losses": onnx_training.train(model, batches, case.rate)[0]}
    with torch.no_grad():
        tensors["expected/evaluation_loss"] = onnx_training.loss_of(model.eval(), *batches[0]).item()
    for step, (x, y) in enumerate(batches, 1):
        tensors.update({f"samples/{step}": x, f"target/{step}": y})
    onnx_training.write_dump(os.path.join(FOLDER, name + ".dump"), tensors)


os.makedirs(FOLDER, exist_ok=True)
for wanted in sys.argv[1:] or [name for name, case in MODELS.items() if not case.large]:
    make(wanted, MODELS[wanted])
