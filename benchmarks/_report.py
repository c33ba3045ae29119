"""What every benchmark writes down: the figures, the machine, the date."""

import argparse
import contextlib
import datetime
import gc
import io
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import avow
from avow.cli import app
from avow.core.errors import AvowError

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Enough to know where a figure comes from."""
    import torch  # seconds, and most of what imports this module measures no network

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "gpu": device,
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "avow": avow.__version__,
        "date": datetime.date.today().isoformat(),
    }


def sizes_parser(about: str | None, **sizes: int) -> argparse.ArgumentParser:
    """A parser with one option for each size of a benchmark, and what it is by default."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


def commit() -> str:
    """The commit of the code that runs: of this clone, or as AVOW_COMMIT names it."""
    if named := os.environ.get("AVOW_COMMIT"):
        return named
    asked = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(asked, cwd=RESULTS.parent, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def keep(name: str, figures: dict[str, Any]) -> Path:
    """Write the figures of one benchmark to `results/NAME.json`."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **figures}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def read(name: str) -> dict[str, Any]:
    """The figures that were kept under a name."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def command(arguments: list[str], here: bool = False) -> dict[str, Any]:
    """Run `avow` with these arguments; the JSON object it prints last.

    here: in this process, which keeps what it has read and need not start again.
    """
    told = f"avow {' '.join(arguments)}"
    if here:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                app(arguments, standalone_mode=False)
        except AvowError as error:
            raise SystemExit(f"{told}\n{error}") from error
        finally:
            gc.collect()  # what was recorded for a device knows its networks, and they it
        return json.loads(out.getvalue().splitlines()[-1])
    done = subprocess.run(
        [sys.executable, "-m", "avow", *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{told}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])
