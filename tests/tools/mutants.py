"""Mutants of the heart of the package: changed lines that some test should notice. mutmut makes and runs them.

    pip install 'mutmut>=3.8'
    python tests/tools/mutants.py run --work /tmp/mutants-host --group host --share 0.25 --least 60 --seed 0
    python tests/tools/mutants.py again --work /tmp/mutants-host --group host   # with new tests: what was not killed
    python tests/tools/mutants.py report /tmp/mutants-host /tmp/mutants-device

`host` is what runs without a GPU; `device` needs one, or `.ci/software-gpu`. A work folder holds a copy of the package,
its tests, models and samples, and what became of each mutant; `mutmut show` and `mutmut browse` work there, too. Every
mutant has a process of its own, forked from one that has collected the tests and run none. mutmut forgets what it found
when other tests are chosen.
`equivalent_mutants.csv`, beside this program, has the mutants that change nothing that a test could see, and why.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from mutmut.configuration import reset_config
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).parents[2]
ENDED = ("killed", "segfault", "suspicious")
"""What mutmut says where a test failed, or the process was ended by a signal."""
NOTICED = (*ENDED, "timeout")
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.csv"


class Group(NamedTuple):
    """Modules that the same tests notice.

    Attributes:
        modules: patterns of the files that are mutated.
        excluded: files among them that are not.
        tests: the files of tests, without `test_`.
        slow: words of tests that would take most of the time, or that look at the source, which is another one here.
    """

    modules: list[str]
    excluded: list[str]
    tests: str
    slow: str


GROUPS = {
    "host": Group(
        [
            "winml_py/core/imaging/*",
            "winml_py/core/features/*",
            *(f"winml_py/core/evaluation/{name}.py" for name in ("evaluation", "picture_inputs", "outputs")),
            "winml_py/core/runtime/ort/engine.py",
        ],
        ["winml_py/core/evaluation/device_pictures.py"],
        "async authoring binding containers contract cuda error_texts errors example_inputs fake_device features "
        "imaging many memory misuse model outputs_trust session picture_sources tensors rare_results "
        "rare_values winrt",
        "only_these_files raw_onnx_runtimes hundreds centre_crop bounds_is_exact fast_decoding fast_decode_is_near "
        "a_sample placement_lies letterbox_keeps damaged_files contract_survives nobody_holds is_an_error_with_a_hint "
        "can_be_cancelled",
    ),
    "device": Group(
        [
            "winml_py/core/evaluation/device_pictures.py",
            *(f"winml_py/core/runtime/ort/device_{name}.py" for name in ("binding", "memory")),
        ],
        [],
        "cuda device_bindings gpu picture_graphs",
        "digits_float16 raw_onnx_runtimes fast_decod contract4-87 contract6-62 fork_inherits",
    ),
}


def configuration(group: Group) -> str:
    """Mutmut's settings, as a section of pyproject.toml."""
    tests = [str(path) for name in group.tests.split() for path in Path("tests").rglob(f"test_{name}.py")]
    unslow = " and ".join(f"not {name}" for name in group.slow.split())
    return f"""
[tool.mutmut]
source_paths = ["winml_py"]
only_mutate = {group.modules}
do_not_mutate = {group.excluded}
also_copy = ["models", "samples"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-m", "not once", "-k", "{unslow}"]
pytest_add_cli_args_test_selection = {tests}
process_isolation = "forkserver"
timeout_multiplier = 3.0
timeout_constant = 20.0
track_dependencies = false
use_git_change_detection = false
"""


def prepare(work: Path, group: Group) -> None:
    """Copies what mutants are made of and run with; what is there is replaced, except for results."""
    for name in ("winml_py", "tests", "models", "samples"):
        shutil.copytree(ROOT / name, work / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    settings = (ROOT / "pyproject.toml").read_text()
    (work / "pyproject.toml").write_text(settings + configuration(group))
    (work / "mutants").mkdir(exist_ok=True)  # Python looks once whether a folder of PYTHONPATH is there


def names_of(path: Path) -> list[str]:
    """Every mutant that mutmut makes of a file."""
    return [get_mutant_name(path, name) for name in mutate_file_contents(str(path), path.read_text()).mutant_names]


def sample(share: float, least: int, seed: int, first: int | None) -> list[str]:
    """Of each module a share of the mutants, and at least so many where there are so many; of these the first ones."""
    chosen: list[str] = []
    for path in sorted(walk_mutatable_files()):
        names, rng = names_of(path), random.Random(f"{seed} {path}")
        chosen += rng.sample(names, min(len(names), max(least, round(share * len(names)))))[:first]
    return chosen


def results() -> dict[str, str]:
    """What became of each mutant that was run, by name."""
    found = {}
    for path in sorted(walk_mutatable_files()):
        data = SourceFileMutationData(path=path)
        data.load()
        found |= {name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items() if code is not None}
    return found


def mutmut(names: list[str], workers: int) -> None:
    """Runs mutants; mutmut keeps the results in the work folder."""
    # The same order of tests each time, and the changed package in processes that tests start, too.
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(Path("mutants").resolve())}
    program = Path(sys.executable).with_name("mutmut")
    sys.stdout.flush()
    ended = subprocess.run([program, "run", "--max-children", str(workers), *names], env=environment, check=False)
    if ended.returncode:
        sys.exit("mutmut has not run to its end; the lines above say why.")


class Change(NamedTuple):
    """A mutant as its diff shows it."""

    function: str
    old: str
    new: str


def change_of(name: str) -> Change:
    """What a mutant changes: the lines that went and came, without their indentation."""
    diff = get_diff_for_mutant(name).splitlines()[2:]
    old, new = (" ".join(line[1:].strip() for line in diff if line.startswith(sign)) for sign in "-+")
    return Change(name.partition("__mutmut_")[0].replace("ǁ", ".").replace(".x_", ".").replace(".x.", "."), old, new)


def equivalents() -> set[Change]:
    """The mutants that were found to be equivalent."""
    with EQUIVALENT.open(newline="") as file:
        return {Change(row["function"], row["old"], row["new"]) for row in csv.DictReader(file)}


def table(works: list[Path]) -> str:
    """The score of each module, and what survived."""
    known, survivors = equivalents(), []
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for work in works:
        with_settings_of(work)
        for path in walk_mutatable_files():
            counts[str(path)]["mutants"] = len(names_of(path))
        for name, status in results().items():
            module = name.partition("__mutmut_")[0].rpartition(".x")[0].replace(".", "/") + ".py"
            change = None if status in NOTICED else change_of(name)
            if change in known:
                status = "equivalent"
            elif change is not None:
                status = "survived"
                survivors.append(f"{name}\n    - {change.old}\n    + {change.new}")
            counts[module][status] += 1
    lines = ["| module | mutants | run | killed | timed out | equivalent | survived | killed of not equivalent |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for module, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        killed, run = sum(count[status] for status in ENDED), count.total() - count["mutants"]
        noticed, judged = killed + count["timeout"], run - count["equivalent"]
        row = (count["mutants"], run, killed, count["timeout"], count["equivalent"], count["survived"])
        lines.append(f"| {module} | {' | '.join(map(str, row))} | {100 * noticed / max(judged, 1):.1f} % |")
    return "\n".join([*lines, "", *sorted(survivors)])


def with_settings_of(work: Path) -> None:
    """Mutmut reads its settings from, and writes its results to, the folder that it runs in."""
    os.chdir(work)
    reset_config()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "again", "report"])
    parser.add_argument("works", nargs="*", type=Path, help="work folders to report")
    parser.add_argument("--work", type=Path, help="the work folder")
    parser.add_argument("--group", choices=GROUPS, default="host")
    parser.add_argument("--share", type=float, default=0.25, help="of each module's mutants")
    parser.add_argument("--least", type=int, default=60, help="mutants a module, where there are so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, help="only so many of each module's sample; a later run takes the others")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.command == "report":
        print(table([work.resolve() for work in options.works]))
        return
    work = options.work.resolve()
    prepare(work, GROUPS[options.group])
    with_settings_of(work)
    if options.command == "run":
        known = results()
        chosen = sample(options.share, options.least, options.seed, options.first)
        names = [name for name in chosen if name not in known]
    else:
        left, known_ones = (name for name, status in results().items() if status not in NOTICED), equivalents()
        names = [name for name in left if change_of(name) not in known_ones]
    mutmut(names, options.workers)
    print(table([work]))


if __name__ == "__main__":
    main()
