"""python_package.py: makes `import traind` the package of python/, although the tests' own traind.py has the same name.

    import python_package
    import traind
    with python_package.helpers.Daemon() as daemon: ...
"""
import importlib.util
import os
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
sys.path[:0] = [os.environ.get("TRAIND_PACKAGE", PACKAGE)]
