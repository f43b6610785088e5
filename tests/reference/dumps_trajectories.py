"""dumps_trajectories.py: the dumps of some training steps of whole models, for make_dumps.py."""
import copy

import torch
from torch import nn

import torch_models
import torch_sequence_models
from dumps import loss_of, random, state, write
from dumps_optimizers import make_optimizer

STEPS = 10
EXPECTED_ELEMENTS_MAX = 2000  # the losses behind an update tell of larger tensors; dumps stay small


def autocast_losses(chain, batches, optimizer, lr, **options):
    """What the steps on the batches lose under torch.autocast in bfloat16, with the weights in float32. Tells something
    of models alone whose losses do not blow small differences up, as those of tiny batches under batch norm do."""
    chain = chain.float()
    optimizer, _ = make_optimizer(optimizer, chain.parameters(), lr, **options)
    losses = []
    for x, t in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = chain(x.float())
        loss = loss_of(y.float(), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def least_relu_input(chain, x):
    """How near to 0 a ReLU of the module gets, of all that it reads. The module's statistics stay as they are."""
    least = []

    def look(_, inputs):
        least.append(inputs[0].abs().min().item())

    probe = copy.deepcopy(chain)
    for module in probe.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_pre_hook(look)
    with torch.no_grad():
        probe(x)
    return min(least)


def trajectory(name, chain, samples, targets, optimizer, lr, average_decay=0, autocast=False, relu_margin=0, **options):
    """Ten training steps, each with a batch of its own; then the loss on the first batch in evaluation mode, of the moving
    averages where they are kept. samples, targets: functions of the number of the step. relu_margin: a batch is drawn
    again while a ReLU reads a number nearer to 0 than this, where rounding would decide whether its gradient is passed."""
    torch.manual_seed(sum(map(ord, name)))
    chain.double().train()
    tensors = state(chain.float())  # PyTorch's own initial weights
    chain.double()
    chain.load_state_dict({key: value.double() for key, value in tensors.items()}, strict=False)
    kind, initial = optimizer, copy.deepcopy(chain)
    optimizer, attributes = make_optimizer(kind, chain.parameters(), lr, **options)
    tensors.update(attributes)
    tensors["attribute/steps"] = STEPS
    tensors["attribute/learning_rate"] = lr
    if average_decay:
        tensors["attribute/average_decay"] = average_decay
        averages = torch.optim.swa_utils.AveragedModel(
            chain, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average_decay), use_buffers=True)
    losses, batches = [], []
    for step in range(1, STEPS + 1):
        x = samples(step)
        while relu_margin and least_relu_input(chain, x) < relu_margin:
            x = samples(step)
        t = targets(step, x)
        batches.append((x, t))
        tensors[f"samples/{step}"] = x
        tensors[f"target/{step}"] = t
        if getattr(chain, "has_lengths", False):
            tensors[f"lengths/{step}"] = chain.lengths_of(x).int()
        optimizer.zero_grad()
        loss = loss_of(chain(x), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if average_decay:
            averages.update_parameters(chain)
    evaluated = (averages.module if average_decay else chain).eval()
    tensors["expected/evaluation_loss"] = loss_of(evaluated(batches[0][0]), batches[0][1]).item()
    if average_decay:
        tensors.update({"expected/average/" + key: value for key, value in state(evaluated).items()})
    tensors["expected/losses"] = losses
    if autocast:
        tensors["expected/autocast_losses"] = autocast_losses(initial, batches, kind, lr, **options)
    tensors.update({"expected/" + key: value for key, value in state(chain).items()
                    if value.numel() <= EXPECTED_ELEMENTS_MAX})
    print(f"{name:20} {losses[0]:9.5f} -> {losses[-1]:9.5f}")
    write("trajectories", name, tensors)


def small_images(_):
    return random(8, 3, 12, 12)


def brightest(_, x):
    return (x.mean((1, 2, 3)) * 30 + 1.5).clamp(0, 2).int()


def trajectories():
    torch.manual_seed(7)
    prototypes = random(5, 20)

    def vectors(_):
        return (random(16, 20) + prototypes[torch.randint(0, 5, (16,))]).float().double()

    def nearest(_, x):
        return (x @ prototypes.T).argmax(1).int()

    def mlp(normalised):
        layers = []
        for wide, narrow in ((20, 24), (24, 16)):
            layers += [nn.Linear(wide, narrow)] + [nn.BatchNorm1d(narrow)] * normalised + [nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(16, 5))

    trajectory("mlp", mlp(False), vectors, nearest, "sgd", 0.1, momentum=0.9, autocast=True)
    # A bias before batch normalisation has no gradient but for rounding; an epsilon above that keeps the update from
    # magnifying it.
    trajectory("mlp-batch-norm", mlp(True), vectors, nearest, "adamw", 0.01, weight_decay=0.01, epsilon=1e-3,
               autocast=True)

    def images(_):
        return random(8, 2, 11, 11)

    def cnn(normalised):
        layers = []
        for narrow, wide in ((2, 6), (6, 8)):
            layers += [nn.Conv2d(narrow, wide, 3, padding=1)] + [nn.BatchNorm2d(wide)] * normalised
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Flatten(), nn.Linear(32, 12)] + [nn.BatchNorm1d(12)] * normalised + [nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(12, 3))

    trajectory("cnn", cnn(False), images, brightest, "adam", 0.005, autocast=True)
    trajectory("cnn-batch-norm", cnn(True), images, brightest, "sgd", 0.05, momentum=0.9, nesterov=True)

    trajectory("cnn-average", cnn(True), images, brightest, "adamw", 0.02, average_decay=0.8, epsilon=1e-3)

    def contexts(_):
        return torch.randint(0, 13, (24, 4)).int()

    def following(_, x):
        return (x[:, -1] * 2 + 1) % 13

    trajectory("char_mlp", nn.Sequential(nn.Embedding(13, 6), nn.Flatten(), nn.Linear(24, 32), nn.Tanh(),
                                         nn.Linear(32, 13)), contexts, following, "rmsprop", 0.003, momentum=0.5)

    def smooth(_, x):
        return torch.stack((x[:, 0] * x[:, 1], torch.sin(x[:, 2])), 1).float().double()

    trajectory("regression", nn.Sequential(nn.Linear(6, 18), nn.GELU(), nn.Linear(18, 18), nn.SiLU(),
                                           nn.Linear(18, 2)), lambda _: random(20, 6), smooth, "lion", 0.003,
               weight_decay=0.1)

    torch.manual_seed(18)

    trajectory("resnet18", torch_models.resnet18(3, width=0.0625), small_images, brightest, "sgd", 0.02, momentum=0.9,
               weight_decay=5e-4, relu_margin=2e-5)
    torch.manual_seed(19)
    trajectory("mobilenet_v3_small", torch_models.mobilenet_v3_small(3, width=0.125, stem_stride=1, dropout=0.0),
               small_images, brightest, "sgd", 0.02, momentum=0.9)
    # Its first gradients are some 200 long, and the loss so curved that with larger steps PyTorch's own float32 and float64
    # part after a few.
    torch.manual_seed(20)
    trajectory("efficientnet_b0", torch_models.efficientnet_b0(3, channels=1, width=0.0625, stem_stride=1, dropout=0.0,
                                                               stochastic_depth=0.0),
               lambda _: random(16, 1, 20, 20), brightest, "sgd", 2e-5, momentum=0.9)
    recurrent_trajectories()


def recurrent_trajectories():
    """Numbers; and symbols of sequences of several lengths, which symbol 12 fills up."""
    def numbers(_):
        return random(12, 9, 5)

    def rising(_, x):
        return (x[:, -3:].mean((1, 2)) * 4 + 1.5).clamp(0, 2).int()

    def symbols(_):
        x = torch.randint(0, 12, (12, 9))
        lengths = torch.randint(1, 10, (12,))
        lengths[0] = 9
        x[torch.arange(9)[None] >= lengths[:, None]] = 12
        return x.int()

    def first(_, x):
        return x[:, 0] % 3

    for kind in ("lstm", "gru"):
        torch.manual_seed(21)
        trajectory(kind, torch_models.Recurrent(kind, 3, 5, 19), numbers, rising, "sgd", 0.5, momentum=0.9)
        torch.manual_seed(22)
        trajectory(kind + "-bidirectional", torch_models.Recurrent(kind, 3, 6, 17, 2, True, 13), symbols, first, "sgd", 0.5,
                   momentum=0.9)
        torch.manual_seed(23)
        trajectory(kind + "-mean", torch_models.Recurrent(kind, 3, 6, 17, 2, False, 13, True), symbols, first, "sgd", 0.5,
                   momentum=0.9)

    def texts(_):
        return torch.randint(0, 11, (6, 9)).int()

    def next_symbols(step, x):
        target = torch.cat([x[:, 1:], x[:, :1]], 1) * 3 % 11
        if step > 5:
            target[1:3, 4:] = -1  # as of a shorter sequence: these do not count
        return target.int()

    small = {"context": 9, "embedding": 24, "depth": 2, "heads": 3}
    torch.manual_seed(21)
    trajectory("gpt", torch_models.gpt(11, **small), texts, next_symbols, "adamw", 0.003, weight_decay=0.1,
               epsilon=1e-3)  # the gradient by a key's bias is rounding alone
    torch.manual_seed(22)
    trajectory("gpt-rotary", torch_models.gpt(11, **small, rotary=True), texts, next_symbols, "sgd", 0.1, momentum=0.9)
    patches = {"size": 12, "patch": 4, "embedding": 24, "depth": 2, "heads": 3, "mlp_ratio": 2}
    torch.manual_seed(23)
    trajectory("vit", torch_models.vit(3, **patches), small_images, brightest, "sgd", 0.05, momentum=0.9)
    torch.manual_seed(24)
    trajectory("vit-mean", torch_models.vit(3, channels=2, **patches, mean=True), lambda _: random(8, 2, 12, 12), brightest,
               "sgd", 0.05, momentum=0.9)
    carried_trajectories()
    lengths_trajectories()
    sequence_trajectories()


def lengths_trajectories():
    """Sequences of 1 to 9 steps of numbers."""
    def numbers(_):
        x = random(12, 9, 5)
        x[torch.arange(9)[None] >= torch.randint(1, 10, (12,))[:, None]] = 0
        return x

    def rising(_, x):
        return (x.sum((1, 2)) + 1.5).clamp(0, 2).int()

    for kind in ("lstm", "gru"):
        torch.manual_seed(26)
        trajectory(kind + "-lengths", torch_models.Recurrent(kind, 3, 5, 13, 2, True, mean=kind == "gru", has_lengths=True),
                   numbers, rising, "sgd", 0.5, momentum=0.9)


def carried_trajectories():
    """Six streams of a text, in windows end to end: truncated back-propagation through time."""
    window, streams = 5, 6
    for kind in ("lstm", "gru"):
        torch.manual_seed(25)
        text = torch.randint(0, 11, (streams, STEPS * window + 1))
        text[:, 2:] = (text[:, 1:-1] + 3 * text[:, :-2] + (text[:, 2:] == 0)) % 11  # what comes depends on what was

        def part(step, behind):
            return text[:, (step - 1) * window + behind:step * window + behind].int()

        trajectory(kind + "-carried", torch_models.Carried(kind, 11, 6, 17, 2), lambda step: part(step, 0),
                   lambda step, _: part(step, 1), "sgd", 0.5, momentum=0.9)


def sequence_trajectories():
    """Models over nucleotides: A C G T N and a padding."""
    def sequences(_):
        return torch.randint(0, 5, (12, 22)).int()

    def rich(_, x):
        return ((x == 1) | (x == 2)).sum(1).clamp(7, 9).sub(7).int()

    torch.manual_seed(31)
    trajectory("text_cnn", torch_sequence_models.TextCnn(3, 6, embedding=7, filters=5, kernels=[3, 6], hidden=[8]),
               sequences, rich, "adam", 0.01)
    for flatten in (True, False):
        torch.manual_seed(32)
        trajectory("dna_cnn" + "-max" * (not flatten),
                   torch_sequence_models.DnaCnn(3, 6, 22, embedding=4, channels=[16, 9], kernels=[5, 4], hidden=[8],
                                                flatten=flatten),
                   sequences, rich, "sgd", 0.05, momentum=0.9)
    padded_trajectories()
    for name, options in (("caduceus", {}), ("caduceus-layer-norm", {"layer_norm": True}),
                          ("caduceus-one-strand", {"reverse_complement": False}), ("caduceus-max", {"pooling": "max"}),
                          ("caduceus-flatten", {"reverse_complement": False, "pooling": "flatten", "length": 22})):
        torch.manual_seed(33)
        trajectory(name, torch_sequence_models.Caduceus(3, 6, embedding=20, depth=2, states=5, **options), sequences, rich,
                   "adamw", 0.01, epsilon=1e-3, weight_decay=0.01)


def padded_trajectories():
    """Sequences of 1 to 22 nucleotides, which symbol 5 fills up."""
    def sequences(_):
        x = torch.randint(0, 5, (12, 22))
        lengths = torch.randint(1, 23, (12,))
        x[torch.arange(22)[None] >= lengths[:, None]] = 5
        return x.int()

    def rich(_, x):
        return (((x == 1) | (x == 2)).sum(1) * 5 // (x != 5).sum(1)).clamp(1, 3).sub(1).int()

    torch.manual_seed(34)
    trajectory("text_cnn-padded", torch_sequence_models.TextCnn(3, 6, embedding=7, filters=5, kernels=[3, 6], hidden=[8],
                                                                padding=5), sequences, rich, "sgd", 0.1, momentum=0.9)
    trajectory("dna_cnn-padded", torch_sequence_models.DnaCnn(3, 6, 22, embedding=4, channels=[16, 9], kernels=[5, 4], hidden=[8],
                                                              flatten=False, padding=5), sequences, rich, "sgd", 0.05,
               momentum=0.9)
