"""Changes of saved files, as an attacker or a broken disk makes them; drawn by a seed.

    mutate(folder, random.Random(7))       "json avow.json recipe.loss.name='gift.evil'"

An attacker knows the format: after a change, checksums that a reader compares are written
anew where the format lets everybody do so.
"""

import contextlib
import importlib
import json
import os
import pickle
import random
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from avow.core import checksums, fingerprint, seals
from avow.retrieval.store import row_checksums

CODE = "gift.evil"
"""A module that lies beside the models and can be imported; nothing may do it."""
VALUES: tuple[Any, ...] = (
    *(CODE, "antigravity.fly", "os.path", "gift", "gift/evil", "..", "../../gift"),
    *("./gift.evil", "{0.__class__}", "%s%n", "'; DROP"),
    *("/etc/passwd", "/dev/zero", "//server/share", "\\\\server\\share", "file:///etc/passwd"),
    *("https://example.com/x", "somebody/model", "clip", "minilm", "default", "", " ", "a\0b"),
    *("\ud800", "x" * 100_000, "__import__('os').system('x')"),
    *(0, 1, -1, 2, 7, 10**7, 10**10, 2**31, 2**63, 10**400, -(2**63), 1e308, 0.5, -0.5),
    *(float("nan"), float("inf"), -float("inf"), None, True, False, [], {}, [[]], [1, "a"]),
    *({"name": CODE}, [CODE], ["a"] * 1000, {"a": {"b": {"c": 1}}}),
)
KEYS = ("allow_code", "reader", "name", "text_source", "auto_map", "quantization_config")
AIMED: dict[str, tuple[str, ...]] = {
    "avow.json": (
        *("recipe.loss.name", "recipe.method.name", "recipe.data.reader", "recipe.data.name"),
        *("recipe.features.backbone", "recipe.features.settings", "recipe.method.dim"),
        *("recipe.method.text", "recipe.method.text_source", "recipe.method.word_dim"),
        *("recipe.method.pool", "recipe.method.names", "recipe.loss.tau", "recipe.loss.learn"),
        *("recipe.train.trust", "visual.dim", "visual.identity", "history.learnt", "format"),
    ),
    "manifest.json": ("model", "dim", "views", "bank", "tau", "kind", "fingerprint", "format"),
    "weights.json": ("files", "tensors", "places"),
    "config.json": (
        *("model_type", "auto_map", "architectures", "text_config.hidden_size"),
        *("text_config.num_hidden_layers", "vision_config.image_size", "attn_implementation"),
        *("text_config.vocab_size", "projection_dim", "quantization_config", "torch_dtype"),
    ),
    "tokenizer_config.json": ("tokenizer_class", "auto_map", "model_max_length"),
}
"""Where names, sizes and places stand that decide what is opened."""
COLUMNS = (
    *("generations.engine", "generations.rows", "generations.half", "generations.number"),
    *("models.fingerprint", "models.generation", "models.stamp", "models.used"),
    *("items.kind", "items.text", "items.file", "items.content", "items.same_as"),
    *("stored.row", "stored.item", "stored.model", "files.path", "files.size"),
)


def mutate(folder: Path, draw: random.Random) -> str:
    """Change one file below `folder`; what was changed, in words."""
    files = sorted(one for one in folder.rglob("*") if one.is_file() and one.suffix != ".py")
    path = draw.choice(files)
    ways: list[Callable[..., str]] = [_bytes, _whole_file]
    if path.suffix == ".json":
        ways = [_json] * 6 + [_raw_json] + ways
    elif path.name == "catalogue.sqlite":
        ways = [_row] * 6 + ways
    elif path.suffix == ".safetensors":
        ways = [_header] * 2 + [_bytes]
    elif path.suffix in (".pt", ".npz"):
        ways = [_pickle] * 3 + [_member] * 2 + ways
    elif path.suffix in (".csv", ".jsonl"):
        ways = [_text] * 4 + ways
    way = draw.choice(ways)
    what = way(path, draw)
    _seal(folder)
    return f"{way.__name__.strip('_')} {path.relative_to(folder)} {what}"


def _json(path: Path, draw: random.Random) -> str:
    content = json.loads(path.read_text("utf-8"))
    value = draw.choice(VALUES)
    aimed = AIMED.get(path.name, ())
    if aimed and draw.random() < 0.6:
        keys = draw.choice(aimed).split(".")
        inside = content
        for key in keys[:-1]:
            inside = inside.setdefault(key, {})
        inside[keys[-1]] = value
        place = ".".join(keys)
    else:
        inside, key = draw.choice(list(_places(content)))
        place = str(key)
        kind = draw.randrange(4)
        if kind == 0 and isinstance(inside, dict):
            place = draw.choice(KEYS)
            inside[place] = value
        elif kind == 1:
            value = "deleted"
            del inside[key]
        else:
            inside[key] = value
    path.write_text(json.dumps(content), "utf-8")
    return f"{place}={repr(value)[:60]}"


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every key and every place of every object and list."""
    keys = list(content) if isinstance(content, dict) else range(min(len(content), 5))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _places(content[key])


def _raw_json(path: Path, draw: random.Random) -> str:
    """What Python's writer of JSON would not write."""
    texts = ("", "{", "[" * 100_000, '{"a":' * 5_000, "null", "7", '"gift.evil"', "[]", "{}")
    text = draw.choice((*texts, "\ufeff{}", "{}\0", '{"format": 1' + "0" * 5000 + "}"))
    path.write_text(text, "utf-8")
    return repr(text)[:40]


def _bytes(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    kind = draw.choice(("cut", "flip", "zero", "garbage", "more"))
    start = draw.randrange(len(content) + 1)
    if kind == "cut":
        del content[start:]
    elif kind == "flip" and content:
        for _ in range(draw.choice((1, 8, 64))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif kind == "zero":
        size = min(512, len(content) - start)
        content[start : start + size] = bytes(size)
    elif kind == "garbage":
        content[start : start + 64] = draw.randbytes(64)
    else:
        content += draw.randbytes(100)
    path.write_bytes(content)
    return f"{kind} at {start}"


def _whole_file(path: Path, draw: random.Random) -> str:
    kind = draw.choice(("missing", "empty", "folder", "pipe", "link", "other"))
    others = sorted(one for one in path.parent.iterdir() if one.is_file() and one != path)
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(draw.choice(("/etc/passwd", "/dev/zero", "..", str(path))))
    elif kind == "other" and others:
        shutil.copy(draw.choice(others), path)
    return kind


def _row(path: Path, draw: random.Random) -> str:
    table, column = draw.choice(COLUMNS).split(".")
    value = draw.choice([one for one in VALUES if not isinstance(one, dict | list)])
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(min(value, 10**300))
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass") if draw.random() < 0.1 else value
    with sqlite3.connect(path) as link:
        link.execute("PRAGMA ignore_check_constraints = ON")
        try:
            link.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", [value])
        except (sqlite3.Error, UnicodeEncodeError) as error:
            return f"{table}.{column} stays ({error})"
    link.close()
    _seal_rows(path)
    return f"{table}.{column}={repr(value)[:60]}"


def _seal_rows(path: Path) -> None:
    """Give every row of a catalogue the checksum of what it holds now."""
    with contextlib.suppress(Exception), contextlib.closing(sqlite3.connect(path)) as link:
        row_checksums.teach(link)
        with link:
            row_checksums.seal_everything(link)


def _header(path: Path, draw: random.Random) -> str:
    """Another header of a safetensors file, of the right length."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    names = [name for name in header if name != "__metadata__"]
    name = draw.choice(names)
    kind = draw.choice(("shape", "dtype", "offsets", "name", "length"))
    if kind == "shape":
        header[name]["shape"] = draw.choice(([10**7, 10**7], [], [0], [-1], [2**63], [1] * 100))
    elif kind == "dtype":
        header[name]["dtype"] = draw.choice(("F64", "I8", "BOOL", "F8_E4M3", "C64"))
    elif kind == "offsets":
        header[name]["data_offsets"] = draw.choice(([0, 10**12], [5, 1], [-1, 4], []))
    elif kind == "name":
        header[draw.choice(("../x", "gift.evil", "0.visual", ""))] = header.pop(name)
    text = json.dumps(header).encode()
    told = draw.choice((2**60, 0, len(text) + 7)) if kind == "length" else len(text)
    path.write_bytes(told.to_bytes(8, "little") + text + content[8 + size :])
    return f"{kind} of {name}"


class _Gift:
    """What calls a function of another module when it is unpickled."""

    def __init__(self, called: Callable[..., Any], *args: Any):
        self.called = (called, args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.called


def _pickle(path: Path, draw: random.Random) -> str:
    """A pickle that imports a module, runs a text, or writes a file, if anybody loads it."""
    target = str(path.parent.parent / "ran")
    gifts = (
        _Gift(importlib.import_module, CODE),
        _Gift(exec, f"open({target!r}, 'w')"),
        _Gift(os.system, f"touch {target}"),
        _Gift(open, target, "w"),
    )
    gift = pickle.dumps(draw.choice(([draw.choice(gifts)], {"model": draw.choice(gifts)})), 2)
    names = _members(path)
    if not names or draw.random() < 0.2:
        path.write_bytes(gift)
        return "the whole file"
    name = draw.choice(names)
    if path.suffix == ".npz":
        head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
        head += b" " * (-(len(head) + 11) % 64) + b"\n"
        gift = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + gift
    else:
        name = next((one for one in names if one.endswith(".pkl")), name)
    _rewrite(path, {name: gift})
    return name


def _member(path: Path, draw: random.Random) -> str:
    """Another content, or none, of one file of an archive."""
    names = _members(path)
    if not names:
        return _bytes(path, draw)
    name = draw.choice(names)
    with zipfile.ZipFile(path) as archive:
        content = bytearray(archive.read(name))
    kind = draw.choice(("gone", "empty", "flip", "zeros"))
    if kind == "flip" and content:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif kind == "zeros":
        content = bytearray(2**22)
    elif kind == "empty":
        content = bytearray()
    _rewrite(path, {name: None if kind == "gone" else bytes(content)})
    return f"{kind} {name}"


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return []


def _rewrite(path: Path, changes: dict[str, bytes | None]) -> None:
    """The same archive with other contents, and right checksums."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()} | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            if content is not None:
                archive.writestr(name, content)


def _text(path: Path, draw: random.Random) -> str:
    """Another value in one of the fields of a table."""
    lines = path.read_text("utf-8").splitlines()
    place, value = draw.randrange(len(lines)), draw.choice(VALUES)
    if path.suffix == ".jsonl":
        content = json.loads(lines[place])
        key = draw.choice((*content, *KEYS))
        lines[place] = json.dumps({**content, key: value})
    else:
        fields = lines[place].split(",")
        key = draw.randrange(len(fields))
        fields[key] = str(value).replace("\ud800", "?")
        lines[place] = ",".join(fields)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return f"{key}={repr(value)[:60]}"


def _seal(folder: Path) -> None:
    """Write the checksums anew that anybody can compute."""
    for path in folder.rglob("*.json"):
        if not path.is_file():  # a pipe would be waited for
            continue
        try:
            content = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if not isinstance(content, dict):
            continue
        before = json.dumps(content)
        files = content.get("files")
        if path.name == "weights.json" and isinstance(files, dict):
            for name in files:
                if isinstance(name, str) and name.startswith("weights-"):
                    file = path.parent / name
                    files[name] = fingerprint.of_file(file) if file.is_file() else files[name]
        if checksums.KEY in content:
            content = checksums.sealed(content)
        if json.dumps(content) != before:
            path.write_text(json.dumps(content), "utf-8")
    for path in folder.rglob(seals.LIST):
        with contextlib.suppress(Exception):
            seals.write_list(path.parent)
