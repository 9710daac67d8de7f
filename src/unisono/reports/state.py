"""What a run's documents say of its state, read in one way by reports and by the dashboard."""

import os

from unisono.runs.folder import Run

SIMULATED = "SIMULATION: the noise comes from a seed, so this run protects nobody."


def simulated(run: Run) -> bool:
    """Whether the noise came from a seed: its heading says so from the beginning, its certificate
    at the end. One of them is enough."""
    certificate = run.certificate if hasattr(run.certificate, "get") else None
    return bool(run.heading.simulated) or (
        certificate is not None and certificate.get("entropy") == "simulation"
    )


def opened(run: Run) -> int | None:
    """In how many rounds something was opened, once the run has ended; others were left out."""
    found = run.result.get("rounds_opened") if hasattr(run.result, "get") else None  # type: ignore[union-attr]
    whole = isinstance(found, int) and not isinstance(found, bool) and found >= 0
    return found if whole else None


def alive(process: int | None) -> bool:
    """Does the process exist on this machine? One that was not named is believed to."""
    if os.name != "posix" or not isinstance(process, int) or process <= 0:
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


__all__ = ["SIMULATED", "alive", "opened", "simulated"]
