"""python_package.py: makes `import traind` the package of python/, although the tests' own traind.py has the same name.

    import python_package
    import traind
    with python_package.helpers.Daemon() as daemon: ...
"""
import importlib.util
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(FOLDER))
PACKAGE = os.path.join(TOP, "python")


def load_helpers():
    description = importlib.util.spec_from_file_location("traind_helpers", os.path.join(FOLDER, "traind.py"))
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    return module


helpers = load_helpers()
sys.path[:0] = [PACKAGE]
# a Python with packages of PyPI: `make check-python` names one
PACKAGES_PYTHON = os.environ.get("TRAIND_PACKAGES_PYTHON", sys.executable)


def run_with(daemon, *arguments, folder=None, **environment):
    """Runs a program of a user with that Python; what it prints."""
    variables = {**os.environ, "TRAIND_SOCKET": daemon.socket, "PYTHONPATH": PACKAGE, **environment}
    result = subprocess.run([PACKAGES_PYTHON, *arguments], cwd=folder or daemon.folder, env=variables, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3 * helpers.PATIENCE)
    assert result.returncode == 0, f"{arguments} ended with {result.returncode}:\n{result.stdout}"
    return result.stdout


def need(*modules):
    """Ends the test as skipped where that Python lacks one of them."""
    found = subprocess.run([PACKAGES_PYTHON, "-c", "import " + ", ".join(modules)], capture_output=True, text=True)
    if found.returncode:
        helpers.skip(f"{PACKAGES_PYTHON} lacks one of {', '.join(modules)} (make check-python PACKAGES_PYTHON=... tests it)")
