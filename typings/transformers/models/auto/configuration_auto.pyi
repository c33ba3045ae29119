from pathlib import Path
from typing import Any

class AutoConfig:
    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, local_files_only: bool, trust_remote_code: bool
    ) -> Any: ...
