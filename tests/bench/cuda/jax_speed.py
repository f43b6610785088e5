#!/usr/bin/env python3
"""jax_speed: JAX's training steps on a GPU, one batch that stays there, 20 steps in one XLA program: jax_speed.py MODEL BATCH TYPE

TYPE: float32 (products in TF32, JAX's default) or bfloat16. Says "ready" when warm; for each line on standard input then measures for
half a second and prints the seconds of a step.
"""
import sys
import time

import jax
import jax.numpy as jnp
import optax

WINDOW, STEPS = 0.5, 20
SYMBOLS, CONTEXT = 65, 256  # of gpt
STAGES = 64, 128, 256, 512


class Draw:
    """Weights as random numbers of a given deviation."""

    def __init__(self):
        self.key = jax.random.PRNGKey(0)

    def __call__(self, shape, deviation=1.0):
        self.key, key = jax.random.split(self.key)
        return jax.random.normal(key, shape) * deviation


def convolve(x, weight, stride=1):
    return jax.lax.conv_general_dilated(x, weight.astype(x.dtype), (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x, norm):
    wide = x.astype(jnp.float32)
    mean = wide.mean((0, 1, 2))
    variance = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
    return ((wide - mean) * (jax.lax.rsqrt(variance + 1e-5) * norm["scale"]) + norm["shift"]).astype(x.dtype)


def linear(x, layer):
    return x @ layer["weight"].astype(x.dtype) + layer["bias"].astype(x.dtype)


def make_mlp(draw, kind):
    weights = [{"weight": draw((i, o), i ** -0.5), "bias": jnp.zeros(o)} for i, o in ((784, 256), (256, 10))]
    return weights, lambda w, x: linear(jax.nn.relu(linear(x.astype(kind), w[0])), w[1])


def make_resnet18(draw, kind):
    def unit(size, before, channels):
        return {"weight": draw((size, size, before, channels), (size * size * before) ** -0.5),
                "norm": {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}}

    def apply_unit(x, w, stride=1):
        return batch_norm(convolve(x, w["weight"], stride), w["norm"])

    weights = {"stem": unit(3, 3, 64), "blocks": [], "head": {"weight": draw((512, 10), 512 ** -0.5), "bias": jnp.zeros(10)}}
    strides, before = [], 64
    for stage, channels in enumerate(STAGES):
        for block in range(2):
            parts = {"first": unit(3, before, channels), "second": unit(3, channels, channels)}
            if before != channels:
                parts["shortcut"] = unit(1, before, channels)
            weights["blocks"].append(parts)
            strides.append(2 if stage and not block else 1)
            before = channels

    def forward(w, x):
        x = jax.nn.relu(apply_unit(x.astype(kind), w["stem"]))
        for parts, stride in zip(w["blocks"], strides):
            y = apply_unit(jax.nn.relu(apply_unit(x, parts["first"], stride)), parts["second"])
            x = jax.nn.relu(y + (apply_unit(x, parts["shortcut"], stride) if "shortcut" in parts else x))
        return linear(x.mean((1, 2)), w["head"])

    return weights, forward


def layer_norm(x, norm):
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    return (centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * norm["scale"] + norm["shift"]).astype(x.dtype)


def make_blocks(draw, width, depth):
    def dense(i, o):
        return {"weight": draw((i, o), 0.02), "bias": jnp.zeros(o)}

    def norm():
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    return [{"norm1": norm(), "qkv": dense(width, 3 * width), "out": dense(width, width), "norm2": norm(),
             "up": dense(width, 4 * width), "down": dense(4 * width, width)} for _ in range(depth)], norm()


def apply_blocks(x, blocks, heads, causal):
    batch, steps, width = x.shape
    for block in blocks:
        query, key, value = jnp.moveaxis(linear(layer_norm(x, block["norm1"]), block["qkv"]).reshape(batch, steps, 3, heads, -1), 2, 0)
        y = jax.nn.dot_product_attention(query, key, value, is_causal=causal)
        x = x + linear(y.reshape(batch, steps, width), block["out"])
        x = x + linear(jax.nn.gelu(linear(layer_norm(x, block["norm2"]), block["up"]), approximate=False), block["down"])
    return x


def make_vit(draw, kind):
    width, patch = 192, 4
    blocks, norm = make_blocks(draw, width, 12)
    weights = {"patch": draw((patch, patch, 3, width), 0.02), "token": draw((width,), 0.02), "positions": draw((65, width), 0.02),
               "blocks": blocks, "norm": norm, "head": {"weight": draw((width, 10), 0.02), "bias": jnp.zeros(10)}}

    def forward(w, x):
        x = jax.lax.conv_general_dilated(x.astype(kind), w["patch"].astype(kind), (patch, patch), "VALID",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC")).reshape(x.shape[0], -1, width)
        x = jnp.concatenate([jnp.broadcast_to(w["token"].astype(kind), (x.shape[0], 1, width)), x], 1) + w["positions"].astype(kind)
        return linear(layer_norm(apply_blocks(x, w["blocks"], 3, False), w["norm"])[:, 0], w["head"])

    return weights, forward


def make_gpt(draw, kind):
    blocks, norm = make_blocks(draw, 384, 6)
    weights = {"table": draw((SYMBOLS, 384), 0.02), "positions": draw((CONTEXT, 384), 0.02), "blocks": blocks, "norm": norm}

    def forward(w, x):
        x = (w["table"][x] + w["positions"]).astype(kind)
        return layer_norm(apply_blocks(x, w["blocks"], 6, True), w["norm"]) @ w["table"].astype(kind).T

    return weights, forward


def make_lstm(draw, kind):
    weights = {"input": draw((64, 1024), 0.06), "state": draw((256, 1024), 0.06), "bias": jnp.zeros(1024),
               "head": {"weight": draw((256, 10), 0.06), "bias": jnp.zeros(10)}}

    def forward(w, x):
        gates, state = x.astype(kind) @ w["input"].astype(kind) + w["bias"].astype(kind), w["state"].astype(kind)

        def advance(carry, given):
            h, c = carry
            i, f, g, o = jnp.split((given + h @ state).astype(jnp.float32), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return ((jax.nn.sigmoid(o) * jnp.tanh(c)).astype(kind), c), None

        first = jnp.zeros((x.shape[0], 256), kind), jnp.zeros((x.shape[0], 256))
        return linear(jax.lax.scan(advance, first, jnp.moveaxis(gates, 1, 0))[0][0], w["head"])

    return weights, forward


MAKERS = {"mlp": make_mlp, "resnet18": make_resnet18, "vit": make_vit, "gpt": make_gpt, "lstm": make_lstm}
SHAPES = {"mlp": (784,), "resnet18": (32, 32, 3), "vit": (32, 32, 3), "lstm": (100, 64)}


def batch_of(name, batch, draw):
    if name == "gpt":
        symbols = jnp.arange(batch * CONTEXT).reshape(batch, CONTEXT) * 7 % SYMBOLS
        return symbols, (symbols + 7) % SYMBOLS
    return draw((batch, *SHAPES[name])), jnp.arange(batch) % 10


def training(name, batch, kind):
    draw = Draw()
    weights, forward = MAKERS[name](draw, kind)
    samples, labels = batch_of(name, batch, draw)
    optimizer = optax.adamw(1e-3) if name in ("mlp", "vit", "gpt") else optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(0.01, 0.9))

    def loss_of(w):
        return optax.softmax_cross_entropy_with_integer_labels(forward(w, samples).astype(jnp.float32), labels).mean()

    def step(carry, _):
        w, state = carry
        loss, gradients = jax.value_and_grad(loss_of)(w)
        updates, state = optimizer.update(gradients, state, w)
        return (optax.apply_updates(w, updates), state), loss

    run = jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=STEPS), donate_argnums=0)
    return run, (weights, optimizer.init(weights))


class Loop:
    def __init__(self, run, carry):
        self.run, self.carry = run, carry

    def seconds(self, calls):
        begin = time.perf_counter()
        for _ in range(calls):
            self.carry, loss = self.run(self.carry)
        jax.block_until_ready(loss)
        return (time.perf_counter() - begin) / (calls * STEPS)


def main():
    loop = Loop(*training(sys.argv[1], int(sys.argv[2]), getattr(jnp, sys.argv[3])))
    loop.seconds(2)
    calls = max(2, int(WINDOW / (loop.seconds(3) * STEPS)))
    loop.seconds(calls)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(loop.seconds(calls), flush=True)


main()
