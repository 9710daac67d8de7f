"""What an installation must be able to do, tried one by one; each check says the remedy.

A check returns what it found, and raises `Trouble` with the words and the remedy otherwise; a
`Trouble` that is a `warning` leaves everything usable. Nothing here reads anybody's records.
"""

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

State = Literal["ok", "warning", "problem"]
_LEAST_SPACE, _SOME_SPACE = 100 * 2**20, 2**30
_DRAWS, _STD = 20_000, 10.0
_ONE_YEAR = 365 * 86_400
_BUILT = 1_767_225_600  # the first of January 2026, before which nothing of this existed


class Trouble(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, words: str, remedy: str, state: State = "problem") -> None:
        super().__init__(words)
        self.remedy, self.state = remedy, state


class HealthFinding(NamedTuple):
    """One line of the doctor's report."""

    check: str
    state: State
    words: str
    remedy: str = ""


def examine(folder: Path) -> list[HealthFinding]:
    """All checks, in the order in which things depend on each other."""
    return [_try(name, check, folder) for name, check in CHECKS.items()]


def _try(name: str, check: Callable[[Path], str], folder: Path) -> HealthFinding:
    try:
        return HealthFinding(name, "ok", check(folder))
    except Trouble as trouble:
        return HealthFinding(name, trouble.state, str(trouble), trouble.remedy)
    except Exception as error:  # a doctor reports whatever breaks
        words = f"{type(error).__name__}: {error}"
        return HealthFinding(
            name, "problem", words, "reinstall: pip install --force-reinstall unisono"
        )


# ------------------------------------------------------------- the installation


def python(folder: Path) -> str:
    version, wanted = platform.python_version(), metadata.metadata("unisono")["Requires-Python"]
    if not _within(version, wanted):
        raise Trouble(f"Python {version} is not {wanted}", f"install Python {wanted}")
    return f"Python {version}"


def dependencies(folder: Path) -> str:
    """Every library that the package requires, within the range that was tested."""
    wrong, count = [], 0
    for name, wanted in _requirements(""):
        found, count = _version(name), count + 1
        if found is None:
            wrong.append(f"{name} is missing (wanted {wanted})")
        elif not _within(found, wanted):
            wrong.append(f"{name} {found} is not {wanted}")
    if wrong:
        raise Trouble("; ".join(wrong), "pip install --upgrade unisono")
    return f"{count} libraries, all within the versions that were tested"


def flower(folder: Path) -> str:
    """Studies between machines travel over Flower."""
    [(name, wanted)] = [one for one in _requirements("flower") if one[0] == "flwr"]
    found, remedy = _version(name), "pip install 'unisono[flower]'"
    if found is None:
        words = "Flower is not installed: studies run on this machine only"
        raise Trouble(words, remedy, "warning")
    if not _within(found, wanted):
        raise Trouble(f"Flower {found} is not {wanted}", remedy, "warning")
    return f"Flower {found}"


def _requirements(extra: str) -> list[tuple[str, str]]:
    """Names and ranges that the package's own metadata state, without or with an extra's."""
    from packaging.requirements import Requirement

    stated = [Requirement(line) for line in metadata.requires("unisono") or []]
    wanted = [
        one
        for one in stated
        if (one.marker is None and not extra)
        or (one.marker is not None and extra and one.marker.evaluate({"extra": extra}))
    ]
    return [(one.name, str(one.specifier) or "any version") for one in wanted]


def _within(found: str, wanted: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return wanted == "any version" or SpecifierSet(wanted).contains(found, prereleases=True)


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


# ------------------------------------------------------------- arithmetic and chance


def jax_works(folder: Path) -> str:
    """A compiled program gives the right sum on the processor."""
    import jax
    import jax.numpy as jnp

    device = jax.devices("cpu")[0]
    with jax.default_device(device):
        total = int(jax.jit(lambda x: jnp.sum(x * x))(jnp.arange(1000, dtype=jnp.int32)))
    if total != 332_833_500:
        raise Trouble(f"a compiled sum is {total}, not 332833500", "reinstall jax and jaxlib")
    return f"JAX {jax.__version__} compiles for the processor"


def entropy(folder: Path) -> str:
    """All keys and noise begin with the operating system's random bytes."""
    drawn = {os.urandom(32) for _ in range(64)}
    if len(drawn) < 64:
        words = "the operating system repeats its random bytes: noise could be subtracted"
        raise Trouble(words, "do not run studies on this machine; restart it or its container")
    return "the operating system gives random bytes"


def samplers(folder: Path) -> str:
    """The exact sampler, on a fixed key: as the standard says, and as wide as asked."""
    import numpy as np

    from unisono.core.noise import Keystream, discrete_gaussian

    remedy = "do not run studies with this installation; reinstall cryptography and unisono"
    if Keystream(bytes(32)).bytes(8).hex() != "76b8e0ada0f13d90":
        raise Trouble("ChaCha20 differs from the test vector of RFC 8439", remedy)
    drawn = np.asarray(discrete_gaussian(Keystream(bytes(range(32))), _STD, _DRAWS), float)
    mean, width = float(drawn.mean()), float(drawn.std())
    # Six standard errors; the key is fixed, so a sound installation always passes.
    if abs(mean) > 6 * _STD / _DRAWS**0.5 or abs(width / _STD - 1) > 6 / (2 * _DRAWS) ** 0.5:
        words = f"noise of standard deviation {_STD:g} came out as {width:.3g} about {mean:.3g}"
        raise Trouble(words, remedy)
    return "keystream as in RFC 8439, noise as wide as asked"


def cryptography(folder: Path) -> str:
    """Signatures, key agreement and TLS, which the secure sum and the transport stand on."""
    import ssl

    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    one, other = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    signer = Ed25519PrivateKey.generate()
    agreed = one.exchange(other.public_key()) == other.exchange(one.public_key())
    refused = False
    try:
        signer.public_key().verify(signer.sign(b"yes"), b"no")
    except InvalidSignature:
        refused = True
    if not (agreed and refused and ssl.HAS_TLSv1_3):
        words = "key agreement, signatures or TLS 1.3 do not work"
        raise Trouble(words, "reinstall cryptography, and a Python that was built with OpenSSL 3")
    return f"X25519, Ed25519, TLS 1.3 ({ssl.OPENSSL_VERSION})"


# ------------------------------------------------------------- folders, clock, terminal


def ledger_folder(folder: Path) -> str:
    """A ledger counts only what is on the disk, and lets one writer in at a time."""
    import fcntl

    remedy = "keep ledgers in a folder on a local disk that you may write to (--folder)"
    if not folder.is_dir():
        raise Trouble(f"{folder} is no folder", "create it, or name another one with --folder")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".unisono-doctor-") as file:
            file.write(b"one line\n")
            file.flush()
            os.fsync(file.fileno())
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _second_lock(file.name):
                raise Trouble(f"two writers can lock the same file in {folder}", remedy)
    except OSError as error:
        raise Trouble(f"cannot write in {folder}: {error.strerror}", remedy) from None
    return f"{folder}: writes reach the disk, and locks keep a second writer out"


def _second_lock(name: str) -> bool:
    import fcntl

    with open(name, "rb") as again:
        try:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def disk(folder: Path) -> str:
    free = shutil.disk_usage(folder if folder.is_dir() else ".").free
    words, remedy = f"{free / 2**30:.1f} GB are free", "free some space, or name another --folder"
    if free < _LEAST_SPACE:
        raise Trouble(f"only {free / 2**20:.0f} MB are free: a ledger could fill the disk", remedy)
    if free < _SOME_SPACE:
        raise Trouble(words, remedy, "warning")
    return words


def clock(folder: Path) -> str:
    """Certificates and entries of ledgers bear the time."""
    now = time.time()
    if not _BUILT < now < _BUILT + 30 * _ONE_YEAR:
        shown = time.strftime("%Y-%m-%d", time.gmtime(now))
        raise Trouble(f"it cannot be {shown}", "set the machine's clock (NTP)", "warning")
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))


def compilation_cache(folder: Path) -> str:
    """Programs are compiled once, if they can be kept."""
    from unisono.engines.compilation_cache import cache_folder

    place = cache_folder()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=place):
            return str(place)
    except OSError as error:
        words = f"{place} cannot be written ({error.strerror}): every start compiles anew"
        remedy = "set XDG_CACHE_HOME to a folder that you may write to"
        raise Trouble(words, remedy, "warning") from None


def terminal(folder: Path) -> str:
    encoding = (getattr(sys.stdout, "encoding", None) or "unknown").lower()
    colours = "NO_COLOR is set" if os.environ.get("NO_COLOR") else "colours where the terminal can"
    try:
        "ε".encode(encoding)
    except (LookupError, UnicodeEncodeError):
        words = f"the terminal's encoding, {encoding}, has no Greek letters: they print as ?"
        raise Trouble(words, "set PYTHONIOENCODING=utf-8 or LANG=C.UTF-8", "warning") from None
    return f"{encoding}, {colours}"


def browser(folder: Path) -> str:
    """Only tests of the dashboard start one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    words = "no Chromium: only the tests of the dashboard need one"
    raise Trouble(words, "apt install chromium, if you want to run them", "warning")


CHECKS: dict[str, Callable[[Path], str]] = {
    "Python": python,
    "libraries": dependencies,
    "JAX": jax_works,
    "entropy": entropy,
    "exact noise": samplers,
    "cryptography": cryptography,
    "ledger folder": ledger_folder,
    "disk space": disk,
    "clock": clock,
    "compilation cache": compilation_cache,
    "Flower": flower,
    "terminal": terminal,
    "browser": browser,
}

__all__ = ["CHECKS", "HealthFinding", "State", "Trouble", "examine"]
