"""One rank's share of `xg run` and `xg verify`; `ranks` runs it on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

from xg.codegen.backend import find, load
from xg.sharding.local import ShardSpec
from xg.verify.pipeline_proof import of_rank, run_stage
from xg.verify.rank_comparison import run_rank
from xg_runtime.module import Array, Arrays, Module
from xg_runtime.ranks import gather_shards, local_shards, number, rank
from xg_runtime.ranks.pipeline import Link, Part
from xg_runtime.ranks.task import Answer
from xg_runtime.run import checked, compute_results


def run(options: dict[str, Any], arrays: Arrays) -> Answer:
    """A rank's part of `xg run`: of whole arrays to whole results, which rank 0 brings back.

    Of `arrays`, "inputs/X" and "cotangents/Y" are given, and "params/W" where they are not drawn.
    """
    code = load(options["source"], "rank")
    module = cast(
        Module, find(options["backend"]).on_arrays(code, options["half"], **options["where"])
    )
    cuts = _cuts(code)
    own = {
        kind: local_shards(_of(kind, arrays), cuts) for kind in ("inputs", "params", "cotangents")
    }
    params: Arrays = own["params"] or module.init(options["seed"], options["dtype"])
    d_outputs = own["cotangents"] if options["backward"] else None
    results = compute_results(
        module, params, own["inputs"], d_outputs=d_outputs, seed=options["dropout"]
    )
    of_result = {name: cuts.get(name.removeprefix("d/"), ()) for name in results}
    whole_arrays = checked(gather_shards(results, of_result))
    if options["keep params"]:
        whole_arrays |= {
            f"params/{name}": whole for name, whole in gather_shards(params, cuts).items()
        }
    return Answer(whole_arrays, {"order": list(whole_arrays)}) if number() == 0 else Answer()


def verify(options: dict[str, Any], arrays: Arrays) -> Answer:
    """A rank's part of `xg verify`: trials one after the other, each with a module of its own.

    The arrays of comparison N begin with "N/", of its answer as well: they are what this rank has.
    """
    results: Arrays = {}
    told: list[dict[str, Any]] = []
    for place, comparison in enumerate(options["trials"]):
        code = load(comparison["source"], f"trial_{place}")
        own_arrays = {kind: _of(f"{place}/{kind}", arrays) for kind in comparison["kinds"]}
        module = cast(Module, find(options["backend"]).on_arrays(code))
        ran = run_rank(module, _cuts(code), own_arrays, comparison["seed"])
        kinds = {"outputs": ran.outputs, "gradients": ran.gradients, "moved": ran.moved}
        for kind, own in kinds.items():
            results |= {f"{place}/{kind}/{name}": array for name, array in own.items()}
        sent = [[*key, *counts] for key, counts in ran.sent.items()]
        told.append({"order": [list(own) for own in kinds.values()], "sent": sent})
    return Answer(results, {"trials": told})


def verify_stages(options: dict[str, Any], arrays: Arrays) -> Answer:
    """A rank's part of the proof of a pipeline: one step in each order of cells."""
    links = [Link(**link) for link in options["links"]]
    backend = find(options["backend"])
    parts = [
        Part(_of(f"inputs{number}", arrays), _of(f"cotangents{number}", arrays), seed)
        for number, seed in enumerate(options["seeds"])
    ]
    where: list[dict[str, ShardSpec]] = [
        {name: tuple((axis, over) for axis, over in cut) for name, cut in held.items()}
        for held in options["cuts"]
    ]
    mine = of_rank(links, rank(links[0].axis), links[0].ranks)
    sources = {link.place: load(options["sources"][link.place], "stage") for link in mine}
    modules = {place: cast(Module, backend.on_arrays(code)) for place, code in sources.items()}
    found: Arrays = {}
    facts: dict[str, Any] = {}
    for schedule in options["schedules"]:
        params = _of("params", arrays)
        ran = run_stage(modules.__getitem__, links, where, params, parts, schedule)
        kinds = {f"outputs{number}": each for number, each in enumerate(ran.outputs)}
        for kind, own in {**kinds, "gradients": ran.gradients, "params": ran.params}.items():
            found |= {f"{schedule}/{kind}/{name}": array for name, array in own.items()}
        facts[schedule] = [[*key, *counts] for key, counts in ran.sent.items()]
    return Answer(found, facts)


def _cuts(code: ModuleType) -> Mapping[str, ShardSpec]:
    """The parts of arrays that a rank has; a plan may divide nothing."""
    return code.cuts() if hasattr(code, "cuts") else {}


def _of(kind: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays of a kind by their own names."""
    return {
        name.removeprefix(f"{kind}/"): array
        for name, array in arrays.items()
        if name.startswith(f"{kind}/")
    }
