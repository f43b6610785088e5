#!/usr/bin/env python3
"""build_backend.py FOLDER: builds the wheel there, as `make python` does. It is also the backend that pip calls (PEP 517).

A wheel of pure Python is an archive with three lists beside the modules, so the standard library is enough: a build needs
neither setuptools nor a network. The same files give the same bytes.
"""
import base64
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile

TOP = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ("hydra_plugins", "traind")
MADE = (1980, 1, 1, 0, 0, 0)  # the earliest date that an archive can name
WHEEL = "Wheel-Version: 1.0\nGenerator: traind\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = """\
Metadata-Version: 2.1
Name: traind
Version: {version}
Summary: Training jobs on the device of this machine that finishes them soonest: the client of the daemon traind
License: MIT
Requires-Python: >=3.9
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Provides-Extra: joblib
Requires-Dist: joblib; extra == "joblib"
Requires-Dist: cloudpickle; extra == "joblib"
Provides-Extra: hydra
Requires-Dist: hydra-core>=1.3; extra == "hydra"
Requires-Dist: cloudpickle; extra == "hydra"
Provides-Extra: optuna
Requires-Dist: optuna; extra == "optuna"
Provides-Extra: lightning
Requires-Dist: lightning; extra == "lightning"
Provides-Extra: huggingface
Requires-Dist: transformers[torch]; extra == "huggingface"
Provides-Extra: parquet
Requires-Dist: pyarrow; extra == "parquet"
Provides-Extra: mlflow
Requires-Dist: mlflow; extra == "mlflow"
"""


def version():
    with open(os.path.join(TOP, "traind", "__init__.py"), encoding="utf-8") as file:
        return re.search(r'^__version__ = "([^"]+)"', file.read(), re.MULTILINE).group(1)


def sources():
    """The package's files, relative to this folder."""
    found = [os.path.relpath(os.path.join(folder, name), TOP) for top in FOLDERS
             for folder, _, names in os.walk(os.path.join(TOP, top)) for name in names if name.endswith((".py", ".typed"))]
    return sorted(found)


def read(path):
    with open(os.path.join(TOP, path), "rb") as file:
        return file.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name, information = f"traind-{version()}-py3-none-any.whl", f"traind-{version()}.dist-info/"
    files = [(path, read(path)) for path in sources()]
    files += [(information + "METADATA", METADATA.format(version=version()).encode()), (information + "WHEEL", WHEEL.encode())]
    record = "".join(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
                     for path, data in files)
    files.append((information + "RECORD", f"{record}{information}RECORD,,\n".encode()))
    os.makedirs(wheel_directory, exist_ok=True)
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files:
            entry = zipfile.ZipInfo(path, MADE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    base = f"traind-{version()}"
    files = [(path, read(path)) for path in [*sources(), "build_backend.py", "pyproject.toml"]]
    files.append(("PKG-INFO", METADATA.format(version=version()).encode()))
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as archive:
        for path, data in files:
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return base + ".tar.gz"


if __name__ == "__main__":
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1])))
