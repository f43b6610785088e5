"""quantization_onnxruntime.py: onnxruntime's side of quantization: float32 and each way to make a model integers of 8 bits.

    quantization_onnxruntime.py MODEL.onnx dynamic|static THREADS BATCH SHAPE

SHAPE is a sample's, such as 1x28x28. The first line of output has the version, the next ones answer a line of input each, with the least
seconds of every way for one sample and for a batch. Ways that onnxruntime refuses are left out, and those that take more than twice as
long as the fastest one. Static ways are calibrated with 64 random samples.
"""
import itertools
import json
import os
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
import numpy
import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization import shape_inference

WAY_SECONDS = 0.25
SLOW = 2  # times as long as the fastest way of integers


class Samples(quantization.CalibrationDataReader):
    def __init__(self, name, data):
        self.batches = iter([{name: data[i:i + 16]} for i in range(0, len(data), 16)])

    def get_next(self):
        return next(self.batches, None)


def write_dynamic(model, folder):
    """All ways of quantize_dynamic that can differ in speed: signs of weights, a scale for each channel."""
    for sign, channels in itertools.product([quantization.QuantType.QInt8, quantization.QuantType.QUInt8], [False, True]):
        path = f"{folder}/dynamic-{sign}-{channels}.onnx"
        quantization.quantize_dynamic(model, path, weight_type=sign, per_channel=channels)
        yield f"{'channels' if channels else 'tensor'} {sign}", path


def write_static(model, folder, name, data):
    for form, sign in itertools.product(quantization.QuantFormat, [quantization.QuantType.QUInt8, quantization.QuantType.QInt8]):
        path = f"{folder}/static-{form}-{sign}.onnx"
        quantization.quantize_static(model, path, Samples(name, data), quant_format=form, activation_type=sign,
                                     weight_type=quantization.QuantType.QInt8, per_channel=True)
        yield f"{form} {sign}", path


def open_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def open_ways(path, method, threads, shape, folder):
    """The sessions of float32 and of each quantized form that runs."""
    prepared, random = folder + "/prepared.onnx", numpy.random.default_rng(0)
    ways = {"float32": open_session(path, threads)}
    name = ways["float32"].get_inputs()[0].name
    data = random.standard_normal((64, *shape), dtype=numpy.float32)
    try:
        shape_inference.quant_pre_process(path, prepared, skip_symbolic_shape=True)
    except Exception:
        onnx.save(onnx.load(path), prepared)
    forms = write_dynamic(prepared, folder) if method == "dynamic" else write_static(prepared, folder, name, data)
    while True:
        try:
            key, form = next(forms)
            session = open_session(form, threads)
            session.run(None, {name: data[:1]})
            ways["int8 " + key] = session
        except StopIteration:
            return name, ways
        except Exception as error:
            print("quantization_onnxruntime:", str(error).splitlines()[0], file=sys.stderr)


def time_way(session, feed):
    begin = time.perf_counter()
    session.run(None, feed)
    return time.perf_counter() - begin


def drop_slow(ways, feed):
    """Leaves float32 and the ways of integers that are worth their time."""
    seconds = {way: min(time_way(session, feed) for _ in range(3)) for way, session in ways.items()}
    least = min((taken for way, taken in seconds.items() if way != "float32"), default=0)
    return {way: session for way, session in ways.items() if way == "float32" or seconds[way] <= SLOW * least}


def main():
    path, method = sys.argv[1:3]
    threads, batch = map(int, sys.argv[3:5])
    shape = [int(extent) for extent in sys.argv[5].split("x")]
    random = numpy.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        name, ways = open_ways(path, method, threads, shape, folder)
        ways = drop_slow(ways, {name: random.standard_normal((batch, *shape), dtype=numpy.float32)})
        print(json.dumps(onnxruntime.__version__), flush=True)
        for _ in sys.stdin:
            times = {}
            for count in {1, batch}:
                x = {name: random.standard_normal((count, *shape), dtype=numpy.float32)}
                end, first = time.monotonic() + WAY_SECONDS * len(ways), True
                while first or time.monotonic() < end:
                    for way, session in ways.items():
                        seconds = time_way(session, x)
                        key = f"{way}/{count}"
                        times[key] = min(times.get(key, seconds), seconds)
                    first = False
            print(json.dumps(times), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
