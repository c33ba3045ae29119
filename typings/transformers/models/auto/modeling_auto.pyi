from collections.abc import Mapping
from typing import Any

MODEL_MAPPING: Mapping[type, Any]
