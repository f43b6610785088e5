"""built.py: what benchmarks say of a program that is not built, before they wait for anything."""
import os
import sys


def need(*programs):
    """Ends the benchmark where one of the programs, paths below the build's folder, is not there."""
    for program in programs:
        path = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), program)
        if not os.access(path, os.X_OK):
            sys.exit(f"{os.path.basename(sys.argv[0])}: {path} is not built; `make bench-built` builds it")
