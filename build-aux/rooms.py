"""rooms.py: the table of docs/architecture.md ("Rooms"): which room may use which, for check-includes and check-references."""
import glob
import os
import subprocess

# room: (rooms it may use beside itself and base, guarded libraries it may use). "engine/" means every room in that folder.
ALLOWED = {
    "base": ((), ("nettle",)),
    "proto": ((), ("json-c",)),
    "engine/graph": (("proto",), ()),
    "engine/onnx": (("proto", "engine/graph"), ("protobuf-c",)),
    "engine/models": (("engine/graph", "engine/onnx", "proto"), ()),
    "engine/data": (("proto",), ("zlib", "png", "jpeg", "webp", "tiff", "zip")),
    "engine/train": (("proto", "engine/graph", "engine/models", "engine/data", "engine/backends"), ("json-c",)),
    "engine/backends": (("engine/graph",), ()),
    "engine/backends/cuda": (("engine/graph", "engine/backends"), ("cuda",)),
    "engine/backends/vulkan": (("engine/graph", "engine/backends"), ("vulkan",)),
    "engine/backends/cpu": (("engine/graph", "engine/backends"), ("dnnl", "omp")),
    "engine/backends/simulated": (("engine/graph", "engine/backends", "engine/backends/cpu"), ()),
    "scheduler": ((), ()),
    "daemon/types": ((), ()),
    "daemon/config": (("daemon/types",), ("inih",)),
    "daemon/events": ((), ()),
    "daemon/folder": (("proto", "daemon/types"), ()),
    "daemon/work": (("proto", "daemon/types"), ()),
    "daemon/store": (("proto", "daemon/types", "daemon/folder", "daemon/work"), ("uv", "sqlite3")),
    "daemon/context": (("daemon/types", "daemon/config", "daemon/events", "daemon/store"), ("uv",)),
    "daemon/server": (("proto", "daemon/types", "daemon/config", "daemon/events", "daemon/store", "daemon/context"), ("uv",)),
    "daemon/devices": (("proto", "daemon/types", "daemon/config", "daemon/events", "daemon/store", "daemon/context"), ("uv",)),
    "daemon/devices/registry": (("daemon/types", "daemon/devices", "daemon/devices/"), ()),
    # the kinds of devices: "*" stands for each folder that has no row of its own
    "daemon/devices/*": (("proto", "daemon/types", "daemon/config", "daemon/events", "daemon/context", "daemon/devices"),
                         ("uv", "systemd")),
    "daemon/attempts": (("proto", "daemon/types", "daemon/config", "daemon/events", "daemon/folder", "daemon/work", "daemon/store",
                         "daemon/context", "daemon/devices"), ("uv",)),
    "daemon/jobs": (("proto", "scheduler", "daemon/types", "daemon/config", "daemon/events", "daemon/folder", "daemon/work",
                     "daemon/store", "daemon/context", "daemon/devices", "daemon/attempts"), ("uv",)),
    "daemon/methods": (("proto", "scheduler", "daemon/types", "daemon/config", "daemon/events", "daemon/folder", "daemon/work",
                        "daemon/store", "daemon/context", "daemon/devices", "daemon/attempts", "daemon/jobs",
                        "daemon/server"), ("uv",)),
    "daemon": (("proto", "daemon/"), ("uv", "systemd")),
    "worker/attempt": (("proto",), ()),
    "worker/shim": (("proto", "worker/attempt"), ()),
    "worker/suspend": (("proto",), ()),
    "worker/trainee": (("proto", "engine/", "worker/attempt"), ()),
    "client/view": (("proto",), ()),
    "client/command_line": (("proto", "client/view"), ()),
    "client/connection": (("proto", "client/view", "client/command_line"), ()),
    "client/inspection": (("proto",), ()),
    "client/submission": (("proto", "client/view", "client/command_line", "client/connection", "client/inspection"), ()),
    "client/exports": (("proto", "client/view", "client/command_line", "client/connection"), ()),
    "client/top": (("proto", "client/view", "client/command_line", "client/connection"), ()),
    "client/reports": (("proto", "client/view", "client/command_line", "client/connection"), ()),
    "client/commands": (("proto", "client/view", "client/command_line", "client/connection", "client/submission",
                         "client/exports", "client/top", "client/reports"), ()),
    "client": (("proto", "client/"), ()),
    "simulator": (("scheduler", "proto"), ()),
    "web": (("proto",), ("microhttpd",)),
    "python": ((), ()),
}
TABLE = set(ALLOWED)  # the rows as the document has them
for pattern in [room for room in ALLOWED if room.endswith("/*")]:
    row = ALLOWED.pop(pattern)
    for folder in sorted(glob.glob(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), pattern))):
        if os.path.isdir(folder):
            ALLOWED.setdefault(pattern[:-1] + os.path.basename(folder), row)
# The files of a room that may use what the rest of it may not
ONLY_IN = {("engine/data", "png"): {"engine/data/image_png.c"},
           ("engine/data", "jpeg"): {"engine/data/image_jpeg.c"},
           ("engine/data", "webp"): {"engine/data/image_webp.c"},
           ("engine/data", "zip"): {"engine/data/archive.c"},
           ("engine/data", "tiff"): {"engine/data/image_tiff.c"},
           ("engine/train", "json-c"): {"engine/train/auto_json.h"},
           ("engine/backends/cpu", "dnnl"): {"engine/backends/cpu/onednn_internal.h"},
           ("engine/backends/cpu", "omp"): {"engine/backends/cpu/onednn.c"}}
# A library that only one room may see. Headers of the room that others include, directly or not, must not include the library's.
SEEN_IN = {"sqlite3": "daemon/store"}
# The files of a circle all reach each other by their calls, so none can be understood or tested without the others.
# A room's largest circle has CIRCLE_LIMIT files at most; CIRCLES lists the rooms that had a larger one, which may only shrink.
CIRCLE_LIMIT = 8
CIRCLES = {}


def room_of(path):
    """The room that the file lies in; None: in none (tests)."""
    if os.path.basename(path).startswith("test_"):  # beside what it tests
        return None
    matches = [room for room in ALLOWED if path == room or path.startswith(room + "/")]
    return max(matches, key=len) if matches else None


def may_use(room, other):
    return other in (room, "base") or any(other == allowed or (allowed.endswith("/") and other.startswith(allowed))
                                          for allowed in ALLOWED[room][0])


def sources(*patterns):
    """The repository's files of these endings ("*.c"), tracked or new, that are there; the caller stands at its top."""
    try:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns],
                                capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        listed = [os.path.join(folder, name)[2:] for folder, _, names in os.walk(".") for name in names
                  if any(name.endswith(pattern[1:]) for pattern in patterns)]
    return sorted({path for path in listed if os.path.exists(path)})


def circles(nodes, successors):
    """The strongly connected components of more than one node, the largest first (Tarjan 1972)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in successors(node):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(nodes):
        if node not in number:
            visit(node)
    return sorted(found, key=len, reverse=True)
