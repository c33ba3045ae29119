"""A folder at a URL, copied to this machine."""

import pytest

from avow.core import storage
from avow.core.errors import BadData, Unavailable
from avow.data.fetched import fetched


@pytest.fixture
def there(tmp_path):
    folder = tmp_path / "there"
    (folder / "train").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "train" / "0.npy").write_bytes(b"first")
    return folder


def files(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }


def test_a_copy_follows_its_url(there, tmp_path):
    url, home = f"file://{there}", tmp_path / "home"
    copy = fetched(url, home)
    assert files(copy) == files(there)
    before = (copy / "train" / "0.npy").stat().st_ino
    (there / "manifest.json").write_text('{"a": 1}')
    (there / "train" / "1.npy").write_bytes(b"second")
    assert fetched(f"{url}/", home) == copy and files(copy) == files(there)
    assert (copy / "train" / "0.npy").stat().st_ino == before  # not copied again
    (there / "train" / "1.npy").unlink()
    (copy / "train" / "0.npy").unlink()
    assert files(fetched(url, home)) == files(there)


def test_a_copy_that_was_cut_off_goes_on(there, tmp_path, monkeypatch):
    real = storage.opened

    def breaks(url):
        if url.endswith("0.npy"):
            raise Unavailable("cut off")
        return real(url)

    monkeypatch.setattr(storage, "opened", breaks)
    with pytest.raises(Unavailable, match="cut off"):
        fetched(f"file://{there}", tmp_path / "home")
    monkeypatch.setattr(storage, "opened", real)
    assert files(fetched(f"file://{there}", tmp_path / "home")) == files(there)


def test_a_file_of_another_length_is_told(there, tmp_path, monkeypatch):
    listed = storage.listed(f"file://{there}")
    wrong = [storage.RemoteFile(one.url, one.size + 1, 0, 1) for one in listed]
    monkeypatch.setattr(storage, "listed", lambda _: wrong)
    with pytest.raises(Unavailable, match="run the same command again"):
        fetched(f"file://{there}", tmp_path / "home")


def test_names_that_lead_out_are_refused(tmp_path, monkeypatch):
    outside = [storage.RemoteFile("s3://a/b/../../x", 1, 0, 1)]
    monkeypatch.setattr(storage, "listed", lambda _: outside)
    with pytest.raises(BadData, match="does not lie below"):
        fetched("s3://a/b", tmp_path / "home")
