"""calibration.py: writes an invented calibration of this CPU to the place where traind-worker keeps its own, because
measuring one takes long."""
import json
import os
import subprocess

import traind


def keep_calibration(cache, threads, flops=1e11):
    """Writes the calibration into the cache folder as `traind-worker calibrate` would; returns its path."""
    answer = subprocess.run([os.path.join(traind.BIN, "traind-worker"), "devices", "--json", "--device", "cpu"], check=True,
                            stdout=subprocess.PIPE)
    [device] = json.loads(answer.stdout)["devices"]
    versions = ", ".join(f"{name} {version}" for name, version in device["versions"].items() if name != "traind")
    folder = os.path.join(cache, "traind")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"calibration-cpu-{threads}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": 3, "device": "cpu", "model": device["model"], "features": device["features"], "versions": versions,
                   "threads": threads, "flops_per_second": flops, "bytes_per_second": 1e10, "kernel_seconds": 1e-6}, file)
    return path
