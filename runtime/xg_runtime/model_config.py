"""A checkpoint's config.json as the settings of a diagram, and back.

settings(keys, config, source)     {"D": 768, "N_L": 12, "head": "tied", "eps": "1e-05"}
config(keys, settings)             what config.json says of them

In the file of names a setting is given by one key, or in one of these ways; a dot leads into a
table or to a place in a list, and null counts as absent:

    p    = ["resid_pdrop", "attn_pdrop"]                              keys that must agree
    D    = ["embedding_size", "hidden_sizes.0 if layer=Basic"]        the second for that word only
    N_KV = { key = "num_key_value_heads", else = "num_attention_heads" }
    head = { key = "tie_word_embeddings", words = { true = "tied", false = "own" } }

`else` is read where there is no `key`, `first` before it, the length of a table by `length` behind
it; none of them is written. Keys of dropout may differ (`training`): the first of them counts. Keys
with `above` must all be there, and say a number above it; one with `most` says no more than other
settings multiplied and divided, `N_E*k_gr/N_gr`. A key `when` an option has a word is not
read or written for others. `yarn` are tables that say YaRN's attention factor where no key does.

Among the words, `number` is any number, `null` a key that is null, `absent` one that is not there:

    window = { key = "sliding_window", words = { null = "all", number = "near", absent = "near" } }

A key that has one value only (`older`) may have it for one word: `dense_act_fn if ffn=MLP`.

`equal` and `unequal` are whether several keys agree, which settings of their own write:

    first = { key = ["embedding_size", "hidden_sizes.0"], words = { equal = "same", unequal = … } }
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, Final, cast

from xg_runtime.checkpoint.manifest import Json
from xg_runtime.errors import InputError
from xg_runtime.names import ConfigKeys, ConfigPath

Setting = str | int

# Texts of an option that stand for no text of their own.
NUMBER: Final = "number"
NULL: Final = "null"
ABSENT: Final = "absent"
EQUAL: Final = "equal"
UNEQUAL: Final = "unequal"
WORDS: Final = (NUMBER, ABSENT, EQUAL, UNEQUAL)
JSON: Final[Mapping[str, object]] = {"true": True, "false": False, NULL: None}

# Words of one function: the tanh form of GELU, and x times its sigmoid.
SAME: Final = (frozenset({"gelu_new", "gelu_pytorch_tanh"}), frozenset({"silu", "swish"}))


def settings(keys: ConfigKeys, config: Json, source: str) -> dict[str, Setting]:
    """The settings of a config for a diagram; raises InputError if it is of something else."""
    fixed = {**keys.drawn, **keys.older}
    _check_fixed_keys(
        {key: drawn for key, drawn in fixed.items() if " if " not in key}, config, source
    )
    options = {
        name: _setting(way, config, source)
        for name, way in keys.settings.items()
        if way.words is not None
    }
    of_choice = {key.partition(" if "): drawn for key, drawn in fixed.items() if " if " in key}
    chosen = {key: drawn for (key, _, when), drawn in of_choice.items() if _chosen(when, options)}
    _check_fixed_keys(chosen, config, source)
    by_name = {
        name: _setting(_in_choice(way, options), config, source)
        for name, way in keys.settings.items()
        if way.when is None or _chosen(way.when, options)
    }
    told = {name: value for name, value in by_name.items() if value is not None}
    for way in keys.settings.values():
        if way.above is not None and (way.when is None or _chosen(way.when, told)):
            _refuse_at_most(way.above, way, config, source)
    _check_limits(keys, told, source)
    return told


def _check_fixed_keys(fixed: Mapping[str, object], config: Json, source: str) -> None:
    """Raise InputError where a key has another value than the one that the diagram is true for."""
    for key, drawn in fixed.items():
        held = _at(config, key)
        if held is not None and not _matches(held, drawn):
            raise InputError(
                f"{source} has {key} = {json.dumps(held)}, but the diagram is only right for "
                f"{json.dumps(drawn)}"
            )


def _refuse_at_most(least: float, way: ConfigPath, config: Json, source: str) -> None:
    """Raise InputError where one of the keys that count is missing, or says no more than this."""
    held = _first(way, config)
    read = [keys for keys in (way.first, way.otherwise) if any(key in held for key in keys)]
    for key in (*read, way.keys)[0]:
        if key not in held:
            raise InputError(f"{source} has no {key}: it should be a number above {least:g}")
        if float(cast("float", held[key])) <= least:
            number = json.dumps(held[key])
            raise InputError(f"{source} says {key} = {number}: it should be above {least:g}")


def _check_limits(keys: ConfigKeys, told: Mapping[str, object], source: str) -> None:
    """Raise InputError where a setting is more than others multiplied and divided allow."""
    for name, way in keys.settings.items():
        parts = re.findall(r"\w+|[*/]", way.most or "")
        needed = [name, *parts[::2]]
        if way.most is None or any(each not in told for each in needed):
            continue
        own, first, *others = (float(cast("float", told[each])) for each in needed)
        limit = first
        for sign, number in zip(parts[1::2], others, strict=True):
            limit = limit * number if sign == "*" else limit / number
        if own > limit:
            spelled = "".join(p if p in "*/" else keys.settings[p].keys[0] for p in parts)
            raise InputError(
                f"{source} says {way.keys[0]} = {told[name]}: it should be at most {spelled}, "
                f"which is {limit:g}"
            )


def notes(keys: ConfigKeys, config: Json, source: str) -> list[str]:
    """The differences of a config from the diagram that no number of evaluation shows."""
    said: list[str] = []
    for way in keys.settings.values():
        held = _first(way, config)
        if way.training and not _agree(held):
            texts = [f"{key} = {json.dumps(value)}" for key, value in held.items()]
            said.append(f"{source} says {', '.join(texts)}; the diagram drops by the first in all")
    for key, drawn in keys.training.items():
        held = _at(config, key)
        if held is not None and not _matches(held, drawn):
            said.append(
                f"{source} says {key} = {json.dumps(held)}, the diagram has {json.dumps(drawn)}: "
                "the same in evaluation, other in training"
            )
    return said


def _matches(held: object, drawn: object) -> bool:
    if isinstance(held, list):  # of each layer the same, or in turns what a list says
        turns = cast("list[object]", drawn) if isinstance(drawn, list) else [drawn]
        return all(map(_matches, cast("list[object]", held), cycle(turns)))
    return held == drawn or any({held, drawn} <= words for words in SAME if isinstance(held, str))


def config(keys: ConfigKeys, settings: Mapping[str, object]) -> Json:
    """The config of a diagram with these settings."""
    result: Json = {}
    for key, value in {**keys.written, **keys.training, **keys.drawn}.items():
        _put(result, key, value)
    for name, way in keys.settings.items():
        if name in settings and (way.when is None or _chosen(way.when, settings)):
            for key, told in _as_json(name, settings[name], _in_choice(way, settings)).items():
                if _at(result, key) not in (None, told):
                    raise InputError(
                        f"config.json has one {key}, so it cannot also hold {name} = {told}"
                    )
                _put(result, key, told)
    _refuse_contradictions(keys, settings, result)
    _check_limits(keys, settings, "config.json")
    return result


def _refuse_contradictions(keys: ConfigKeys, settings: Mapping[str, object], said: Json) -> None:
    """Raise InputError where keys that others have written agree, or differ, as no option says."""
    for name, way in keys.settings.items():
        if way.words and EQUAL in way.words and name in settings:
            word = _setting(way, said, "config.json")
            if word != settings[name]:
                values = ", ".join(f"{key} = {_at(said, key)}" for key in way.keys)
                raise InputError(
                    f"config.json has {values}, which means {name} = {word}, not {settings[name]}"
                )


def _in_choice(way: ConfigPath, settings: Mapping[str, object]) -> ConfigPath:
    """The way with the keys of a choice: `hidden_sizes.0 if layer=Basic` for that word only."""
    pairs = [key.partition(" if ") for key in way.keys]
    return replace(
        way, keys=tuple(k for k, _, when in pairs if not when or _chosen(when, settings))
    )


def _chosen(when: str, settings: Mapping[str, object]) -> bool:
    """Whether `turns=slowed | yarn` has what the settings choose."""
    option, _, words = when.partition("=")
    return settings.get(option.strip()) in [word.strip() for word in words.split("|")]


def says(keys: ConfigKeys, settings: Mapping[str, object]) -> bool:
    """Whether a config can say the options that these settings choose."""
    return all(
        way.words is None or name not in settings or settings[name] in way.words.values()
        for name, way in keys.settings.items()
    )


def _setting(way: ConfigPath, config: Json, source: str) -> Setting | None:
    held = _first(way, config)
    if way.words is not None and not held:
        is_null = any(_there(config, key) for key in way.keys)
        return way.words.get(NULL if is_null else ABSENT)
    if way.words is not None and EQUAL in way.words:
        return way.words[EQUAL if _agree(held) else UNEQUAL]
    if not held and way.yarn:
        return _attention_factor(config, way.yarn, source)
    if not way.training and not _agree(held):
        raise InputError(
            f"{source}: {' and '.join(held)} must be equal, because the diagram has one "
            "number for them"
        )
    for key, value in held.items():
        if way.words is None:
            return _number(value, key, source)
        text = value if isinstance(value, str) else json.dumps(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = NUMBER if is_number and NUMBER in way.words else text
        if text not in way.words:
            words = ", ".join(way.words)
            raise InputError(f"{source} has {key} = {text}, but the diagram knows {words}")
        return way.words[text]
    return None


def _attention_factor(config: Json, tables: Sequence[str], source: str) -> Setting | None:
    """The factor of queries and keys under YaRN, as transformers infers it."""
    for table in tables:
        factor = _at(config, f"{table}.factor")
        if factor is not None:
            scale = math.log(max(float(_number(factor, f"{table}.factor", source)), 1.0))
            one, other = (_at(config, f"{table}.{key}") for key in ("mscale", "mscale_all_dim"))
            if not (one and other):
                one, other = 1.0, 0.0
            return _number((0.1 * one * scale + 1) / (0.1 * other * scale + 1), table, source)
    return None


def _agree(held: Mapping[str, object]) -> bool:
    """Whether all keys say the same."""
    return len(set(map(json.dumps, held.values()))) <= 1


def _first(way: ConfigPath, config: Json) -> dict[str, object]:
    """The keys that count, with their values."""
    for keys in (way.first, way.keys, way.otherwise):
        held = {key: value for key in keys if (value := _at(config, key)) is not None}
        if held:
            return held
    table = _at(config, way.length) if way.length else None
    if way.length and isinstance(table, dict | list):
        return {way.length: len(cast("list[object]", table))}
    return {}


def _number(value: object, key: str, source: str) -> Setting:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{source}: {key} should be a number, not {json.dumps(value)}")
    if isinstance(value, int) or value.is_integer():
        return int(value)
    return repr(value)


def _as_json(name: str, setting: object, way: ConfigPath) -> Json:
    """A setting as JSON has it: `--set eps=1e-5` is a text, and a word may mean true.

    Nothing where another setting writes the number, or where a key that is absent says it.
    """
    if way.words is None:
        told = float(setting) if isinstance(setting, str) else setting
        return dict.fromkeys(way.keys, told)
    texts = [text for text, word in way.words.items() if word == setting]
    if not texts:
        known, keys = ", ".join(dict.fromkeys(way.words.values())), " and ".join(way.keys)
        raise InputError(
            f"config.json cannot hold {name} = {setting} under {keys}: it can hold {known}"
        )
    said: list[object] = [JSON.get(text, text) for text in texts if text not in WORDS]
    return dict.fromkeys(way.keys, said[0]) if said else {}


def _at(config: Json, key: str) -> Any:  # noqa: ANN401 - what JSON gives
    entry: Any = config
    for part in key.split("."):
        if isinstance(entry, list) and part.isdigit():
            entry = dict(enumerate(cast("list[Any]", entry))).get(int(part))
        else:
            entry = cast("dict[str, Any]", entry).get(part) if isinstance(entry, dict) else None
    return entry


def _put(config: Json, key: str, value: object) -> None:
    *tables, last = key.split(".")
    if last.isdigit():  # elements of a list in their order
        *tables, name = tables
        for table in tables:
            config = config.setdefault(table, {})
        row: list[object] = config.setdefault(name, [])
        row[int(last) : int(last) + 1] = [value]
        return
    for table in tables:
        config = config.setdefault(table, {})
    config[last] = value


def _there(config: Json, key: str) -> bool:
    """Whether a config has a key, be it null."""
    table, _, last = key.rpartition(".")
    held = _at(config, table) if table else config
    return isinstance(held, dict) and last in held
