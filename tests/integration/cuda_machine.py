"""cuda_machine.py: a daemon on a machine with GPUs. Stand-ins for the driver's library and for the CUDA plugin, which
computes on the CPU, simulate the GPUs."""
import json
import os

import traind
from synthetic import write_idx

LIBRARIES = os.path.join(traind.BUILD, "tests", "libraries")
GIB = 1 << 30
MODEL = "Fake_80GB"


class Machine:
    """A daemon on a machine with GPUs. What the driver and the plugin report can be changed at any time."""

    def __init__(self, gpus=("GPU-aa",), backend=True, config="", control=(), calibrate=False):
        """control: what the plugin reports before the daemon starts, which asks it at once."""
        self.daemon = traind.Daemon()
        self.folder = self.daemon.folder
        self.plugin = os.path.join(self.folder, "plugin.so")
        self.nvml = os.path.join(self.folder, "nvml")
        self.gpus = {gpu: {} for gpu in gpus}
        self.lines, self.driver = [], "580.159.04"
        if backend:
            os.symlink(os.path.join(LIBRARIES, "fake_cuda.so"), self.plugin)
        with open(self.daemon.config, "w", encoding="utf-8") as file:
            file.write(f"[Nvidia]\nLibrary = {LIBRARIES}/fake_nvml.so\nBackend = {self.plugin}\n"
                       f"[Jobs]\nStopGrace = 10 s\nRetryBackoff = 10 ms\nCalibrate = {'yes' if calibrate else 'no'}\n{config}")
        self.daemon.environment["FAKE_NVML_STATE"] = self.nvml
        self.say()
        self.control(*control)
        write_idx(self.folder, "train", 500, seed=1)
        write_idx(self.folder, "test", 200, seed=2)

    def state(self):
        lines = [f"driver {self.driver}"]
        lines += [f"gpu {name} total={24 * GIB} model={MODEL} " + " ".join(f"{k}={v}" for k, v in facts.items())
                  for name, facts in self.gpus.items()]
        return lines + self.lines

    def say(self):
        self.write(self.nvml, self.state())

    def control(self, *lines):
        """Sets what the plugin reports after the next start of a worker."""
        self.write(self.plugin + ".control", lines)

    def write(self, path, lines):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.rename(path + ".new", path)

    def __enter__(self):
        self.daemon.__enter__()
        self.client = self.daemon.connect()
        return self

    def __exit__(self, *failure):
        self.client.close()
        self.daemon.__exit__(*failure)

    def spec(self, device=None, train=None, model=None, **others):
        return {"directory": self.folder, "model": model or {"name": "mlp", "hidden": [16]},
                "data": {"train": {"format": "idx", "images": "train-images", "labels": "train-labels"},
                         "test": {"format": "idx", "images": "test-images", "labels": "test-labels"},
                         "validation_fraction": 0.2},
                "train": {"epochs": 3, "batch_size": 32, **(train or {})},
                **({"device": device} if device else {}), **others}

    def submit(self, *arguments, **others):
        return self.client.submit(**self.spec(*arguments, **others))

    def device(self, name="cuda:0"):
        return next(d for d in self.client.call("Devices")["devices"] if d["name"] == name)

    def wait_for(self, job, state, wait_reason=None):
        def is_so():
            shown = self.client.job(job)
            assert shown["state"] == state or shown["state"] not in traind.FINAL_STATES, shown
            return shown["state"] == state and (wait_reason is None or shown["wait_reason"] == wait_reason)
        traind.wait_until(is_so, f"job {job} never was {state} {wait_reason}: {self.client.job(job)}")

    def wait_until_known(self, name="cuda:0"):
        traind.wait_until(lambda: "trains" in self.device(name), "nobody asked the backend")
        return self.device(name)

    def candidates(self, job):
        explained = self.client.call("Explain", id=job)
        decision = explained.get("now") or explained["decisions"][-1]
        return {c["device"]: c for c in decision["candidates"]}

    def trains_on(self, job, device):
        """Waits until the job has made progress there."""
        with self.daemon.connect() as client:
            for reply in client.stream("Watch", ids=[job]):
                shown = reply["job"]
                if shown["state"] == "running" and shown["device"] == device and shown["progress"]:
                    return
                assert shown["state"] not in traind.FINAL_STATES, shown

    def rows(self, job):
        """The metrics of whole epochs and of the end, without times: (name, step): value."""
        rows, after = {}, 0
        while True:
            reply = self.client.call("Metrics", id=job, after=after)
            if not reply["rows"]:
                return rows
            rows.update({(row["name"], row["step"]): row["value"] for row in reply["rows"] if row["name"] not in
                         ("samples_per_second", "epoch_seconds", "step_loss", "learning_rate")})
            after = reply["next"]

    def starts(self, job):
        """The `start` records of its attempts."""
        found = []
        for attempt in range(1, self.client.job(job)["attempt"] + 1):
            spool = os.path.join(self.daemon.attempt_folder(job, attempt), "spool")
            if os.path.exists(spool):  # it comes a moment after the process
                with open(spool, encoding="utf-8") as file:
                    # a record that is being written has no end yet
                    found += [r for r in (json.loads(line) for line in file if line.endswith("\n")) if r["type"] == "start"]
        return found
