"""The shipped examples written once more with torch, from their papers: what each should compute.

A witness gives the outputs of its block for parameters and inputs by their names in the diagram.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch.nn import functional

Tensor: TypeAlias = Any
Tensors: TypeAlias = Mapping[str, Tensor]


def below(params: Tensors, path: str) -> dict[str, Tensor]:
    """The parameters of a call, without its path."""
    return {n.removeprefix(f"{path}."): p for n, p in params.items() if n.startswith(f"{path}.")}


def lstm(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    cell = below(params, "lstm.cell")
    outer = len(cell["b"]) // 4
    inner = len(cell["W"]) - outer
    module: Any = torch.nn.LSTM(inner, outer, batch_first=True, dtype=torch.float64)
    state = {
        "weight_ih_l0": cell["W"][:inner].T,
        "weight_hh_l0": cell["W"][inner:].T,
        "bias_ih_l0": cell["b"],
        "bias_hh_l0": torch.zeros(4 * outer, dtype=torch.float64),
    }
    _, (last, _) = torch.func.functional_call(module, state, given["X"])
    z = (last[0] @ params["W"] + params["b"])[:, 0]
    return {"z": z, "loss": functional.mse_loss(z, given["t"])}


def _norm(x: Tensor, params: Tensors, place: str) -> Tensor:
    return functional.layer_norm(
        x, x.shape[-1:], params[f"gamma{place}"], params.get(f"beta{place}")
    )


def _mlp(x: Tensor, params: Tensors, form: str = "none") -> Tensor:
    up = functional.linear(x, params["W_up"].T, params.get("b_up"))
    return functional.linear(
        functional.gelu(up, approximate=form), params["W_down"].T, params.get("b_down")
    )


def mixer(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    """Patches by a convolution whose stride is its kernel."""
    size = 4
    channels, (rows, width) = given["I"].shape[1], params["W_P"].shape
    assert rows == size * size * channels
    kernel = params["W_P"].T.reshape(width, size, size, channels).permute(0, 3, 1, 2)
    x = functional.conv2d(given["I"], kernel, params["b_P"], stride=size).flatten(2).transpose(1, 2)
    for number in range(2):
        layer = below(params, f"layers.{number}")
        mixed = _mlp(_norm(x, layer, "_1").transpose(1, 2), below(layer, "patches"))
        x = x + mixed.transpose(1, 2)
        x = x + _mlp(_norm(x, layer, "_2"), below(layer, "channels"))
    z = _norm(x, params, "").mean(1) @ params["W_C"] + params["b_C"]
    return {"Z": z, "loss": functional.cross_entropy(z, given["t"])}


def _seen(x: Tensor, edges: Tensor, params: Tensors) -> Tensor:
    """One node after the other, over the nodes that it sees."""
    heads, width = params["a"].shape
    q = (x @ params["W_q"]).unflatten(-1, (heads, width))
    k = (x @ params["W_k"]).unflatten(-1, (heads, width))
    graphs: list[torch.Tensor] = []
    for graph in range(len(x)):
        nodes: list[torch.Tensor] = []
        for node in range(x.shape[1]):
            others = k[graph, edges[graph, node] == 1]  # [seen, heads, width]
            pairs = functional.leaky_relu(q[graph, node] + others, 0.2)
            weights = torch.softmax((pairs * params["a"]).sum(-1), 0)
            nodes.append((weights[..., None] * others).sum(0).flatten())
        graphs.append(torch.stack(nodes))
    return torch.stack(graphs)


def graph_attention(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    hidden = functional.elu(_seen(given["X"], given["A"], below(params, "hidden")) + params["b"])
    z = _seen(hidden, given["A"], below(params, "out")) + params["c"]
    rows = functional.cross_entropy(z.flatten(0, 1), given["t"].flatten(), reduction="none")
    w = given["w"].flatten()
    return {"Z": z, "loss": (rows * w).sum() / w.sum()}


def _heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, count: int, *, causal: bool = False) -> Tensor:
    parts = (_heads(part, count) for part in (q, k, v))
    return (
        functional.scaled_dot_product_attention(*parts, is_causal=causal).transpose(1, 2).flatten(2)
    )


def _attention(
    x: Tensor, m: Tensor, params: Tensors, count: int, *, causal: bool = False
) -> Tensor:
    q, k, v = (
        y @ params[f"W_{name}"] + params[f"b_{name}"] for name, y in (("Q", x), ("K", m), ("V", m))
    )
    return _attend(q, k, v, count, causal=causal) @ params["W_O"] + params["b_O"]


def lora(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    """With the product of the narrow matrices added to the wide one: as it is merged."""
    length, heads = given["ids"].shape[1], 2
    x = params["E"][given["ids"]] + params["P"][:length]
    for number in range(2):
        layer = below(params, f"layers.{number}")
        attn = below(layer, "attn")
        query, value = (below(attn, name) for name in ("query", "value"))
        q, v = (m["W"] + 8 / m["A"].shape[1] * m["A"] @ m["Z"] for m in (query, value))
        h = _norm(x, layer, "_1")
        o = _attend(h @ q, h @ attn["W_K"], h @ v, heads, causal=True)
        x = x + o @ attn["W_O"]
        x = x + _mlp(_norm(x, layer, "_2"), layer, "tanh")
    z = _norm(x, params, "") @ params["E"].T
    return {"Z": z, "loss": functional.cross_entropy(z.flatten(0, 1), given["t"].flatten())}


def _sinusoid(length: int, width: int) -> Tensor:
    place = torch.arange(length, dtype=torch.float64)[:, None]
    pair = (torch.arange(width) // 2).double()[None]
    angle = place / 10000 ** (2 * pair / width)
    even = torch.arange(width)[None] % 2 == 0
    return torch.where(even, torch.sin(angle), torch.cos(angle))


def perceiver(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    x = given["I"] @ params["W_I"] + params["b_I"]
    x = x + _sinusoid(*x.shape[1:])
    z = params["L"].expand(len(x), -1, -1)
    inner = below(params, "round")
    for _ in range(2):
        read = below(inner, "read")
        q, m = _norm(z, read, "_1"), _norm(x, read, "_2")
        z = z + _attention(q, m, below(read, "attn"), 2)
        z = z + _mlp(_norm(z, read, "_3"), below(read, "mlp"), "tanh")
        think = below(inner, "think.0")
        h = _norm(z, think, "_1")
        z = z + _attention(h, h, below(think, "attn"), 2)
        z = z + _mlp(_norm(z, think, "_2"), below(think, "mlp"), "tanh")
    z = z.mean(1) @ params["W"] + params["b"]
    return {"Z": z, "loss": functional.cross_entropy(z, given["t"])}


def _answer(params: Tensors, ids: Tensor, t: Tensor, keep: Tensor) -> Tensor:
    x = params["E"][ids] + params["P"][: ids.shape[1]]
    layer = below(params, "layers.0")
    h = _norm(x, layer, "_1")
    x = x + _attention(h, h, below(layer, "attn"), 2, causal=True)
    x = x + _mlp(_norm(x, layer, "_2"), below(layer, "ffn"), "tanh")
    logs = torch.log_softmax(_norm(x, params, "") @ params["E"].T, -1)
    return (logs.gather(-1, t[..., None])[..., 0] * keep).sum(-1)


def dpo(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    policy = below(params, "policy")
    better, worse = (
        _answer(policy, *(given[f"{name}_{side}"] for name in ("ids", "t", "keep")))
        - given[f"r_{side}"]
        for side in "wl"
    )
    z = 0.1 * (better - worse)
    return {"z": z, "loss": -functional.logsigmoid(z).mean()}


def _convolved(x: Tensor, kernel: Tensor, bias: Tensor | None = None, stride: int = 1) -> Tensor:
    """With channels behind, as the diagrams have them."""
    turned = kernel.permute(3, 2, 0, 1).contiguous()
    y: Tensor = functional.conv2d(
        x.permute(0, 3, 1, 2).contiguous(), turned, bias, stride=stride, padding=1
    )
    return y.permute(0, 2, 3, 1)


def _residual(x: Tensor, e: Tensor, params: Tensors) -> Tensor:
    y = _convolved(functional.silu(_norm(x, params, "_1")), params["K_1"], params["b_1"])
    y = y + (e @ params["W_t"])[:, None, None]
    return x + _convolved(functional.silu(_norm(y, params, "_2")), params["K_2"], params["b_2"])


def diffusion(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    net, steps, noise = below(params, "net"), 20, given["epsilon"]
    a = ((given["n"].double() + 1) / (steps + 1))[:, None, None, None]
    x = _convolved((1 - a).sqrt() * given["x"] + a.sqrt() * noise, net["K_in"])
    e = _sinusoid(steps, net["down.W_t"].shape[0])[given["n"]]
    s = _residual(x, e, below(net, "down"))
    small = _residual(_convolved(s, net["K_down"], stride=2), e, below(net, "middle"))
    wide = small.repeat_interleave(2, 1).repeat_interleave(2, 2)
    x = _residual(torch.cat([s, wide], -1) @ net["W_up"], e, below(net, "up"))
    y = _convolved(x, net["K_out"], net["b_out"])
    return {"Y": y, "loss": functional.mse_loss(y, noise)}


def _slopes(y: Tensor, *by: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a sum, which can be differentiated again."""
    return torch.autograd.grad(y.sum(), by, create_graph=True)


def pinn(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    p = below(params, "field")

    def field(x: Tensor, t: Tensor) -> Tensor:
        h = torch.tanh(torch.cat([x, t], -1) @ p["W_1"] + p["b_1"])
        return torch.tanh(h @ p["W_2"] + p["b_2"]) @ p["w"]

    u_x, u_t = _slopes(field(given["x"], given["t"]), given["x"], given["t"])
    (u_xx,) = _slopes(u_x, given["x"])
    data = functional.mse_loss(field(given["x_0"], given["t_0"]), given["u_0"])
    return {"loss": ((u_t - 0.1 * u_xx) ** 2).mean() + data}


def wgan_gp(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    p = below(params, "critic")

    def critic(x: Tensor) -> Tensor:
        h = functional.silu(x @ p["W_1"] + p["b_1"])
        return functional.silu(h @ p["W_2"] + p["b_2"]) @ p["w"]

    e = given["e"][:, None]
    between = e * given["real"] + (1 - e) * given["fake"]
    (g,) = _slopes(critic(between), between)
    penalty = ((g.norm(dim=-1) - 1) ** 2).mean()
    fake, real = critic(given["fake"]).mean(), critic(given["real"]).mean()
    return {"loss": fake - real + 10 * penalty}


def ttt(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    p, x = below(params, "cell"), given["X"]
    w = x.new_zeros(x.shape[0], x.shape[2], x.shape[2]).requires_grad_()
    outputs: list[Tensor] = []
    for position in range(x.shape[1]):
        k, v, q = (x[:, position, None] @ p[f"M_{name}"] for name in "KVQ")
        (slope,) = _slopes((k @ w - v) ** 2, w)
        w = w - 0.1 * slope
        outputs.append((q @ w)[:, 0])
    z = torch.stack(outputs, 1)
    return {"Z": z, "loss": functional.mse_loss(z, given["t"])}


def hvp(params: Tensors, given: Tensors) -> dict[str, Tensor]:
    loss = functional.cross_entropy(given["X"] @ params["W"], given["t"])
    (slope,) = _slopes(loss, params["W"])
    (product,) = _slopes(slope * params["V"], params["W"])
    return {"loss": loss, "HV": product}
