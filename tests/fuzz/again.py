"""The same bytes everywhere: a process in other surroundings writes what this one writes.

The surroundings are the seed of hashes, the locale, the time zone, the folder, threads and `-O`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from random import Random

from fuzz.program import generate
from fuzz.texts import text_of

from xg.codegen.backend import backends
from xg.diagnostics.diagnostic import DiagnosticError, render
from xg.driver import Program, compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import Project, parse_project
from xg.syntax.format import format

PROGRAMS = 5  # of a seed: a process takes as long to start as some of them to compile
LOCALES = ("C", "C.UTF-8", "POSIX", "tr_TR.UTF-8", "de_DE")
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns")


def again_failure(seed: int) -> tuple[str, str]:
    """A program of a seed and what differs of it elsewhere; empty if all is the same."""
    here = outputs(seed)
    there = elsewhere(seed)
    different = [name for name in here if here[name] != there.get(name)]
    if here.keys() == there.keys() and not different:
        return "", ""
    program = different[0].split()[0] if different else str(seed * PROGRAMS)
    return str(generate(int(program))), f"other bytes with {_surroundings(seed)}: {different}"


def outputs(seed: int) -> dict[str, str]:
    """A digest of every output of the programs of a seed."""
    found: dict[str, str] = {}
    for number in range(seed * PROGRAMS, (seed + 1) * PROGRAMS):
        sketch = generate(number)
        project = parse_project(str(sketch).encode())
        program = compile_project(project, settings=sketch.settings)
        for name, write in _writers(project, program, number).items():
            found[f"{number} {name}"] = sha256(write()).hexdigest()
    return found


def _writers(project: Project, program: Program, number: int) -> dict[str, Callable[[], bytes]]:
    random = Random(number)
    backend = random.choice(list(backends()))
    picture: dict[str, Callable[[], bytes]] = {} if number % PROGRAMS else {"svg": program.render}
    return {
        **picture,
        backend: lambda: program.source(backend).encode(),
        "dot": lambda: program.dot().encode(),
        "fmt": lambda: format(project.main.span.source).encode(),
        "messages": lambda: _messages(text_of(number)).encode(),
    }


def _messages(data: bytes) -> str:
    """The report of a text that no one would write."""
    try:
        return render(check_choices(parse_project(data)), color=False)
    except DiagnosticError as error:
        return str(error)


def elsewhere(seed: int) -> dict[str, str]:
    """The same digests from a process in other surroundings."""
    options, variables = _surroundings(seed)
    command = [sys.executable, *options, "-m", "fuzz.again", str(seed)]
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path if each)  # noqa: PTH100
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, **variables, "PYTHONPATH": path, "PYTHONUTF8": "0"}
        ran = subprocess.run(command, env=env, cwd=folder, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode(errors="replace")
    return json.loads(ran.stdout)


def _surroundings(seed: int) -> tuple[list[str], Mapping[str, str]]:
    """Options of Python and variables."""
    random = Random(seed)
    variables = {
        "PYTHONHASHSEED": str(random.randrange(1, 10_000)),
        "LC_ALL": random.choice(LOCALES),
        "TZ": random.choice(ZONES),
        "OMP_NUM_THREADS": random.choice(("1", "3")),
    }
    return random.choice(([], ["-O"], ["-OO"])), variables


if __name__ == "__main__":
    sys.stdout.write(json.dumps(outputs(int(sys.argv[1]))))
