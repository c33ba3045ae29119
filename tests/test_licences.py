"""Every package that Avow brings has a known licence, and so has every shipped weight."""

import importlib.metadata
import json
import re
import sys
from pathlib import Path

from every import every

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "scripts"))
import licences  # noqa: E402

COPYLEFT = re.compile(r"\b[AL]?GPL|General Public License", re.IGNORECASE)


def missing(groups: dict[str, list[str]]) -> list[str]:
    known = licences.read_known()
    return sorted(name for name in licences.closure(groups) if not known.get(name))


def test_every_package_of_an_install_has_a_known_licence():
    """Mend it with `python scripts/licences.py`, then `scripts/docs`."""
    assert missing(licences.declared()) == []


def test_a_package_without_a_known_licence_is_noticed(monkeypatch):
    groups = {
        "avow": ["numpy>=1.26", "left_pad>=1"],
        "more": ["mine[extra]; python_version>'3'"],
    }
    assert missing(groups) == ["left-pad", "mine"]
    inner = {"numpy": ["hidden>=2", 'optional; extra == "all"'], "hidden": ["deeper"]}
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: inner.get(name, []))
    assert missing({"avow": ["numpy"]}) == ["deeper", "hidden"]
    assert missing({"avow": ["numpy[all]"]}) == ["deeper", "hidden", "optional"]


def test_no_licence_became_stricter_than_what_is_written():
    """A package that turns to the GPL, or whose entry forgets it, is noticed."""
    known = licences.read_known()

    def check(name: str) -> None:
        assert known[name]["licence"] and known[name]["for"]
        try:
            about = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            return  # not installed here
        stated = about.get("License-Expression") or (about.get("License") or "")[:200]
        classes = [
            one for one in about.get_all("Classifier") or [] if one.startswith("License")
        ]
        if COPYLEFT.search(" ".join([stated, *classes])):
            assert COPYLEFT.search(known[name]["licence"])

    every(sorted(known), check)


def test_the_gpl_stays_an_extra():
    """The wheels of pillow-heif carry x265."""
    entry = licences.read_known()["pillow-heif"]
    assert entry["for"] == ["dev", "heic"] or entry["for"] == ["heic"]
    assert "GPL-2.0" in entry["note"]


def test_every_file_of_weights_is_on_the_page():
    page = (ROOT / "docs" / "reference" / "licences.md").read_text("utf-8")
    for folder in (ROOT / "avow" / "weights").iterdir():
        assert f"avow/weights/{folder.name}" in page
    for word in ("MS-COCO", "Flickr8k", "ImageNet", "CC BY 4.0", "PDDL-1.0", "tokenizer.json"):
        assert word in page
    assert json.loads(licences.KNOWN.read_text())["psycopg"]["licence"] == "LGPL-3.0-only"
