"""The peers' own environments, made under build/peers: `python benchmarks/peers.py [name ...]`.

Peers hold libraries at versions that do not fit ours, or weigh gigabytes, so each group lives in a
virtual environment of its own. One, `in-process`, is laid over the environment that runs this
file, which it leaves as it is: peers that are called beside our code, in one process. What cannot
be installed is named with the reason, and everything else goes on without it. A Python named by
UNISONO_PEER_TORCH, UNISONO_PEER_RAY and so on is taken as it is.
"""

import argparse
import json
import os
import shutil
import signal
import site
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import figures

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
FOLDER = PROJECT.parent / "build" / "peers"
IN_PROCESS = "in-process"
RECORD = "peer.json"  # in the environment: what was asked for, and which versions came


class Peer(NamedTuple):
    """One environment: what is installed, which modules must then be there, and beside ours?"""

    name: str
    requirements: tuple[str, ...]
    modules: tuple[str, ...]
    beside: bool = False

    @property
    def variable(self) -> str:
        """The variable of its Python, for benchmarks and for those who have one already."""
        return "UNISONO_PEER_" + self.name.upper().replace("-", "_")

    @property
    def install(self) -> str:
        words = " ".join(f"'{one}'" if set(one) & set("<>[") else one for one in self.requirements)
        return f"python -m venv peer && peer/bin/pip install {words}"


PEERS = (
    Peer(
        IN_PROCESS,
        tuple(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["bench"]),
        ("dp_accounting", "opendp", "jax_privacy"),
        beside=True,
    ),
    # Only this version of torch has a wheel without a graphics card's gigabytes everywhere.
    Peer("torch", ("torch==2.13.0", "opacus==1.6.0", "numpy"), ("torch", "opacus")),
    Peer(
        "diffprivlib", ("diffprivlib==0.6.6", "scikit-learn<1.6", "numpy"), ("diffprivlib.models",)
    ),
    Peer("ray", ("flwr[simulation]==1.41.0", "numpy"), ("flwr", "ray")),
    Peer("mpyc", ("mpyc", "numpy", "gmpy2"), ("mpyc", "gmpy2")),
    Peer("pfl", ("pfl==0.6.0", "torch==2.13.0", "numpy"), ("pfl", "torch")),
)


class Made(NamedTuple):
    """An environment's Python and versions, or why there is none."""

    python: str = ""
    versions: dict[str, str] = {}  # noqa: RUF012 - never changed
    why: str = ""


def made(peer: Peer, seconds: float, folder: Path = FOLDER) -> Made:
    """The environment of a peer: as named by the user, as it was, or made now."""
    named = os.environ.get(peer.variable)
    if named:
        return _looked_at(peer, named)
    home = folder / peer.name
    python = str(home / "bin" / "python")
    wanted = [*peer.requirements, sys.prefix if peer.beside else ""]
    record = home / RECORD
    if record.exists():
        found = json.loads(record.read_text())
        if found["wanted"] == wanted and Path(python).exists():
            return Made(python, found["versions"], found["why"])
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    why = _installed(peer, home, deadline)
    if why:
        shutil.rmtree(home, ignore_errors=True)
        return Made(why=why)
    found = _looked_at(peer, python)
    if not found.python:
        shutil.rmtree(home, ignore_errors=True)
        return found
    known = {"wanted": wanted, "versions": found.versions, "why": found.why}
    record.write_text(json.dumps(known))
    return found


def _installed(peer: Peer, home: Path, deadline: float) -> str:
    """Make the environment; the reason where that fails."""
    code, said = ended([sys.executable, "-m", "venv", str(home)], deadline - time.monotonic())
    if code != 0:
        return f"no virtual environment: {last_line(said)}"
    install = [str(home / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    if not peer.beside:
        code, said = ended([*install, *peer.requirements], deadline - time.monotonic())
        return _reason(code, said)
    # Read by `site`: paths named by a plain line would not have their own .pth files read.
    own = next(home.glob("lib/python*/site-packages"))
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (own / "ours.pth").write_text("\n".join(lines) + "\n")
    kept = home / "ours.txt"
    kept.write_text(_versions_held())
    why = ""
    for one in peer.requirements:  # one that does not fit keeps none of the others out
        command = [*install, "--constraint", str(kept), one]
        code, said = ended(command, deadline - time.monotonic())
        reason = _reason(code, said)
        why = why or (f"{one}: {reason}" if reason else "")
    return "" if _looked_at(peer, str(home / "bin" / "python")).versions else why


def _versions_held() -> str:
    """Constraints that leave every library of ours as it is."""
    from importlib import metadata

    names = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return "".join(
        f"{name}=={version}\n" for name, version in sorted(names.items()) if name != "unisono"
    )


def _reason(code: int | None, said: str) -> str:
    if code is None:
        return "not installed in time"
    errors = [line for line in said.splitlines() if line.startswith("ERROR")]
    return "" if code == 0 else (errors or [last_line(said)])[0]


_LOOK = """
import importlib, json, sys
from importlib import metadata
found, absent = {}, []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as reason:
        absent.append(f"{name}: {type(reason).__name__}: {reason}")
        continue
    top = name.partition(".")[0]
    for own in metadata.packages_distributions().get(top, [])[:1]:
        found[own] = metadata.version(own)
print(json.dumps([found, absent]))
"""


def _looked_at(peer: Peer, python: str) -> Made:
    """Versions of what is there. Of peers beside ours, some is better than nothing."""
    code, said = ended([python, "-c", _LOOK, *peer.modules], 120)
    if code != 0:
        return Made(why=f"its Python does not start: {last_line(said)}")
    versions, absent = json.loads(last_line(said))
    if absent and not (peer.beside and versions):
        return Made(why="; ".join(absent))
    return Made(python, versions, "; ".join(absent))


def ended(
    command: list[str], seconds: float, environment: dict[str, str] | None = None
) -> tuple[int | None, str]:
    """Exit code (None where the time was over) and output; whoever stops us stops it, too."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=max(1.0, seconds))[0]
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # with whatever it has started
        return None, process.communicate()[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)


def last_line(said: str) -> str:
    return (said.strip().splitlines() or ["it said nothing"])[-1]


def smoke() -> dict[str, float]:
    """What is known of the peers, without installing any."""
    assert len({peer.variable for peer in PEERS}) == len(PEERS)
    return {"environments": len(PEERS)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = [peer.name for peer in PEERS]
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    parser.add_argument("--seconds", type=float, default=900, help="for each, at most")
    arguments: Any = figures.options(parser, smoke)
    for peer in PEERS:
        if peer.name in (arguments.names or known):
            found = made(peer, arguments.seconds)
            told = ", ".join(f"{name} {version}" for name, version in found.versions.items())
            print(f"{peer.name}: {told or 'not installed'} {found.why}".rstrip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
