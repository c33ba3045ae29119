"""The page on moments in videos: how well they are found, and what decoding costs."""

from benchmarks.pages import figures, moments
from benchmarks.pages.figures import Document, number

MOMENTS, DECODING = "video_moments", "video_decoding"
WAYS = {
    "segments": "segments",
    "frame": "the nearest frame alone",
    "window": "the nearest frame, with a fixed window around it",
    "grown": "the nearest frame, and its neighbours while they score well",
}
TRANSITIONS = {"cut": "cut", "fade": "cross-fade", "black": "fade through black"}


def render() -> str:
    kept, cost = figures.load(MOMENTS), figures.load(DECODING)
    dev, test = kept["dev"], kept["test"]
    return figures.page(
        "Results: moments in videos",
        f"{test['videos']} videos of {number(test['seconds'] / 60)} minutes in all, made of "
        f"{test['shots']} test photographs of Flickr8k and COCO: pans, zooms and an unsteady "
        "hand, with cuts, cross-fades and fades through black between them, in eight styles of "
        f"codec, rate, keyframes, rotation and noise. {test['ways']['segments']['queries']:,} "
        "captions ask for the time when their photograph is shown, among all videos, with the "
        "shipped model. The frames, one a second, are decoded, encoded and divided into "
        "segments as `avow.core.videos` and `avow.core.shots` do it. Such videos are easier "
        "than filmed ones: neighbouring shots have nothing in common, and borders are known "
        "exactly.",
        "## Finding the moment",
        "R@1 in percent: of the video, and of the moment with an overlap (intersection over "
        "union) of at least a half, or seven tenths. Error: seconds between a border of the "
        "first answer and the true one, where they overlap; median and mean. The window of "
        f"{number(test['window_seconds'])} seconds and the bar of the neighbours "
        f"({figures.fraction(test['grown_share'], 1)} of the way from the best score to the "
        f"video's median) are the best of those tried on {dev['videos']} videos of dev "
        "photographs.",
        ways(test),
        ratios(test),
        "## Borders",
        "The share of true borders with one of ours near them; a cross-fade's border is its "
        "middle.",
        borders(test),
        spurious(test),
        "## By style",
        styles(test),
        "## What was chosen on dev",
        f"{dev['videos']} videos of {number(dev['seconds'] / 60)} minutes. The price of a "
        "border, in variance; discounts where the picture jumped and where a keyframe came out "
        "of turn are those shipped. At these prices the discounts change little here, as "
        "neighbouring shots differ enough without them; they were kept for filmed shots that "
        "are alike.",
        prices(dev, test["settings"]),
        "Ways to pool the vectors of a segment, at the shipped price:",
        pooling(dev),
        "The mean is kept. The largest numbers are ahead by less than one query in a hundred, "
        "and whether that is chance was not tested.",
        *moments.sections(),
        "## What decoding costs",
        decoding(cost),
        figures.command(
            "python -m benchmarks.quality.video_moments --split dev",
            "python -m benchmarks.quality.video_moments",
            "python -m benchmarks.quality.video_trust --split dev",
            "python -m benchmarks.quality.video_trust",
            "python -m benchmarks.quality.video_real --clips DIR",
            "python -m benchmarks.quality.video_cases",
            "python -m benchmarks.quality.index_kills --videos 40",
            "python -m benchmarks.speed.video_decoding",
        ),
        figures.source(MOMENTS, *moments.names(), DECODING),
    )


def recall_cells(row: Document) -> list[str]:
    return [number(row[key], 1) for key in ("video", "iou_0.5", "iou_0.7")]


def ways(test: Document) -> str:
    rows = []
    for key, label in WAYS.items():
        row = test["ways"][key]
        errors = (
            f"{number(row['border_error_median'], 2)} / {number(row['border_error_mean'], 2)}"
        )
        rows.append([label, *recall_cells(row), errors])
    return figures.table(["", "video", "overlap half", "seven tenths", "error, s"], rows)


def ratios(test: Document) -> str:
    ways = test["ways"]
    tighter = ways["segments"]["iou_0.7"] / ways["grown"]["iou_0.7"]
    return (
        f"With an overlap of a half, segments find it {number(test['ratio_window'], 2)} "
        "times as often as the nearest frame with a window, and "
        f"{number(test['ratio_grown'], 2)} times as often as neighbours that score well; with "
        f"seven tenths, {number(tighter, 2)} times as often as these. Neighbours need the "
        "vector of every frame in the index; a segment is one vector, and its borders do not "
        "depend on the query."
    )


def borders(test: Document) -> str:
    rows = [
        [label, str(row["count"]), number(row["within_1s"], 1), number(row["within_0.5s"], 1)]
        for key, label in TRANSITIONS.items()
        if (row := test["borders"].get(key))
    ]
    return figures.table(["", "borders", "within a second, %", "within half a second, %"], rows)


def spurious(test: Document) -> str:
    row = test["borders"]["all"]
    return f"Of {row['placed']} borders that were placed, {row['spurious']} are not there."


def styles(test: Document) -> str:
    rows = []
    for name, row in test["styles"].items():
        cut, fade = (row["borders"].get(kind) for kind in ("cut", "fade"))
        rows.append([
            name, *recall_cells(row), number(cut["within_1s"]) if cut else "-",
            number(fade["within_1s"]) if fade else "-",
        ])  # fmt: skip
    head = ["style", "video", "overlap half", "seven tenths", "cuts, %", "fades, %"]
    return figures.table(head, rows)


def prices(dev: Document, settings: Document) -> str:
    chosen = [
        row
        for row in dev["prices"]
        if all(row[key] == settings[key] for key in ("jump_discount", "keyframe_discount"))
    ]
    rows = []
    for row in chosen:
        cells = [number(row["border"], 2), *recall_cells(row)]
        shares = [number(row["borders"][kind]["within_1s"]) for kind in ("cut", "fade")]
        cells += [*shares, str(row["borders"]["all"]["spurious"])]
        is_shipped = row["border"] == settings["border"]
        rows.append([f"**{cell}**" for cell in cells] if is_shipped else cells)
    overlaps = ["overlap half", "seven tenths"]
    head = ["price", "video", *overlaps, "cuts, %", "fades, %", "not there"]
    return figures.table(head, rows)


def pooling(dev: Document) -> str:
    rows = [[name, *recall_cells(row)] for name, row in dev["pooling"].items()]
    return figures.table(["", "video", "overlap half", "seven tenths"], rows)


def decoding(cost: Document) -> str:
    part, hours, damage = cost["cost"], cost["memory"], cost["damage"]
    rows = [
        [f"every {distance}", *(number(row[key], 1) for key in ("decode", "network", "ours")),
         number(row["ratio"], 2)]
        for distance, row in part["rows"].items()
    ]  # fmt: skip
    head = ["keyframe", "all frames decoded, s", "network, s", "Avow, all of it, s", "ratio"]
    refused = damage["refused"]
    return "\n\n".join([
        f"CPU seconds for {part['seconds']} seconds of {part['size']} H.264, of one process. "
        "Bare: PyAV decodes all frames, and the network encodes one a second. Avow reads "
        "keyframes, decodes what it needs, encodes, divides and pools. The ratio is bare to "
        "Avow: above one, Avow costs less.",
        figures.table(head, rows),
        f"A video of {hours['hours']} hours of {hours['size']} takes "
        f"{number(hours['megabytes'])} MB at most, {number(hours['megabytes_before'])} of them "
        "for the model before the video is opened. To save time the network ran on every "
        f"{hours['encoded_every']}th frame; vectors of all frames were kept.",
        f"Of {damage['files']} mutated files of seven formats {damage['read']} could still be "
        f"read in part, {refused} were refused with a sentence, and "
        f"{len(damage['fatal'])} did anything else.",
    ])  # fmt: skip
