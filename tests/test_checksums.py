"""Checksums: every flipped bit is found, and formatting is not damage."""

import json
from pathlib import Path

from avow.core import checksums


def test_a_file_has_the_checksum_of_its_bytes(tmp_path: Path):
    data = bytes(range(256)) * 5000
    path = tmp_path / "rows"
    path.write_bytes(data)
    assert checksums.of_file(path) == checksums.of_bytes(data) == "501e51e0"


def test_every_flipped_bit_changes_the_checksum():
    data = bytearray(b"a row of an index")
    whole = checksums.of_bytes(bytes(data))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert checksums.of_bytes(bytes(data)) != whole
        data[bit // 8] ^= 1 << bit % 8


def test_a_sealed_document_survives_another_layout():
    document = checksums.sealed({"dim": 512, "model": "défaut", "tau": 0.05})
    again = json.loads(json.dumps(dict(reversed(document.items())), indent=3))
    assert checksums.intact(again) is True
    assert checksums.sealed(document) == document


def test_a_changed_document_is_told_from_one_without_a_checksum():
    document = checksums.sealed({"dim": 512, "bank": 30})
    assert checksums.intact(document | {"dim": 513}) is False
    assert checksums.intact({"dim": 512, "bank": 30}) is None
    assert checksums.intact(document | {"more": 1}) is False
