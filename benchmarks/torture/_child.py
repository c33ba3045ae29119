"""One batch of one promise, in this process; the last line it prints is what it found."""

import json
import sys
from pathlib import Path

import benchmarks.torture
from avow.core import folder


def main(name: str, place: str, first: str, count: str, *only: str) -> None:
    module = folder.find(benchmarks.torture, name)
    home, ready = Path(place) / "made", Path(place) / "ready"
    if not ready.exists():
        home.mkdir()
        if hasattr(module, "prepare"):
            module.prepare(home)
        ready.touch()
    more = {"only": only} if only else {}
    batch = module.batch(home, int(first), int(count), **more)
    print(f"\n{json.dumps(batch.to_dict())}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
