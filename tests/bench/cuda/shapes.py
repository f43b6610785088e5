"""shapes.py: small convolution stacks that a seeded generator draws, as specifications of models: shapes for which
nothing was tuned."""
import random

CLASSES = 10
MULTIPLICATIONS_MAX = 4e11  # of a step's forward part: some milliseconds of an H200
FEATURES_MAX = 32768        # that a linear layer reads
ACTIVATIONS = "relu", "relu", "relu", "silu", "hardswish", "gelu"
PRECISIONS = "bfloat16", "bfloat16", "tf32", "float32"


def spread(extent, kernel, layer):
    """How much of an axis remains after a window."""
    return (extent + 2 * layer["padding"] - layer.get("dilation", 1) * (kernel - 1) - 1) // layer["stride"] + 1


def draw_convolution(draw, channels, height, width):
    """(layer, its results' channels, height, width), or None: the window is larger than the images."""
    kernel = draw.choice((1, 3, 3, 3, 5, 7))
    dilation = draw.choice((1, 1, 1, 2, 3)) if kernel > 1 else 1
    outputs = draw.choice((draw.randint(1, 256), 8 * draw.randint(1, 32), 1 << draw.randint(3, 8)))
    groups = draw.choice((1, 1, 1, 1, "some", "each"))
    if groups == "each":
        groups, outputs = channels, channels
    elif groups == "some":
        groups = draw.choice([g for g in range(1, channels + 1) if channels % g == 0 and g <= 32])
        outputs = max(groups, outputs // groups * groups)
    layer = {"type": "conv2d", "channels": outputs, "kernel": kernel, "stride": draw.choice((1, 1, 1, 2)),
             "padding": draw.choice((dilation * (kernel // 2), dilation * (kernel // 2), 0)), "dilation": dilation, "groups": groups}
    rows, columns = spread(height, kernel, layer), spread(width, kernel, layer)
    return (layer, outputs, rows, columns) if rows > 0 and columns > 0 else None


def draw_stack(draw):
    """(layers, sample, batch, multiplications of the forward part, numbers that the largest result has)"""
    channels, height = draw.choice((1, 3, 3, 4, 12)), draw.choice((16, 24, 28, 32, 32, 40, 64))
    width = draw.choice((height, height, height, height // 2))
    sample, batch = [channels, height, width], draw.choice((32, 64, 100, 128, 256, 512))
    layers, multiplications, largest = [], 0, 0
    for _ in range(draw.randint(2, 5)):
        drawn = draw_convolution(draw, channels, height, width)
        if not drawn:
            continue
        layer, outputs, height, width = drawn
        multiplications += batch * height * width * outputs * channels // layer["groups"] * layer["kernel"] ** 2
        channels = outputs
        largest = max(largest, batch * channels * height * width)
        normalised = draw.random() < 0.4
        layers.append(dict(layer, bias=not normalised))
        layers += [{"type": "batch_norm"}] if normalised else []
        layers.append({"type": draw.choice(ACTIVATIONS)})
        if draw.random() < 0.15:
            layers.append({"type": "squeeze_excite", "squeeze": max(1, channels // 4)})
        if draw.random() < 0.4 and min(height, width) >= 4:
            layers.append({"type": draw.choice(("max_pool2d", "max_pool2d", "average_pool2d")), "kernel": 2})
            height, width = height // 2, width // 2
    if draw.random() < 0.4 or channels * height * width > FEATURES_MAX:
        layers.append({"type": "global_average_pool2d"})
        height = width = 1
    layers.append({"type": "flatten"})
    features = channels * height * width
    for _ in range(draw.choice((0, 0, 1, 2))):
        outputs = draw.choice((64, 100, 128, 256, 512, 1000, 1024))
        layers += [{"type": "linear", "features": outputs}, {"type": "relu"}]
        multiplications += batch * features * outputs
        features = outputs
    layers.append({"type": "linear", "features": CLASSES})
    return layers, sample, batch, multiplications + batch * features * CLASSES, largest


def draw_cases(count, seed):
    """[(name, model, sample, batch, precision)]"""
    draw, cases = random.Random(seed), []
    while len(cases) < count:
        layers, sample, batch, multiplications, largest = draw_stack(draw)
        precision = draw.choice(PRECISIONS)
        if multiplications > MULTIPLICATIONS_MAX * (0.1 if precision == "float32" else 1) or largest > 2**28:
            continue
        cases.append((f"shape {seed}.{len(cases)} b{batch} {precision}", {"name": "layers", "layers": layers}, sample, batch, precision))
    return cases


def describe(model):
    """The layers in one line: "c64k3 bn relu max2 … f10"."""
    words = []
    for layer in model["layers"]:
        word = {"conv2d": "c{channels}k{kernel}", "linear": "f{features}", "max_pool2d": "max{kernel}", "average_pool2d": "mean{kernel}",
                "batch_norm": "bn", "global_average_pool2d": "gap", "squeeze_excite": "se{squeeze}", "flatten": ""}.get(layer["type"], layer["type"])
        word = word.format(**layer)
        for key, letter, plain in ("stride", "s", 1), ("padding", "p", None), ("dilation", "d", 1), ("groups", "g", 1):
            if layer["type"] == "conv2d" and layer[key] != plain:
                word += f"{letter}{layer[key]}"
        words += [word] if word else []
    return " ".join(words)
