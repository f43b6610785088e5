"""examples.py: trains jobs of examples/ on the real data in the folder TRAIND_DATA."""
import json
import os
import subprocess
import sys

WORKER = os.path.join(os.environ["BUILD"], "bin", "traind-worker")
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(bars):
    """Each example must reach its test accuracy; ends the program."""
    data = os.environ.get("TRAIND_DATA", "")
    if not os.path.isdir(os.path.join(data, "fashion-mnist")):
        print("TRAIND_DATA names no folder with the real data sets")
        sys.exit(77)
    failures = 0
    for name, bar in bars:
        spec = os.path.join(TOP, "examples", f"{name}.json")
        result = subprocess.run([WORKER, "train", spec, "--json"], cwd=data, check=True, stdout=subprocess.PIPE,
                                text=True)
        last = json.loads(result.stdout.splitlines()[-1])
        accuracy = last["metrics"]["test_accuracy"]
        print(f"{name}: test accuracy {accuracy:.4f} in {last['seconds']:.1f} s, wanted {bar}", flush=True)
        failures += accuracy < bar
    sys.exit(1 if failures else 0)
