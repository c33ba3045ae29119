"""What is kept of a run while it goes: JSON lines, and TensorBoard where installed."""

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from avow.core.files import room_needed, write_text
from avow.training.state import Progress


class Log:
    """Appends one line per epoch to `log.jsonl`; a resumed run keeps its older lines."""

    def __init__(self, run: Path, reached: Progress, enabled: bool = True):
        self.path = run / "log.jsonl"
        self.enabled = enabled
        self.board = None
        if not enabled:
            return
        self._forget_after(reached.epoch)
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(run / "tensorboard"), purge_step=reached.epoch)

    def epoch(self, **facts: Any) -> None:
        if not self.enabled:
            return
        line = json.dumps({"time": round(time.time(), 1), **facts})
        with room_needed(self.path), self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
        if self.board is not None:
            self.board.add_scalar("train/loss", facts["loss"], facts["epoch"])
            self.board.add_scalar("train/lr", facts["lr"], facts["epoch"])
            for name, value in facts["dev"].items():
                self.board.add_scalar(f"dev/{name}", value, facts["epoch"])

    def close(self) -> None:
        if self.board is not None:
            self.board.close()

    def _forget_after(self, epoch: int) -> None:
        """Drop lines of epochs that will be run again."""
        if not self.path.is_file():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _epoch_of(line) <= epoch]
        if len(kept) < len(lines):
            write_text(self.path, "".join(f"{line}\n" for line in kept))


def _epoch_of(line: str) -> float:
    try:
        return float(json.loads(line)["epoch"])
    except (ValueError, KeyError):
        return float("inf")  # a line that a kill cut short
