"""What an index meets seldom: notes that are wrong, films that change while they are read."""

import json
import os

import pytest
from encoders import ColourEncoder
from moving import write_video
from samples import refusal

from avow.core import checksums
from avow.core.errors import WrongIndex
from avow.retrieval.indexing import index_folders
from avow.retrieval.negation import split_negation
from avow.retrieval.store.indexed_folders import cover, covered, note_reading, reads_text

NOTES = {
    "its checksum does not fit": {"folders": ["/a"], "checksum": "none"},
    "it does not list folders": {"folders": ["/a", 7]},
    "its frames a second are no number": {"folders": ["/a"], "fps": -1.0},
    "it does not say whether text is read": {"folders": ["/a"], "ocr": "yes"},
}


@pytest.mark.parametrize("why", NOTES)
def test_notes_of_folders_that_are_wrong_are_told_and_replaced(why, tmp_path):
    """What has a checksum that fits was not damaged, and still may not be what is noted."""
    noted = NOTES[why] if "checksum" in why else checksums.sealed(NOTES[why])
    (tmp_path / "folders.json").write_text(json.dumps(noted))
    for ask in (lambda: covered(tmp_path), lambda: cover(tmp_path, ["/b"])):
        assert why in refusal(ask, WrongIndex)
    cover(tmp_path, ["/b"], anew=True)
    assert covered(tmp_path) == ["/b"]


def test_that_text_is_read_is_noted_beside_the_folders(tmp_path):
    cover(tmp_path, ["/a", "/a/below"])
    for reads in (True, True, False):
        note_reading(tmp_path, reads)
        assert reads_text(tmp_path) is reads and covered(tmp_path) == ["/a"]


@pytest.mark.parametrize(
    ("query", "text", "without"),
    [
        ("no faces are shown", "no faces are shown", None),
        ("a beach without people, at night", "a beach at night", "people"),
    ],
)
def test_where_what_is_left_out_ends(query, text, without):
    split = split_negation(query)
    assert (split.text, split.without) == (text, without)


def test_a_film_that_changes_while_it_is_read_is_read_again_later(tmp_path):
    (tmp_path / "films").mkdir()
    film = write_video(tmp_path / "films" / "one.mp4", [("red", 2)])

    class Late(ColourEncoder):
        """While it looks at the frames, somebody writes to the file."""

        def encode_prepared(self, pixels):
            os.utime(film, (1, self.photographs + 2))
            return super().encode_prepared(pixels)

    def scanned(encoder):
        return index_folders([film.parent], index=tmp_path / "index", encoder=encoder)

    report = scanned(Late())
    assert (report.new, len(report.skipped)) == (0, 1)
    assert "changed while it was being read" in str(report.skipped[0])
    assert scanned(ColourEncoder()).new > 0
