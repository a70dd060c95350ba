"""Imports of single models: names, sizes, masks, and the messages of those that are refused."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import io
import json
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from importing.agreement import compare, exported, imported
from importing.sources import Case, ids
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg_torch.importing import import_archive
from xg_torch.importing.exported import read_size
from xg_torch.importing.recognize import Turns, turns_of

Map = Callable[[Tensor], Tensor]


class Function(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, then: Map, width: int = 8) -> None:
        super().__init__()
        self.inner = nn.Linear(8, width)
        self.then = then

    def forward(self, x: Tensor) -> Tensor:
        return self.then(self.inner(x))


def case(then: Map, width: int = 8, *, dynamic: bool = True) -> Case:
    return Case(
        lambda: Function(then, width),
        lambda b, s: (torch.randn(b, s, 8).double(),),
        (("B", "S") if dynamic else (),),
    )


def told(given: Case) -> str:
    with pytest.raises(DiagnosticError) as error:
        imported(given)
    return str(error.value)


def agree(given: Case) -> str:
    """The text of a model, after outputs and gradients were compared."""
    model, made = imported(given)
    torch.manual_seed(5)
    outputs, gradients = compare(model, made, given.inputs(4, 7), dict(made.params))
    assert outputs < 1e-10
    assert gradients < 1e-8
    return made.text


class Decoder(nn.Module):
    """Self-attention and cross-attention of `torch.nn`."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerDecoderLayer(12, 3, 20, batch_first=True)
        self.inner = nn.TransformerDecoder(layer, 1)

    def forward(self, x: Tensor, m: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).double()
        return self.inner(x, m, tgt_mask=mask, tgt_is_causal=True)


def test_cross_attention_has_two_lengths() -> None:
    given = Case(
        Decoder,
        lambda b, s: (torch.randn(b, s, 12).double(), torch.randn(b, s + 2, 12).double()),
        (("B", "S"), ("B", "T")),
    )
    text = agree(given)
    assert "block MultiheadAttention(X [B, S, D], M [B, S_2, D])" in text
    assert "SM(1/sqrt(D_h), causal)" in text


class Shared(nn.Module):
    """A module called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gated()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(self.norm(self.gate(x)))


class Gated(nn.Module):
    """A residual around a fused gate."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(8, 20)
        self.out = nn.Linear(10, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(F.glu(self.both(x)))


def test_a_module_that_is_called_twice_shares_its_parameters() -> None:
    text = agree(Case(Shared, lambda b, s: (torch.randn(b, s, 8).double(),), (("B", "S"),)))
    assert "Gated as gate -> LN(γ, β) -> gate : Y" in text


class Shifted(nn.Module):
    """Targets that are the inputs, one place on."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(17, 8, padding_idx=None)
        self.head = nn.Linear(8, 17)

    def forward(self, tokens: Tensor) -> Tensor:
        z = self.head(torch.relu(self.table(tokens)))
        return F.cross_entropy(z[:, :-1].reshape(-1, 17), tokens[:, 1:].reshape(-1))


def test_targets_may_be_inputs_one_place_on() -> None:
    assert "slice[S](1, S)" in agree(Case(Shifted, ids_alone, (("B", "S"),)))


def ids_alone(b: int, s: int) -> tuple[Tensor, ...]:
    return (ids(17)(b, s),)


class ClassToken(nn.Module):
    """A learned token in front, of which the head reads the result."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.ones(1, 1, 8))
        self.inner, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1)
        return self.head(self.inner(x)[:, 0])


def test_an_axis_that_is_longer_by_one_has_a_name() -> None:
    text = agree(Case(ClassToken, lambda b, s: (torch.randn(b, s, 8).double(),), (("B", "S"),)))
    assert "S_2 = S + 1" in text
    assert "pick[S_2](0)" in text


ARITHMETIC: list[tuple[Map, str]] = [
    (lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), "-> GELU(exact)"),
    (lambda x: x * torch.sigmoid(x), "-> SiLU"),
    (lambda x: x.clamp(min=0), "op Elementwise(x) = select(0 > x, 0, x)"),
    (lambda x: torch.where(x <= 0, 0, x), "-> ReLU"),
    (lambda x: 3 * x, "-> scale(3)"),
    (lambda x: torch.exp(-x) + 2, "op Elementwise(x) = exp(-x) + 2"),
    (lambda x: torch.abs(x) - 1, "op Elementwise(x) = abs(x) - 1"),
    (lambda x: torch.add(x, x * x, alpha=2), "M -> ⊙<-M -> scale(2) -> ⊕<-M"),
    (lambda x: x - x.mean(-1, keepdim=True), "op Elementwise(x [.., D]) = x - mean[D](x)"),
]


@pytest.mark.parametrize(("then", "node"), ARITHMETIC)
def test_arithmetic_is_recognized_or_defined(then: Map, node: str) -> None:
    assert node in agree(case(then, 12))


class Gain(nn.Module):
    """A norm whose weight is what it adds to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.gain)


def test_a_weight_of_an_operator_is_its_argument() -> None:
    text = agree(Case(Gain, lambda b, s: (torch.randn(b, s, 8).double(),), (("B", "S"),)))
    assert "op RMS(x [.., D]; g [D]) = " in text
    assert "x -> RMS(g) : Y" in text


def test_without_dynamic_dims_numbers_stay_numbers() -> None:
    given = case(torch.relu, 6, dynamic=False)
    _, made = imported(given)
    assert "x [3, 5, D]" in made.text


# ---- what is refused ----------------------------------------------------------------------------


class TwoMistakes(nn.Module):
    """Two operators that the language lacks, in two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool1d(3, 1, padding=1, count_include_pad=False)
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x.transpose(1, 2)).transpose(1, 2) + torch.cummax(self.inner(x), 1)[0]


def test_every_operator_that_cannot_be_said_is_named_with_its_module() -> None:
    text = told(Case(TwoMistakes, lambda b, s: (torch.randn(b, s, 8).double(),), (("B", "S"),)))
    assert "aten.avg_pool1d.default in pool (AvgPool1d): it leaves padding out of its means" in text
    assert "aten.cummax.default in the model: the language has no operator for it" in text
    assert text.count("error[XG") == 2


def neighbors(x: Tensor) -> Tensor:
    angle = torch.arange(x.shape[1])[:, None] / 500.0 ** (torch.arange(0, 8, 2).double() / 8)
    cosine, sine = (f(angle).repeat_interleave(2, -1) for f in (torch.cos, torch.sin))
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return x * cosine + turned * sine


def test_rotary_positions_of_neighbors_are_one_node() -> None:
    assert "RoPE(base=500, layout=interleaved)" in agree(case(neighbors))


SLOWED = (("factor", 8.0), ("low", 1.0), ("high", 4.0), ("trained", 64.0))


@pytest.mark.parametrize("turns", [Turns(5e5, SLOWED), Turns(100.0, SLOWED), Turns(5e5)], ids=str)
def test_the_turns_of_slowed_positions_are_found_by_their_speeds(turns: Turns) -> None:
    for width in (64, 128):
        speeds = turns.speeds(width)
        rounded = speeds.astype(np.float32).astype(np.float64)
        assert turns_of(speeds, width) == turns_of(rounded, width) == turns


@pytest.mark.parametrize("high", [32.0, 8.0])
def test_the_turns_of_yarn_are_found_by_their_speeds(high: float) -> None:
    numbers = (("factor", 4.0), ("low", 1.0), ("high", high), ("trained", 4096.0))
    for width, base in ((64, 1e4), (128, 1e6)):
        speeds = Turns(base, numbers, pairs=True).speeds(width)
        for known in (speeds, speeds.astype(np.float32).astype(np.float64)):
            found = turns_of(known, width)
            assert found.pairs
            assert np.allclose(found.speeds(width), speeds, rtol=1e-6)


KEPT = 1 - ((torch.arange(8).double() - 1) / 5).clamp(0, 1)
SPEED = 500.0 ** (-torch.arange(0, 16, 2).double() / 16) * ((1 - KEPT) / 8 + KEPT)


def yarn(x: Tensor) -> Tensor:
    angle = torch.arange(x.shape[1])[:, None] * SPEED
    cosine, sine = (1.2 * f(torch.cat([angle, angle], -1)) for f in (torch.cos, torch.sin))
    return x * cosine + torch.cat([-x[..., 8:], x[..., :8]], -1) * sine


def test_rotary_positions_of_yarn_are_one_node_and_its_factor() -> None:
    def net(x: Tensor) -> Tensor:
        return yarn(torch.cat([x, x], -1))

    said = agree(case(net))
    assert "RoPE(base=500, factor=8, low=1, high=" in said
    assert re.search(r"change=pairs\)\s+-> scale\(1.2\)", said)


NEAR: list[tuple[str, Callable[[Tensor], Tensor], str]] = [
    ("both sides", lambda d: d.abs() <= 2, "select(w >= abs(i - j), a, -inf)"),
    ("band", lambda d: (d <= 3) & (d >= -1), "and(before >= i - j, after >= j - i), a, -inf)"),
    ("window", lambda d: (d >= 0) & (d < 20), "Window(20)"),
]


@pytest.mark.parametrize(("shown", "said"), [pair[1:] for pair in NEAR], ids=[n for n, *_ in NEAR])
def test_a_mask_by_distance_is_an_operator_of_positions(
    shown: Callable[[Tensor], Tensor], said: str
) -> None:
    def near(x: Tensor) -> Tensor:
        i = torch.arange(x.shape[1])
        mask = shown(i[:, None] - i)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    assert said in agree(case(near))


@pytest.mark.parametrize("hidden", [-torch.inf, -1e4])
def test_a_mask_that_is_added_is_one(hidden: float) -> None:
    def causal(x: Tensor) -> Tensor:
        i = torch.arange(x.shape[1])
        mask = torch.where(i[:, None] >= i, 0.0, hidden)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask.double())

    assert ", causal)" in agree(case(causal))


def in_pairs(x: Tensor) -> Tensor:
    i = torch.arange(x.shape[1])
    near = (i[:, None] >= i) & (i[:, None] // 2 == i // 2)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=near)


REFUSED: list[tuple[Map, str]] = [
    (in_pairs, "its mask of constants shows keys otherwise than by their distance"),
    (lambda x: x[:, ::2], "it takes some positions of an axis, and pairs do not cover it"),
    (lambda x: torch.relu(x * torch.arange(8)), "it multiplies by a table of constants"),
    (
        lambda x: x * torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape_as(x),
        "it stacks 2 tensors along an axis that another part has",
    ),
    (lambda x: torch.sub(x, x * x, alpha=2), "it scales its second operand"),
    (lambda x: torch.rsub(x, x * x, alpha=2), "it scales its second operand"),
    (lambda x: x[torch.nonzero(x.sum((1, 2)) > 0).squeeze(1)], "in the model"),
]


@pytest.mark.parametrize(("then", "reason"), REFUSED)
def test_what_cannot_be_said_is_refused(then: Map, reason: str) -> None:
    assert reason in told(case(then))


def changed(data: bytes, files: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """An archive with some entries replaced."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            end = name.partition("/")[2]
            new.writestr(name, files.get(end, lambda same: same)(old.read(name)))
    return buffer.getvalue()


def of_the_future(data: bytes) -> bytes:
    """An archive whose entries ask for a version of the format that there is not."""
    first, *entries = data.split(b"PK\x01\x02")  # in the directory the version is at byte 6
    return b"PK\x01\x02".join([first, *(e[:2] + b"\x63\0" + e[4:] for e in entries)])


@pytest.fixture(scope="module")
def archive() -> bytes:
    given = case(torch.relu)
    return exported(given, given.build().double())


def refusal(data: bytes) -> str:
    with pytest.raises(DiagnosticError) as error:
        import_archive(data, "model.pt2")
    assert {diagnostic.code for diagnostic in error.value.diagnostics} == {"XG0901"}
    return str(error.value)


def test_a_damaged_file_is_refused(archive: bytes) -> None:
    assert "it is not an archive" in refusal(b"dim B\n")
    assert "it is not an archive" in refusal(archive[: len(archive) // 2])
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    assert "it holds no models/model.json" in refusal(empty.getvalue())
    for end in ("models/model.json", "data/weights/model_weights_config.json"):
        assert "damaged" in refusal(changed(archive, {end: lambda data: data[:-9]}))
        assert "damaged" in refusal(changed(archive, {end: lambda _: b"{}"}))
    assert "it is damaged (NotImplementedError)" in refusal(of_the_future(archive))
    short = changed(archive, {"data/weights/weight_0": lambda data: data[:-8]})
    assert "a weight is cut off" in refusal(short)


def test_another_version_of_the_schema_is_refused(archive: bytes) -> None:
    def newer(data: bytes) -> bytes:
        program = json.loads(data)
        program["schema_version"]["major"] = 9
        return json.dumps(program).encode()

    assert "version 9" in refusal(changed(archive, {"models/model.json": newer}))


class Trap:
    """A pickle that would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


def test_nothing_of_a_file_is_run(archive: bytes, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung))
    word = f"__import__('pathlib').Path({str(sprung)!r}).touch()"

    def evil(data: bytes) -> bytes:
        return data.replace(b"Symbol('s77', positive=True, integer=True)", word.encode())

    changes: dict[str, Callable[[bytes], bytes]] = {
        "data/sample_inputs/model.pt": lambda _: trap,
        "models/model.json": evil,
    }
    with contextlib.suppress(DiagnosticError):
        import_archive(changed(archive, changes), "model.pt2")
    assert not sprung.exists()
    pickle.loads(trap)
    assert sprung.exists()  # the trap works where it is stepped on


def test_a_pickled_weight_is_refused(archive: bytes) -> None:
    def pickled(data: bytes) -> bytes:
        return data.replace(b'"use_pickle": false', b'"use_pickle": true')

    end = "data/weights/model_weights_config.json"
    assert "nothing is unpickled here" in refusal(changed(archive, {end: pickled}))


def test_a_member_that_is_there_twice_is_refused(archive: bytes) -> None:
    buffer = io.BytesIO(archive)
    with zipfile.ZipFile(buffer, "a") as twice, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice.writestr(twice.namelist()[-1], b"{}")
    assert "two members of one name" in refusal(buffer.getvalue())


def test_a_weight_that_repeats_few_numbers_is_refused(archive: bytes) -> None:
    """Steps of zero bytes make any size of a few numbers."""

    def stretched(data: bytes) -> bytes:
        config = json.loads(data)
        for entry in config["config"].values():
            meta = entry["tensor_meta"]
            meta["sizes"] = [{"as_int": 2**40}]
            meta["strides"] = [{"as_int": 0}]
        return json.dumps(config).encode()

    end = "data/weights/model_weights_config.json"
    assert "weights claim to be" in refusal(changed(archive, {end: stretched}))


def test_sizes_are_read_without_being_evaluated() -> None:
    assert str(read_size("Mul(Integer(3), Symbol('s2', integer=True))")) == "3*s2"
    for text in ("__import__('os')", "1 +", "x", "Pow(Symbol('a'), Symbol('b'))"):
        with pytest.raises(ArithmeticError):
            read_size(text)


def test_a_program_in_memory_goes_the_same_way() -> None:
    model = Function(torch.relu)
    program = torch.export.export(model, (torch.randn(3, 5, 8),))
    made = xg.import_exported(program, name="Small")
    assert "block Small(x [3, 5, D]) -> Y" in made.text
    assert made.params["W_inner"].dtype == "float32"
