"""What decoding videos costs: CPU beside bare decoding, memory of two hours, damaged files.

    python -m benchmarks.speed.video_decoding [cost] [memory] [damage]

cost    40 seconds of 720p, a keyframe every 250 or every 30 frames: frames, segments, vectors
        by Avow against PyAV decoding all frames plus the network alone, CPU seconds of one
        process
memory  a video of two hours to segments and vectors; the largest resident size of the process
damage  300 mutated files of seven formats, each probed, sampled, looked at and cut by a child
        process: what is raised must be an error of Avow's own
Without a name all three are run. Figures of parts that are not run again are kept.
"""

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from avow.core import clips, videos
from avow.core.errors import AvowError
from avow.core.shots import FrameLog, pooled, segments
from avow.retrieval.encoders.opening import open_encoder
from benchmarks._report import RESULTS, keep, read

NAME, SECONDS, ROUNDS, AT_ONCE = "video_decoding", 40, 2, 4
HOURS, EVERY_FRAME = 2, 120
MUTATED, SEED, PATIENCE = 300, 0, 60
_CHILD_MEMORY, _CHILD_DAMAGE = "child-memory", "child-damage"


def scene(number: int, width: int, height: int) -> np.ndarray:
    """Something with edges and movement, a new one every 125 frames."""
    rng = np.random.default_rng(number // 125)
    tiles = rng.integers(0, 255, (9, 16, 3)).astype(np.uint8)
    large = tiles.repeat(-(-height // 9), 0).repeat(-(-width // 16), 1)[:height, :width]
    return np.roll(large, 3 * number, axis=1)


def write(
    path: Path, count: int, rate: int, size: tuple[int, int], codec: str, **options: str
) -> Path:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate, options=options)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, rate)
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(scene(number, *size), "rgb24")
            frame.pts, frame.time_base = number, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def cpu(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def bare_decoding(path: Path) -> None:
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "AUTO"
        for _ in container.decode(video=0):
            pass


def ours(path: Path, encoder: Any, encode_every: int = 1) -> int:
    """What indexing does: frames, vectors, segments."""
    keyframes = videos.keyframe_times(path)
    log, waiting, vectors = FrameLog(), list[np.ndarray](), list[np.ndarray]()
    with videos.frames(path, keyframes=keyframes) as frames:
        for frame in frames:
            log.add(frame)
            if len(log) % encode_every == 0 or not vectors:
                waiting.append(encoder.prepare(Image.fromarray(frame.image)))
            else:
                vectors.append(vectors[-1] + np.float32(0))  # as much memory as its own
            if len(waiting) == AT_ONCE or (encode_every > 1 and waiting):
                vectors += list(encoder.encode_prepared(np.stack(waiting)))
                waiting.clear()
    if waiting:
        vectors += list(encoder.encode_prepared(np.stack(waiting)))
    stacked = np.stack(vectors)
    parts = segments(log, stacked, keyframes)
    return len(pooled(stacked, parts, log, encoder.views))


def cost(folder: Path) -> dict[str, Any]:
    encoder: Any = open_encoder()
    pixels = np.stack([encoder.prepare(Image.fromarray(scene(9, 512, 288)))] * AT_ONCE)
    rows = {}
    for distance in (250, 30):
        path = write(
            folder / f"{distance}.mp4", SECONDS * 25, 25, (1280, 720), "libx264",
            preset="veryfast", g=str(distance), sc_threshold="0",
        )  # fmt: skip
        taken: dict[str, list[float]] = {"decode": [], "network": [], "ours": []}
        encoder.encode_prepared(pixels)
        for _ in range(ROUNDS):
            taken["decode"].append(cpu(lambda path=path: bare_decoding(path)))
            taken["network"].append(
                cpu(
                    lambda: [encoder.encode_prepared(pixels) for _ in range(SECONDS // AT_ONCE)]
                )
            )
            taken["ours"].append(cpu(lambda path=path: ours(path, encoder)))
        ratios = [
            (decode + network) / whole
            for decode, network, whole in zip(*taken.values(), strict=True)
        ]
        row = {key: statistics.median(values) for key, values in taken.items()}
        rows[str(distance)] = row | {"ratio": statistics.median(ratios), "rounds": taken}
        print(f"keyframe every {distance}: {row} ratio {rows[str(distance)]['ratio']:.2f}")
    return {"seconds": SECONDS, "size": "1280 x 720", "rows": rows}


def write_long(path: Path) -> Path:
    """Two hours, quick to encode: one frame a second, the same picture for 25 of them."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=1, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        frame = av.VideoFrame(1280, 720)
        for number in range(HOURS * 3600):
            if number % 25 == 0:
                frame = av.VideoFrame.from_ndarray(scene(125 * number, 1280, 720), "rgb24")
                frame = frame.reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 1)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def memory(folder: Path) -> dict[str, Any]:
    return measured_memory(write_long(folder / "long.mp4"))


def measured_memory(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed.video_decoding", _CHILD_MEMORY, str(path)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    parts, megabytes, before, seconds = done.stdout.split()
    row = {
        "hours": HOURS, "size": "1280 x 720", "megabytes": float(megabytes),
        "megabytes_before": float(before), "segments": int(parts), "seconds": float(seconds),
        "encoded_every": EVERY_FRAME,
    }  # fmt: skip
    print(row)
    return row


def child_memory(path: Path) -> None:
    encoder = open_encoder()
    blank = Image.new("RGB", (512, 288))
    encoder.encode_images([blank])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    parts = ours(path, encoder, EVERY_FRAME)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(parts, peak / 1024, before / 1024, time.perf_counter() - started)


def originals(folder: Path) -> list[Path]:
    kinds = (
        *(("libx264", "mp4"), ("libx264", "mkv"), ("libx264", "mov"), ("mpeg4", "avi")),
        ("libvpx-vp9", "webm"),
    )
    paths = [write(folder / f"o.{end}", 75, 25, (64, 48), codec) for codec, end in kinds]
    images = [Image.fromarray(scene(125 * number, 32, 24)) for number in range(6)]
    for end in ("gif", "webp"):
        images[0].save(
            folder / f"o.{end}", save_all=True, append_images=images[1:], duration=500
        )
        paths.append(folder / f"o.{end}")
    return paths


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Bytes changed, removed, repeated, zeroed or cut off; headers more often than the rest."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 3, 10, 100))):
        start = draw.randrange(min(len(changed), draw.choice((64, 1024, len(changed)))))
        length = draw.choice((1, 1, 4, 8, 64, 1000))
        way = draw.randrange(6)
        if way == 0:
            changed[start : start + length] = draw.randbytes(length)
        elif way == 1:
            changed[start] ^= 1 << draw.randrange(8)
        elif way == 2:
            changed[start : start + length] = bytes(length)
        elif way == 3:
            changed[start : start + length] = b"\xff" * length
        elif way == 4:
            del changed[start : start + length]
        else:
            changed[start:start] = changed[start : start + length]
        if len(changed) < 16:
            return bytes(changed)
    return bytes(changed[: draw.randrange(len(changed))] if draw.random() < 0.1 else changed)


def damage(folder: Path) -> dict[str, Any]:
    draw, sources = random.Random(SEED), originals(folder)
    waiting = list[Path]()
    for number in range(MUTATED):
        source = sources[number % len(sources)]
        path = folder / f"m{number}{source.suffix}"
        path.write_bytes(mutated(source.read_bytes(), draw))
        waiting.append(path)
    counts: dict[str, int] = {"read": 0, "refused": 0}
    fatal = list[str]()
    while waiting:
        lines, why = looked_at(waiting)
        for line in lines:
            outcome, _, more = line.partition(" ")
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome not in ("read", "refused"):
                fatal.append(more)
        waiting = waiting[len(lines) :]
        if waiting:  # the child ended in the middle of the first of these
            fatal.append(f"{waiting[0].suffix} {why}")
            waiting = waiting[1:]
    print(counts, "fatal:", fatal)
    return {"files": MUTATED, "seed": SEED, **counts, "fatal": fatal}


def looked_at(paths: list[Path]) -> tuple[list[str], str]:
    """What a child says of every file, and why it ended before the last."""
    told = paths[0].parent / "told.txt"
    told.unlink(missing_ok=True)
    arguments = [
        sys.executable,
        "-m",
        "benchmarks.speed.video_decoding",
        _CHILD_DAMAGE,
        str(told),
        *map(str, paths),
    ]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as child:
        number, since = 0, time.monotonic()
        while child.poll() is None:
            time.sleep(0.2)
            lines = told.read_text().count("\n") if told.exists() else 0
            if lines > number:
                number, since = lines, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                child.kill()
                return told.read_text().splitlines(), f"took over {PATIENCE} seconds"
    return told.read_text().splitlines(), f"ended by {child.returncode}"


def child_damage(told: Path, paths: list[Path]) -> None:
    with told.open("w") as out:
        for path in paths:
            print(outcome_of(path), file=out, flush=True)


def outcome_of(path: Path) -> str:
    """Everything that reads a file is tried; one that cannot be read is refused by each."""
    ways: tuple[Callable[[], Any], ...] = (
        lambda: videos.probe(path),
        lambda: videos.keyframe_times(path),
        lambda: list(videos.frames(path, 0.5)),
        lambda: videos.frame_at(path, 1.0),
        lambda: clips.cut(path, 0.5, 1.5, path.with_name("clip.mkv")),
    )
    read = 0
    for way in ways:
        try:
            way()
            read += 1
        except AvowError:
            pass
        except BaseException as error:
            return f"other {path.suffix} {type(error).__name__}: {error}"
    return "read" if read else "refused"


PARTS = {"cost": cost, "memory": memory, "damage": damage}


def main() -> None:
    if sys.argv[1:2] == [_CHILD_MEMORY]:
        return child_memory(Path(sys.argv[2]))
    if sys.argv[1:2] == [_CHILD_DAMAGE]:
        return child_damage(Path(sys.argv[2]), [Path(one) for one in sys.argv[3:]])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    chosen = parser.parse_args().parts or list(PARTS)
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            measured = PARTS[name](Path(folder))
        kept = read(NAME) if (RESULTS / f"{NAME}.json").exists() else {}
        kept.pop("machine", None)
        print(f"-> {keep(NAME, {**kept, name: measured})}")


if __name__ == "__main__":
    main()
