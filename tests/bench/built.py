"""built.py: lets benchmarks report a program that is not built before they wait for anything."""
import os
import sys


def need(*programs, folder=None, command="make bench-built"):
    """Ends the benchmark if one of the programs, given as paths below the build's folder, does not exist."""
    for program in programs:
        path = os.path.join(os.path.abspath(folder or os.environ.get("BUILD", "build")), program)
        if not os.access(path, os.X_OK):
            sys.exit(f"{os.path.basename(sys.argv[0])}: {path} is not built; `{command}` builds it")
