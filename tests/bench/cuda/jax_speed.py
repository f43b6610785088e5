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


def training(name, batch, kind):
    draw = Draw()
    weights, forward = make_mlp(draw, kind) if name == "mlp" else make_resnet18(draw, kind)
    samples = draw((batch, 784) if name == "mlp" else (batch, 32, 32, 3))
    labels = jnp.arange(batch) % 10
    optimizer = optax.adamw(1e-3) if name == "mlp" else optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(0.01, 0.9))

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
