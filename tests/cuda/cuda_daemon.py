"""cuda_daemon.py: a private daemon on a machine with real GPUs, and pictures to train on; what daemon_jobs and two_gpus share.

A carried build has its shared libraries in $BUILD/libs; NATIVE_LIBS names another folder of them. NVIDIA_CONFIG: a file whose lines end the
daemon's configuration, such as a section [Nvidia] with the stand-ins of tests/libraries.
"""
import json
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for place in os.path.join(os.path.dirname(HERE), "integration"), HERE:
    sys.path.insert(0, place)
import traind  # noqa: E402

EXTRA = ""
if os.environ.get("NVIDIA_CONFIG"):
    with open(os.environ["NVIDIA_CONFIG"], encoding="utf-8") as lines:
        EXTRA = lines.read()
CARRIED = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), "libs")
NATIVE_LIBS = os.environ.get("NATIVE_LIBS") or (CARRIED if os.path.isdir(CARRIED) else None)
LIBRARIES = {"LD_LIBRARY_PATH": NATIVE_LIBS} if NATIVE_LIBS else {}


def write_images(folder, name, count, seed, side=28, classes=10):
    """IDX files: a pattern for each class under noise that hides half of it, and a tenth of the labels wrong."""
    draw, pixels, noise = random.Random(seed), side * side, int.from_bytes(b"\x7f" * side * side, "big")
    patterns = [int.from_bytes(random.Random(1000 + c).randbytes(pixels), "big") & (noise >> 1 & noise) for c in range(classes)]
    labels = bytes(draw.randrange(classes) for _ in range(count))
    with open(os.path.join(folder, f"{name}-images"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, side, side))
        for label in labels:
            file.write((patterns[label] + (draw.getrandbits(8 * pixels) & noise)).to_bytes(pixels, "big"))
    with open(os.path.join(folder, f"{name}-labels"), "wb") as file:
        file.write(struct.pack(">II", 0x801, count) +
                   bytes(draw.randrange(classes) if draw.random() < 0.1 else label for label in labels))


class Machine:
    def __init__(self, config="", calibrate="no"):
        self.daemon = traind.Daemon(environment=LIBRARIES)
        self.folder = self.daemon.folder
        with open(self.daemon.config, "w", encoding="utf-8") as file:
            file.write(f"[Jobs]\nCalibrate = {calibrate}\nRetryBackoff = 10 ms\nStopGrace = 20 s\n{config}\n{EXTRA}")
        write_images(self.folder, "train", 20000, seed=1)
        write_images(self.folder, "test", 2000, seed=2)

    def __enter__(self):
        self.daemon.__enter__()
        self.client = self.daemon.connect()
        traind.wait_until(lambda: "trains" in self.gpu(), "the backend did not answer")
        return self

    def __exit__(self, *failure):
        self.client.close()
        if failure[0]:
            for folder, _, files in os.walk(self.daemon.state):
                if "log" in files and os.path.getsize(os.path.join(folder, "log")):
                    with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as log:
                        print(f"--- {os.path.basename(folder)}: {log.read()[-600:]}", file=sys.stderr)
        self.daemon.__exit__(*failure)

    def spec(self, device=None, hidden=256, **train):
        return {"directory": self.folder, "model": {"name": "mlp", "hidden": [hidden]}, "environment": LIBRARIES,
                "data": {"train": {"format": "idx", "images": "train-images", "labels": "train-labels"},
                         "test": {"format": "idx", "images": "test-images", "labels": "test-labels"}, "validation_fraction": 0.1},
                "train": {"epochs": 5, "batch_size": 128, "seed": 1, "optimizer": {"name": "adam", "lr": 1e-3}, **train},
                "checkpoint": {"every": "1000 epochs"}, **({"device": device} if device else {})}

    def submit(self, *arguments, **train):
        return self.client.submit(**self.spec(*arguments, **train))

    def gpu(self):
        return next(d for d in self.client.call("Devices")["devices"] if d["kind"] == "cuda")

    def done(self, job):
        [ended] = self.client.wait(job)
        assert ended["state"] == "done", (ended["state"], ended["reason"])
        return ended

    def trains_on(self, job, device, attempt=1):
        with self.daemon.connect() as client:
            for reply in client.stream("Watch", ids=[job]):
                shown = reply["job"]
                if shown["state"] == "running" and shown["device"] == device and shown["progress"] and shown["attempt"] >= attempt:
                    return
                assert shown["state"] not in traind.FINAL_STATES, (shown["state"], shown["reason"])

    def pid(self, job):
        return self.client.call("Show", id=job)["attempts"][-1]["pid"]

    def starts(self, job):
        found = []
        for attempt in range(1, self.client.job(job)["attempt"] + 1):
            with open(os.path.join(self.daemon.attempt_folder(job, attempt), "spool"), encoding="utf-8") as spool:
                # a record that is being written has no end yet
                found += [r for r in (json.loads(line) for line in spool if line.endswith("\n")) if r["type"] == "start"]
        return found

    def trainctl(self, command, argument, *options):
        if isinstance(argument, dict):
            path = os.path.join(self.folder, "spec.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(argument, file)
            argument = path
        return subprocess.run([os.path.join(traind.BIN, "trainctl"), "--socket", self.daemon.socket, command, str(argument), *options],
                              capture_output=True, text=True, env={**os.environ, **LIBRARIES})
