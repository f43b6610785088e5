"""dumps_optimizers.py: the dumps of optimizers and of learning-rate schedules, for make_dumps.py."""
import functools
import importlib
import inspect

import torch
from torch import nn

import torch_optimizers
from dumps import random, randomise, state, write

# ---- optimizers --------------------------------------------------------------------------------

class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, arXiv:2302.06675, algorithm 2, with decoupled weight decay."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * update)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class ScheduleFreeAdamW(torch.optim.Optimizer):
    """Defazio et al. 2024, arXiv:2405.15682, algorithm 1, written from the paper: the parameters are y, where gradients are taken;
    z is the base, and x, the model, the mean of all z. The learning rates' largest squares are the weights of the mean, as in the
    authors' AdamWScheduleFree."""

    def __init__(self, parameters, lr, betas, eps, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.steps, self.sum, self.largest = 0, 0.0, 0.0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        self.largest = max([self.largest] + [group["lr"] for group in self.param_groups])
        self.sum += self.largest ** 2
        share = self.largest ** 2 / self.sum
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for y in group["params"]:
                state = self.state[y]
                if not state:
                    state.update(z=y.clone(), x=y.clone(), exp_avg_sq=torch.zeros_like(y))
                z, x, v = state["z"], state["x"], state["exp_avg_sq"]
                v.mul_(beta2).addcmul_(y.grad, y.grad, value=1 - beta2)
                direction = y.grad / ((v / (1 - beta2 ** self.steps)).sqrt() + group["eps"])
                z.sub_(group["lr"] * (direction + group["weight_decay"] * y))
                x.mul_(1 - share).add_(share * z)
                y.copy_((1 - beta1) * z + beta1 * x)


# torch's name of a state: ours
STATES = {"sgd": {"momentum_buffer": "momentum"}, "adam": {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"},
          "adamw": {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"},
          "rmsprop": {"square_avg": "second_moment", "momentum_buffer": "momentum"}, "lion": {"momentum": "momentum"},
          "adagrad": {"sum": "square_sum"}, "adadelta": {"square_avg": "second_moment", "acc_delta": "step_moment"},
          "nadam": {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"}}
STATES["muon"] = {"momentum_buffer": "momentum", **STATES["adamw"]}
STATES["adamax"] = {"exp_avg": "first_moment", "exp_inf": "largest_gradient"}
STATES["amsgrad"] = {**STATES["adam"], "max_exp_avg_sq": "largest_moment"}
STATES["schedule_free_adamw"] = {"z": "base", "x": "average", "exp_avg_sq": "second_moment"}
STATES["lamb"] = STATES["adamw"]
# settings that only some optimizers have; the others' dumps do not mention them
OWN_SETTINGS = {"adagrad": {"learning_rate_decay": 0.0, "initial_square_sum": 0.0},
                "muon": {"iterations": 5, "match_adamw": False},
                "amsgrad": {"decoupled_weight_decay": False},
                "nadam": {"momentum_decay": 4e-3, "decoupled_weight_decay": False}}


def make_optimizer(kind, parameters, lr, **options):
    """Returns the optimizer and its settings as attributes (those of struct optimizer_config)."""
    settings = {"momentum": 0.0, "nesterov": False, "dampening": 0.0, "weight_decay": 0.0, "beta1": 0.9,
                "beta2": 0.99 if kind == "lion" else 0.999, "epsilon": 1e-8, "alpha": 0.99, **OWN_SETTINGS.get(kind, {})}
    assert not set(options) - set(settings)
    settings.update(options)
    s = settings
    betas = (s["beta1"], s["beta2"])
    optimizer = {
        "sgd": lambda: torch.optim.SGD(parameters, lr, s["momentum"], s["dampening"], s["weight_decay"], s["nesterov"]),
        "adam": lambda: torch.optim.Adam(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "adamw": lambda: torch.optim.AdamW(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr, s["alpha"], s["epsilon"], s["weight_decay"],
                                               s["momentum"]),
        "lion": lambda: Lion(parameters, lr, betas, s["weight_decay"]),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr, s["learning_rate_decay"], s["weight_decay"],
                                               s["initial_square_sum"], s["epsilon"]),
        "adadelta": lambda: torch.optim.Adadelta(parameters, lr, s["alpha"], s["epsilon"], s["weight_decay"]),
        "lamb": lambda: torch_optimizers.Lamb(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "adamax": lambda: torch.optim.Adamax(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "amsgrad": lambda: (torch.optim.AdamW if s["decoupled_weight_decay"] else torch.optim.Adam)(
            parameters, lr, betas, s["epsilon"], s["weight_decay"], amsgrad=True),
        "schedule_free_adamw": lambda: ScheduleFreeAdamW(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "muon": lambda: MuonAndAdamW(parameters, lr, s),
        "nadam": lambda: torch.optim.NAdam(parameters, lr, betas, s["epsilon"], s["weight_decay"], s["momentum_decay"],
                                           s["decoupled_weight_decay"]),
    }[kind]()
    attributes = {"attribute/" + key: float(value) for key, value in settings.items()}
    attributes["attribute/optimizer"] = float(list(STATES).index(kind))
    return optimizer, attributes


@functools.cache
def make_muon_exact():
    module = importlib.import_module("torch.optim._muon")
    exact = inspect.getsource(module._zeropower_via_newtonschulz).replace("dtype=torch.bfloat16, ", "dtype=grad.dtype, ")
    assert "bfloat16" not in exact
    exec(exact, module.__dict__)  # pylint: disable=exec-used


class MuonAndAdamW:
    """torch.optim.Muon for the matrices, AdamW for the rest; the iterations in the parameters' precision, not bfloat16."""

    def __init__(self, parameters, lr, settings):
        make_muon_exact()
        parameters = list(parameters)
        adjust = "match_rms_adamw" if settings["match_adamw"] else "original"
        self.matrices = torch.optim.Muon([p for p in parameters if p.dim() == 2], lr, settings["weight_decay"],
                                         settings["momentum"], settings["nesterov"], eps=settings["epsilon"],
                                         ns_steps=settings["iterations"], adjust_lr_fn=adjust)
        self.others = torch.optim.AdamW([p for p in parameters if p.dim() != 2], lr, weight_decay=0.01)
        self.param_groups = self.matrices.param_groups + self.others.param_groups

    @property
    def state(self):
        return {**self.others.state, **self.matrices.state}

    def step(self):
        self.matrices.step()
        self.others.step()


def optimizer_case(name, lr, steps=5, shape=(13, 7), clip_norm=0, clip_value=0, bias=None, average_decay=0, **options):
    """Updates of the parameters of Linear(13, 7) with given gradients; the rate changes on the way. bias: the weight
    decay and the factor of the learning rate that the bias has as a group of its own."""
    torch.manual_seed(sum(map(ord, name)))
    kind = name.split("-")[0]
    chain = nn.Sequential(nn.Linear(*shape)).double()
    randomise(chain)
    tensors = state(chain)
    rates = [lr / 2 ** (step // 2) for step in range(steps)]
    parameters = chain.parameters()
    if bias:
        parameters = [{"params": [chain[0].weight]}, {"params": [chain[0].bias], "weight_decay": bias[0]}]
    optimizer, attributes = make_optimizer(kind, parameters, lr, **options)
    tensors.update(attributes)
    if bias:
        tensors.update({"attribute/bias_weight_decay": bias[0], "attribute/bias_learning_rate_scale": bias[1]})
    clips = {"attribute/clip_norm": clip_norm, "attribute/clip_value": clip_value}
    tensors.update({key: value for key, value in clips.items() if value})
    tensors["attribute/steps"] = len(rates)
    if average_decay:
        tensors["attribute/average_decay"] = average_decay
        averages = torch.optim.swa_utils.AveragedModel(
            chain, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average_decay))
    for step, rate in enumerate(rates, 1):
        for group, scale in zip(optimizer.param_groups, (1, bias[1] if bias else 1), strict=False):
            group["lr"] = rate * scale
        tensors[f"attribute/learning_rate/{step}"] = rate
        for key, parameter in chain.named_parameters():
            parameter.grad = random(*parameter.shape, scale=0.3)
            tensors[f"gradient/{step}/{key}"] = parameter.grad.clone()
        if clip_norm:
            nn.utils.clip_grad_norm_(chain.parameters(), clip_norm)
        if clip_value:
            nn.utils.clip_grad_value_(chain.parameters(), clip_value)
        optimizer.step()
        tensors.update({f"expected/{step}/{key}": value for key, value in state(chain).items()})
        if average_decay:
            averages.update_parameters(chain)
    if average_decay:
        tensors.update({f"expected/state/{key}.average": value for key, value in state(averages.module).items()})
    for key, parameter in chain.named_parameters():
        for theirs, ours in STATES[kind].items():
            if optimizer.state.get(parameter, {}).get(theirs) is not None:
                tensors[f"expected/state/{key}.{ours}"] = optimizer.state[parameter][theirs]
    write("optimizers", name, tensors)


def optimizers():
    optimizer_case("sgd-plain", 0.1)
    optimizer_case("sgd-decay", 0.1, weight_decay=0.05)
    optimizer_case("sgd-momentum", 0.1, momentum=0.9)
    optimizer_case("sgd-dampening", 0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)
    optimizer_case("sgd-nesterov", 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    optimizer_case("adam-plain", 0.01)
    optimizer_case("adam-decay", 0.01, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("adamw-plain", 0.01, weight_decay=0.01)
    optimizer_case("adamw-strong", 0.05, weight_decay=0.5, beta1=0.7, beta2=0.9, epsilon=1e-2)
    optimizer_case("rmsprop-plain", 0.01)
    optimizer_case("rmsprop-momentum", 0.01, momentum=0.9, weight_decay=0.05, alpha=0.9, epsilon=1e-4)
    optimizer_case("lion-plain", 0.01)
    optimizer_case("lion-decay", 0.01, weight_decay=0.3, beta1=0.8, beta2=0.95)
    optimizer_case("adagrad-plain", 0.05, steps=10, epsilon=1e-10)
    optimizer_case("adagrad-decay", 0.05, steps=10, epsilon=1e-3, weight_decay=0.1, learning_rate_decay=0.2,
                   initial_square_sum=0.5)
    optimizer_case("adadelta-plain", 1.0, steps=10, alpha=0.9, epsilon=1e-6)
    optimizer_case("adadelta-decay", 0.5, steps=10, alpha=0.7, epsilon=1e-3, weight_decay=0.1)
    optimizer_case("nadam-plain", 0.02, steps=10)
    optimizer_case("nadam-decay", 0.02, steps=10, weight_decay=0.1, momentum_decay=0.05, beta1=0.8, beta2=0.95,
                   epsilon=1e-3)
    optimizer_case("sgd-clip-value", 0.1, momentum=0.9, weight_decay=0.05, clip_value=0.25)
    optimizer_case("adam-clip-both", 0.01, clip_norm=1.5, clip_value=0.2)
    optimizer_case("adamw-groups", 0.02, weight_decay=0.4, bias=(0.0, 3.0))
    optimizer_case("sgd-groups", 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, bias=(0.3, 0.5))
    optimizer_case("adam-average", 0.05, steps=10, average_decay=0.9)
    optimizer_case("sgd-average", 0.1, steps=10, average_decay=0.3)
    optimizer_case("muon-wide", 0.05, steps=10, momentum=0.95, nesterov=True, weight_decay=0.1, epsilon=1e-7)
    optimizer_case("muon-tall", 0.01, steps=4, shape=(36, 50), momentum=0.9, epsilon=1e-7, match_adamw=True, weight_decay=0.3)
    optimizer_case("adamax-plain", 0.02, steps=10)
    optimizer_case("adamax-decay", 0.02, steps=10, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("amsgrad-plain", 0.02, steps=10, beta2=0.9)
    optimizer_case("amsgrad-decoupled", 0.02, steps=10, weight_decay=0.3, beta2=0.8, decoupled_weight_decay=True)
    optimizer_case("schedule_free_adamw-plain", 0.05, steps=10)
    optimizer_case("schedule_free_adamw-decay", 0.05, steps=10, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("lamb-plain", 0.02, steps=10)
    optimizer_case("lamb-decay", 0.02, steps=10, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("nadam-decoupled", 0.02, steps=10, weight_decay=0.3, decoupled_weight_decay=True)


# ---- schedules ---------------------------------------------------------------------------------

SCHEDULES = ["constant", "cosine", "step", "multi_step", "linear", "polynomial", "one_cycle", "plateau"]


def scheduled(name, kind, make, steps, warmup=0, momentum=False, **attributes):
    """The learning rate (and momentum) of each step; a warm-up as LinearLR in a SequentialLR."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    schedulers = torch.optim.lr_scheduler
    scheduler = make(schedulers, optimizer)
    if warmup:
        rise = schedulers.LinearLR(optimizer, 1 / warmup, 1, max(warmup - 1, 1))
        scheduler = schedulers.SequentialLR(optimizer, [rise, scheduler], [warmup])
    rates, momenta = [], []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        scheduler.step()
    tensors = {"attribute/" + key: float(value) for key, value in attributes.items()}
    tensors.update({"attribute/schedule": float(SCHEDULES.index(kind)), "attribute/warmup_steps": float(warmup),
                    "attribute/learning_rate": 0.1, "attribute/steps": float(steps),
                    "expected/learning_rates": rates})
    if momentum:
        tensors["expected/momenta"] = momenta
    write("schedules", name, tensors)


def plateau(name, metric, values, **options):
    """ReduceLROnPlateau: the learning rate after each measurement."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    mode = "min" if metric.endswith("loss") else "max"
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, **options)
    rates = []
    for value in values:
        scheduler.step(value)
        rates.append(optimizer.param_groups[0]["lr"])
    tensors = {"attribute/" + key: float(value) for key, value in
               {"factor": 0.1, "patience": 10, "threshold": 1e-4, "cooldown": 0, "min_lr": 0, **options,
                "threshold_mode": options.get("threshold_mode", "rel") == "rel"}.items()}
    tensors.update({"attribute/schedule": float(SCHEDULES.index("plateau")), "attribute/learning_rate": 0.1,
                    "attribute/maximises": float(mode == "max"), "values": list(values),
                    "expected/learning_rates": rates})
    write("schedules", name, tensors)


def schedules():
    scheduled("constant-warmup", "constant", lambda s, o: s.ConstantLR(o, 1, 1), 12, warmup=5)
    for warmup, suffix in ((0, ""), (4, "-warmup")):
        scheduled("cosine" + suffix, "cosine", lambda s, o: s.CosineAnnealingLR(o, 20, eta_min=0.01), 20 + warmup, warmup,
                  total_steps=20 + warmup, minimum=0.01)
        scheduled("step" + suffix, "step", lambda s, o: s.StepLR(o, 3, gamma=0.3), 16, warmup, every_steps=3, factor=0.3)
        scheduled("multi_step" + suffix, "multi_step", lambda s, o: s.MultiStepLR(o, [2, 5, 11], gamma=0.2), 18, warmup,
                  factor=0.2, milestone_0=2, milestone_1=5, milestone_2=11)
        scheduled("linear" + suffix, "linear", lambda s, o: s.LinearLR(o, 1, 0.25, 15), 15 + warmup, warmup,
                  total_steps=15 + warmup, minimum=0.025)
        scheduled("polynomial" + suffix, "polynomial", lambda s, o: s.PolynomialLR(o, 15, power=1.7), 15 + warmup, warmup,
                  total_steps=15 + warmup, power=1.7)
    cycle = {"rise": 0.3, "start_divisor": 25, "end_divisor": 1e4, "lowest_momentum": 0.85, "highest_momentum": 0.95}
    scheduled("one_cycle", "one_cycle", lambda s, o: s.OneCycleLR(o, 0.1, 31), 31, momentum=True, total_steps=31, **cycle)
    cycle.update(rise=0.45, start_divisor=10, end_divisor=50, lowest_momentum=0.6, highest_momentum=0.9)
    scheduled("one_cycle-linear", "one_cycle",
              lambda s, o: s.OneCycleLR(o, 0.1, 20, pct_start=0.45, anneal_strategy="linear", div_factor=10,
                                        final_div_factor=50, base_momentum=0.6, max_momentum=0.9),
              20, momentum=True, total_steps=20, linear=1, **cycle)
    torch.manual_seed(3)
    falling = [1 / (i + 1) + 0.05 * torch.rand(1).item() for i in range(40)]
    flat = [0.5 + 0.02 * torch.rand(1).item() for _ in range(40)]
    plateau("plateau-falling", "validation_loss", falling, factor=0.5, patience=2, threshold=0.02)
    plateau("plateau-cooldown", "validation_loss", flat, factor=0.3, patience=1, cooldown=3, min_lr=0.004)
    plateau("plateau-absolute", "validation_loss", falling, factor=0.5, patience=0, threshold=0.01, threshold_mode="abs")
    plateau("plateau-accuracy", "validation_accuracy", [1 - value for value in falling + flat], factor=0.5, patience=3,
            threshold=0.01)
    plateau("plateau-nan", "validation_loss", [float("nan"), 1.0, float("nan"), float("nan"), 0.9, 0.8, 0.8, 0.8], factor=0.5,
            patience=1)
