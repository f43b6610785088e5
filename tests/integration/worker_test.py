"""worker_test.py: helpers that the tests of traind-worker share: jobs over generated images, and their records."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from synthetic import read_safetensors, write_idx

WORKER = os.path.join(os.environ["BUILD"], "bin", "traind-worker")


def run(*arguments, **options):
    return subprocess.run([WORKER, *arguments], capture_output=True, text=True, **options)


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="worker.")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def job(self, name="job", model=None, train=None, data=None, **others):
        """Writes a specification over synthetic images and returns its path."""
        if not os.path.exists(self.path("train-images")):
            write_idx(self.folder, "train", 500, seed=1)
            write_idx(self.folder, "test", 200, seed=2)
        spec = {"directory": self.folder, "model": model or {"name": "mlp", "hidden": [16]},
                "data": data or {"train": {"format": "idx", "images": "train-images", "labels": "train-labels"},
                                 "test": {"format": "idx", "images": "test-images", "labels": "test-labels"},
                                 "validation_fraction": 0.2},
                "train": {"epochs": 3, "batch_size": 32, **(train or {})}, **others}
        path = self.path(f"{name}.json")
        with open(path, "w") as file:
            json.dump(spec, file)
        return path

    def records(self, *arguments, status=0):
        """Runs the worker with --json and returns its records by type."""
        result = run(*arguments, "--json")
        self.assertEqual(result.returncode, status, result.stderr)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([r["n"] for r in records], list(range(1, len(records) + 1)))
        return records

    def assert_same_weights(self, a, b):
        """Asserts that tensors and the state are equal bit for bit, except for the seconds and the device's model."""
        (state_a, tensors_a), (state_b, tensors_b) = read_safetensors(a), read_safetensors(b)
        self.assertEqual(sorted(tensors_a), sorted(tensors_b))
        for name in tensors_a:
            self.assertEqual(tensors_a[name], tensors_b[name], name)
        for state in state_a, state_b:
            for key in "traind.seconds", "traind.epoch_seconds", "traind.precision.model":
                state.pop(key)
        self.assertEqual(state_a, state_b)
