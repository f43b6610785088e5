"""Optimizers that PyTorch has not, written from their papers."""
import torch


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, arXiv:1904.00962, algorithm 2, with the norm itself as its phi. A parameter or a direction of norm 0 has
    the ratio 1."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                direction = m / (1 - beta1 ** state["step"]) / ((v / (1 - beta2 ** state["step"])).sqrt() + group["eps"])
                direction += group["weight_decay"] * p
                ratio = p.norm() / direction.norm() if p.norm() > 0 and direction.norm() > 0 else 1.0
                p.sub_(group["lr"] * ratio * direction)
