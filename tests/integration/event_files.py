"""event_files: reads TensorBoard's event files without TensorBoard: the records, their checksums, and the few fields of
Event that traind writes."""
import glob
import os
import struct


def checksum(data):
    """CRC-32C bit by bit, masked as TFRecord has it."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(content):
    """The content of each record; fails where one is damaged or cut."""
    at = 0
    while at < len(content):
        assert at + 12 <= len(content)
        length, sum_of_length = struct.unpack_from("<QI", content, at)
        assert sum_of_length == checksum(content[at:at + 8])
        assert at + 16 + length <= len(content)
        record = content[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", content, at + 12 + length)[0] == checksum(record)
        yield record
        at += length + 16


def fields(message):
    """{number of a field: [values]} of a message of Protocol Buffers."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 2: None, 5: 4}[kind]
            size = varint() if size is None else size
            value = message[at:at + size]
            assert len(value) == size
            at += size
        found.setdefault(tag >> 3, []).append(value)
    return found


def events(folder):
    """The events of the one file in a run's folder, as (kind, step, …): ("scalar", step, tag, value, time),
    ("text", 0, tag, text), ("hparams", 0, tag, plugin data), ("restart", step), ("mark", 0, text)."""
    file, = glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*"))
    with open(file, "rb") as opened:
        content = opened.read()
    for number, record in enumerate(records(content)):
        event = fields(record)
        time, = struct.unpack("<d", event[1][0])
        step = event.get(2, [0])[0]
        if number == 0:
            assert event[3] == [b"brain.Event:2"]
        elif 6 in event:
            yield "mark", step, fields(event[6][0])[2][0].decode()
        elif 7 in event:
            assert fields(event[7][0]) == {1: [1]}
            yield "restart", step
        else:
            value = fields(fields(event[5][0])[1][0])
            tag = value[1][0].decode()
            if 2 in value:
                yield "scalar", step, tag, struct.unpack("<f", value[2][0])[0], time
            else:
                plugin = fields(fields(value[9][0])[1][0])
                name = plugin[1][0].decode()
                if name == "text":
                    yield name, step, tag, fields(value[8][0])[8][0].decode()
                else:
                    yield name, step, tag, plugin[2][0]


def scalars(folder):
    """[(tag, step, value)] in the order of the file."""
    return [(event[2], event[1], event[3]) for event in events(folder) if event[0] == "scalar"]


def hyperparameters(folder):
    """{name: value} of the plugin hparams."""
    start, = [event[3] for event in events(folder) if event[2] == "_hparams_/session_start_info"]
    found = {}
    for entry in fields(fields(start)[3][0]).get(1, []):
        entry = fields(entry)
        (kind, (value,)), = fields(entry[2][0]).items()
        found[entry[1][0].decode()] = {2: lambda value: struct.unpack("<d", value)[0], 3: bytes.decode, 4: bool}[kind](value)
    return found
