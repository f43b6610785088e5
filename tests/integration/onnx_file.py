"""onnx_file.py: writes small models in the ONNX format, and reads the tensors of such files, without the package onnx."""
import struct

FLOAT, INT64 = 1, 7


def number(value):
    value &= (1 << 64) - 1
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes(result) + bytes([value])


def field(place, value):
    """A field of a message: an integer, a text or a message."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(value)) + value


def tensor(name, shape, values, kind=FLOAT):
    data = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q'}", *values)
    return b"".join(field(1, extent) for extent in shape) + field(2, kind) + field(8, name) + field(9, data)


def node(operator, inputs, output, **attributes):
    """Attributes are integers, lists of integers or tensors."""
    message = b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, output) + field(4, operator)
    for name, value in attributes.items():
        if isinstance(value, int):
            content = field(3, value) + field(20, 2)
        elif isinstance(value, bytes):
            content = field(5, value) + field(20, 4)
        else:
            content = b"".join(field(8, item) for item in value) + field(20, 7)
        message += field(5, field(1, name) + content)
    return message


def interface(name, shape):
    """An input or output of floats; the first axis is the batch's."""
    extents = b"".join(field(1, field(1, extent) if extent else field(2, "n")) for extent in (0, *shape))
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, extents)))


def write_onnx(path, nodes, tensors, shape, outputs):
    """A model from "x", [n, *shape], to "y", [n, outputs]."""
    graph = b"".join(field(1, item) for item in nodes) + field(2, "graph") + b"".join(field(5, item) for item in tensors)
    graph += field(11, interface("x", shape)) + field(12, interface("y", (outputs,)))
    with open(path, "wb") as file:
        file.write(field(1, 9) + field(7, graph) + field(8, field(1, "") + field(2, 18)))


def take_number(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = take_number(data, at)
        if key & 7 == 0:
            value, at = take_number(data, at)
        else:
            size, at = take_number(data, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def read_nodes(path):
    """The nodes of a file as (operator, inputs, outputs), and the numbers of its tensors by name."""
    with open(path, "rb") as file:
        graph = next(value for place, value in fields(file.read()) if place == 7)
    nodes, tensors = [], {}
    for place, value in fields(graph):
        content = list(fields(value)) if place in (1, 5) else []
        if place == 1:
            nodes.append((next(v for p, v in content if p == 4).decode(), [v.decode() for p, v in content if p == 1],
                          [v.decode() for p, v in content if p == 2]))
        elif place == 5:
            kind = {1: "f", 2: "B", 3: "b", 6: "i", 7: "q"}[next(v for p, v in content if p == 2)]
            data = b"".join(v for p, v in content if p == 9)
            name = next(v for p, v in content if p == 8).decode()
            tensors[name] = struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data)
    return nodes, tensors
