"""The tables of a catalogue: as format 1 had them, and what format 2 adds for its checksums.

A new catalogue is made by both parts in turn, so that one that was brought from format 1 to
format 2 is the same to the last letter, and a damaged definition shows.
"""

FORMAT = 2
PLAIN = 1
"""The format before checksums: such an index can be searched, and the next run adds them."""

FORMAT_1 = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, folder TEXT NOT NULL,
  name TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
  content TEXT NOT NULL, gone INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX files_by_path ON files(path) WHERE gone = 0;
CREATE INDEX files_by_content ON files(content);
CREATE TABLE items (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL REFERENCES files(id),
  part TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL, content TEXT NOT NULL,
  text TEXT, width INTEGER, height INTEGER, taken TEXT, look INTEGER, same_as INTEGER,
  gone INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX items_by_place ON items(file, part) WHERE gone = 0;
CREATE INDEX items_by_content ON items(content, kind);
CREATE TABLE tags (
  item INTEGER NOT NULL REFERENCES items(id) ON DELETE CASCADE, tag TEXT NOT NULL,
  PRIMARY KEY (item, tag)) WITHOUT ROWID;
CREATE TABLE models (
  fingerprint TEXT PRIMARY KEY, generation INTEGER NOT NULL, stamp INTEGER NOT NULL,
  used REAL NOT NULL);
CREATE TABLE generations (
  model TEXT NOT NULL REFERENCES models(fingerprint), number INTEGER NOT NULL,
  rows INTEGER NOT NULL, half INTEGER NOT NULL, engine TEXT NOT NULL,
  PRIMARY KEY (model, number)) WITHOUT ROWID;
CREATE TABLE stored (
  model TEXT NOT NULL, generation INTEGER NOT NULL,
  item INTEGER NOT NULL REFERENCES items(id) ON DELETE CASCADE, row INTEGER NOT NULL,
  PRIMARY KEY (model, generation, item)) WITHOUT ROWID;
CREATE INDEX stored_by_item ON stored(item);
CREATE TABLE known (name TEXT NOT NULL, files TEXT NOT NULL, fingerprint TEXT NOT NULL,
  PRIMARY KEY (name, files)) WITHOUT ROWID;
CREATE TABLE skipped (
  path TEXT PRIMARY KEY, why TEXT NOT NULL, happened REAL NOT NULL, size INTEGER,
  mtime_ns INTEGER, inode INTEGER, again INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE feedback (
  id INTEGER PRIMARY KEY, query TEXT NOT NULL, item INTEGER NOT NULL,
  good INTEGER NOT NULL, happened REAL NOT NULL);
"""

FORMAT_2 = """
ALTER TABLE files ADD COLUMN checksum INTEGER;
ALTER TABLE items ADD COLUMN tagged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN mark INTEGER;
ALTER TABLE items ADD COLUMN checksum INTEGER;
ALTER TABLE models ADD COLUMN checksum INTEGER;
ALTER TABLE generations ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE generations ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
ALTER TABLE generations ADD COLUMN total INTEGER NOT NULL DEFAULT 0;
ALTER TABLE generations ADD COLUMN checksum INTEGER;
ALTER TABLE known ADD COLUMN checksum INTEGER;
ALTER TABLE skipped ADD COLUMN checksum INTEGER;
ALTER TABLE feedback ADD COLUMN checksum INTEGER;
CREATE TABLE blocks (
  model TEXT NOT NULL, generation INTEGER NOT NULL, name TEXT NOT NULL,
  block INTEGER NOT NULL, rows INTEGER NOT NULL, checksum INTEGER NOT NULL,
  PRIMARY KEY (model, generation, name, block)) WITHOUT ROWID;
CREATE TABLE attached (
  model TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (model, name)) WITHOUT ROWID;
CREATE TABLE sums (
  name TEXT PRIMARY KEY, count INTEGER NOT NULL, total INTEGER NOT NULL) WITHOUT ROWID;
"""

COLUMNS = {
    "files": "id path folder name size mtime_ns inode content gone",
    "items": "id file part kind content text width height taken look same_as gone tagged",
    "models": "fingerprint generation stamp used",
    "generations": "model number rows half engine sealed",
    "known": "name files fingerprint",
    "skipped": "path why happened size mtime_ns inode again",
    "feedback": "id query item good happened",
}
"""What the checksum of a row covers, by table."""
KEYS = {
    "files": "id",
    "items": "id",
    "models": "fingerprint",
    "generations": "model number",
    "known": "name files",
    "skipped": "path",
    "feedback": "id",
}


def statements(script: str) -> list[str]:
    return [part.strip() for part in script.split(";\n") if part.strip()]
