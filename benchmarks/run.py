"""Run every benchmark and keep what it printed in benchmarks/results/.

python benchmarks/run.py [name ...]
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    known = sorted(p.stem for p in HERE.glob("*.py") if p.name != Path(__file__).name)
    unknown = set(names) - set(known)
    if unknown:
        print(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(known)}")
        return 2
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    failed = []
    for name in names or known:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py")]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        print(run.stdout + (run.stderr if run.returncode else ""), flush=True)
        (results / f"{name}.txt").write_text(run.stdout)
        if run.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
