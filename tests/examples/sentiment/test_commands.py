"""The example's commands: training to the accuracy that its page reports, and classifying."""

import io
import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from docs.running import checkout, follow
from examples.sentiment import lexicon
from examples.sentiment.command import main
from examples.sentiment.reviews import load, split
from examples.sentiment.training import DIAGRAM, REVIEWS
from tier import THOROUGH

import xg
from xg_runtime.batches import ArraySource
from xg_runtime.config import TrainConfig
from xg_runtime.train import train

PHRASES = REVIEWS.parent / "composing" / "phrases.toml"
TRAIN = ".venv/bin/python -m examples.sentiment train 2>/dev/null"
STEPS = 800 if THOROUGH else 300  # of the page's training
TINY = ["--set", "D=10", "--set", "D_ff=16", "--set", "N_L=1", "--batch", 4]


@dataclass(frozen=True)
class Output:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


Sentiment = Callable[..., Output]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sentiment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Sentiment:
    """Call the command in an empty folder."""

    def call(*arguments: object, stdin: bytes = b"") -> Output:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Output(code, out, err)

    return call


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    warm_python: Sequence[str],
) -> Path:
    """The run of the page: all that it says is done, and compared with what it shows.

    Daily it ends sooner: of the words that it then prints, numbers are others.
    """
    there = tmp_path_factory.mktemp("page")
    checkout(there, warm_python)
    update = bool(request.config.getoption("--update-golden"))
    sooner = {} if THOROUGH or update else {TRAIN: f"--steps {STEPS}"}
    follow("docs/how-to/classify-text.md", there, update=update, more=sooner)
    return there / "runs" / "sentiment"


def log(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_the_shipped_reviews_are_learned(trained: Path) -> None:
    accuracies = [record["accuracy"] for record in log(trained) if "accuracy" in record]
    assert len(accuracies) == STEPS // 100 + 1
    assert accuracies[0] < 0.6
    assert accuracies[-1] >= 0.85
    svg = (trained / "loss.svg").read_text(encoding="utf-8")
    assert "always the same 0.500" in svg
    assert f"accuracy {accuracies[-1]:.3f}" in svg


def test_new_sentences_are_judged(sentiment: Sentiment, trained: Path) -> None:
    texts = ["What a wonderful film!", "A dull and lifeless mess."]
    said = sentiment("classify", trained, *texts)
    assert said.code == 0
    first, second = said.out.splitlines()
    assert first.endswith("  positive  What a wonderful film!")
    assert second.endswith("  negative  A dull and lifeless mess.")
    assert sentiment("classify", trained, stdin="\n\n".join(texts).encode()).out == said.out
    torch = json.loads(sentiment("classify", trained, "--backend", "torch", *texts, "--json").out)
    for line, each in zip(said.out.splitlines(), torch["reviews"], strict=True):
        assert float(line.split()[0]) == pytest.approx(each["positive"], abs=2e-3)


def test_the_last_word_decides_where_words_disagree(sentiment: Sentiment, trained: Path) -> None:
    """Held reviews such as "is dull, but … is great": what only counts words could not tell."""
    held = split(load(REVIEWS))[1]
    both = [pair for pair in zip(held.texts, held.labels, strict=True) if " is " in pair[0]]
    turned = [(text, label) for text, label in both if re.search("although|, but", text, re.I)]
    said = json.loads(sentiment("classify", trained, *(text for text, _ in turned), "--json").out)
    right = [
        (each["label"] == "positive") == bool(label)
        for each, (_, label) in zip(said["reviews"], turned, strict=True)
    ]
    assert len(right) >= 25
    assert np.mean(right) >= 0.75


def test_vectors_tell_praise_from_blame(trained: Path) -> None:
    """The five nearest adjectives say which an adjective is; with counts for roots 74 % do."""
    adjectives = tomllib.loads(PHRASES.read_text(encoding="utf-8"))["good"]
    sides = {word: side for side, label in ((1, "pos"), (-1, "neg")) for word in adjectives[label]}
    found = lexicon.read(trained / "lexicon.safetensors")
    known = [(place, sides[word]) for place, word in enumerate(found.words) if word in sides]
    places, side = np.array(known).T
    likeness = found.vectors[places] @ found.vectors[places].T  # all vectors have one length
    np.fill_diagonal(likeness, -np.inf)
    nearest = likeness.argsort()[:, -5:]
    assert len(places) > 150
    assert np.mean(np.sign(side[nearest].sum(axis=1)) == side) >= 0.95


def test_sentences_written_by_hand_beat_a_coin(sentiment: Sentiment, trained: Path) -> None:
    held = split(load(REVIEWS))[1]
    by_hand = PHRASES.with_name("written.txt").read_text(encoding="utf-8")
    judged = [pair for pair in zip(held.texts, held.labels, strict=True) if pair[0] in by_hand]
    said = json.loads(sentiment("classify", trained, *(text for text, _ in judged), "--json").out)
    labels = [each["label"] == "positive" for each in said["reviews"]]
    assert len(judged) >= 100
    assert np.mean(np.array(labels) == [label for _, label in judged]) >= 0.65


def test_what_the_model_does_not_read_is_said(sentiment: Sentiment, trained: Path) -> None:
    said = sentiment("classify", trained, "Film " * 13 + "xyzzy \x1b[31m")
    assert said.code == 0
    assert said.err == "without a vector: 31m, xyzzy\nof 1 longer review the first 12 words count\n"
    assert "\x1b" not in said.out


def test_what_cannot_be_judged(sentiment: Sentiment, folder: Path, trained: Path) -> None:
    assert sentiment("classify", trained).code == 1
    assert "review 2 holds no word" in sentiment("classify", trained, "fine", "!").err
    assert "not UTF-8 at byte 0" in sentiment("classify", trained, stdin=b"\xff").err
    assert sentiment("classify", folder).code == 4
    rows = {"X": np.ones((20, 12, 50)), "t": np.ones((20, 1))}
    source = ArraySource(rows, frozenset(rows), 4, "")
    train(xg.compile(DIAGRAM).on_arrays(), source, TrainConfig(steps=1), folder / "rows")
    said = sentiment("classify", "rows", "fine")
    assert (said.code, said.err) == (1, "sentiment: rows was not trained on reviews\n")


def test_resuming_goes_on_bit_for_bit(sentiment: Sentiment, folder: Path) -> None:
    words = ["train", *TINY, "--schedule", "constant", "--eval", 2]
    assert sentiment(*words, "--steps", 6, "--out", "whole").code == 0
    assert sentiment(*words, "--steps", 4, "--out", "parts").code == 0
    assert sentiment(*words, "--steps", 6, "--out", "parts", "--resume").code == 0
    whole, parts = folder / "whole", folder / "parts"
    assert [record["step"] for record in log(parts)] == [0, 1, 2, 2, 3, 4, 4, 5, 6, 6]
    for name in ("log.jsonl", "loss.svg", "checkpoints/step-00000006/params.safetensors"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()


def test_a_lost_lexicon_is_made_again_or_refused(sentiment: Sentiment, folder: Path) -> None:
    words = ["train", *TINY, "--steps", 2, "--eval", 0, "--out", "run"]
    assert sentiment(*words).code == 0
    (folder / "run" / "lexicon.safetensors").unlink()
    assert sentiment("classify", "run", "fine").code == 5
    assert sentiment(*words, "--resume").code == 0
    assert sentiment("classify", "run", "fine").code == 0


def test_a_run_goes_on_with_its_own_reviews_only(sentiment: Sentiment, folder: Path) -> None:
    lines = REVIEWS.read_text(encoding="utf-8").splitlines()
    (folder / "some.txt").write_text("\n".join(lines[:300]), encoding="utf-8")
    (folder / "others.txt").write_text("\n".join(lines[:301]), encoding="utf-8")
    words = ["train", *TINY, "--steps", 2, "--eval", 0, "--out", "run"]
    assert sentiment(*words, "--data", "some.txt").code == 0
    said = sentiment(*words, "--data", "others.txt", "--resume")
    assert said.code == 4
    assert "data sha256 was" in said.err
    lexicon = folder / "run" / "lexicon.safetensors"
    lexicon.write_bytes(lexicon.read_bytes()[:-1] + b"\x01")
    said = sentiment("classify", "run", "fine")
    assert (said.code, "has changed since the training" in said.err) == (4, True)
    said = sentiment(*words, "--data", "some.txt", "--resume")
    assert (said.code, "data lexicon was" in said.err) == (4, True)


def test_what_reviews_cannot_be_trained_on(sentiment: Sentiment, folder: Path) -> None:
    (folder / "bad.txt").write_text("pos\tgood\n" * 5 + "good\n", encoding="utf-8")
    said = sentiment("train", "--data", "bad.txt")
    assert said.code == 1
    assert said.err == (
        "sentiment: bad.txt cannot be read: a line is pos or neg, a tab and a text\n"
        "  line 6: no tab between a label and a text\n"
    )
    assert sentiment("train", "--data", "none.txt").code == 5
    said = sentiment("train", "--set", "D=900")
    assert "for vectors of 900 numbers there must be more than 900" in said.err
    said = sentiment("train", "--set", "D")
    assert (said.code, said.err) == (1, "sentiment: --set D: NAME=VALUE is expected\n")
    assert not (folder / "runs").exists()


def test_other_sizes_logits_and_labels_without_an_axis(sentiment: Sentiment, folder: Path) -> None:
    (folder / "bag.xg").write_text(
        "dim B, S, D = 40\n"
        "block Bag(t [B], X [B, S, D]) -> z [B], loss [] {\n"
        "    param w [D]\n"
        "    X -> mean[S] -> ⊙<-BC(w) -> sum[D] : z [B]\n"
        "      -> BCE(mean, logits)<-t          : loss\n"
        "}\n",
        encoding="utf-8",
    )
    bag = ["train", "--diagram", "bag.xg", "--logits", "--batch", 8, "--lr", 0.05]
    said = sentiment(*bag, "--steps", 1)
    assert (said.code, said.err) == (
        1,
        "sentiment: nothing says how many words there are: --set S=N does\n",
    )
    assert sentiment(*bag, "--steps", 100, "--set", "S=12", "--out", "bag").code == 0
    assert log(folder / "bag")[-1]["accuracy"] > 0.65
    (said,) = json.loads(sentiment("classify", "bag", "wonderful", "--json").out)["reviews"]
    assert 0 < said["positive"] < 1
