"""The page that says whether people would agree with the trust of the default model."""

import statistics

from benchmarks.pages import (
    by_picture,
    common_things,
    elsewhere,
    figures,
    how_many,
    kinds,
    large_galleries,
    other_seeds,
)
from benchmarks.pages.figures import Document, fraction, percent

FILE, FIRST, TRAINED = "people", "first_answers", "papers/answers"
SMALL, CURVES, DEPTHS = "small_galleries", "label_curves", "first_k"
GALLERIES = {
    "flickr8k": "Flickr8k test",
    "coco": "COCO test, a part",
    "flickr8k+coco": "both together",
}
DEEP = {"flickr8k test": "Flickr8k test", "coco test": "COCO test"}
LABELS = {
    "now": "shipped",
    "earlier": "earlier model, policy fitted likewise",
    "before": "earlier model, its first policy",
}


def render() -> str:
    kept = figures.load(FILE)
    return figures.page(
        "Results: would people agree with it?",
        "The trust of the shipped model over test photographs: captions whose photograph is "
        "there, nouns that five pictures or more show, typed in four forms, and names that no "
        "caption has. How the policy is fitted: "
        "[what makes an answer trustworthy](../explanation/trust.md).",
        "## What is refused",
        refused(kept["galleries"]),
        "## Absent names, at equal shares of present ones",
        "Share of absent names refused where so many of the nouns with a fitting hit are "
        "refused; ± is the standard error over redrawn queries. Beside it the best cut on a "
        "single score for each share. A large part of the lead is what people know "
        "beforehand: how often a word is said in captions.",
        absent(kept["galleries"]),
        "## Among a few dozen pictures",
        small_galleries(figures.load(SMALL)["rows"]),
        "## Common things that are not there",
        common_things.section(),
        "## Captions whose photograph is not there",
        elsewhere.section(),
        "## Searches by picture",
        by_picture.section(),
        *large_galleries.section(),
        "## What experts said of the hits shown",
        "Captions of Flickr8k test and the hits shown for them that experts judged; each "
        "stands for the hits of its rank. Half of the judged images gave the curve of the "
        'labels; "held back" is the other half. In brackets the 95 % interval of the judged '
        "share.",
        experts(kept["experts"]),
        curves(figures.load(CURVES)),
        "## One of the first k",
        "What is stated that one of the first k hits fits, beside the share of queries where "
        "one does; in brackets the log loss. By rho: as shipped "
        "([numbers that agree](../explanation/trust.md#numbers-that-agree)); the rule was "
        "chosen on the queries held out, and the others were measured once. Test captions have "
        "their photograph there, and the fit takes that for as likely as not.",
        first_k(figures.load(DEPTHS)["rows"]),
        "## How many fit, name by name",
        how_many.section(),
        "## Promises of each kind",
        kinds.section(),
        "## Promises in halves",
        "Share of random halves in which the answers of one half broke the promise of the "
        "other, which may be broken in one of ten.",
        promises(kept["galleries"]),
        "## Good first answers told from bad ones",
        "Captions over a thousand photographs, the first hit as a search shows it. AUROC of "
        "P(relevant) beside the best single measures and u = K / S; ± is the standard error "
        "over redrawn queries. Relevant: as the agreement with the picture's captions says; "
        "right: the annotated photograph, which the shipped P is not fitted for. The shipped P "
        "is about every hit of every kind of query; P fitted on dev is about the first hits of "
        "captions alone, of dev of both datasets.",
        first_answers(figures.load(FIRST)["rows"]),
        "The same for captions of Flickr8k test and networks that recipes trained. Relevant is "
        "the mean probability that a person says the first answer fits; AUROC of what tells "
        "good first answers, P fitted on dev; ± between seeds.",
        trained_answers(figures.load(TRAINED)["runs"]),
        *other_seeds.section(),
        figures.command(
            "python -m benchmarks.quality.people --earlier people.json",
            "python -m benchmarks.quality.small_galleries",
            *common_things.COMMANDS,
            *elsewhere.COMMANDS,
            *kinds.COMMANDS,
            *by_picture.COMMANDS,
            "python -m benchmarks.quality.label_curves",
            "python -m benchmarks.quality.first_k",
            *how_many.COMMANDS,
            "python -m benchmarks.quality.first_answers",
            "python -m benchmarks.quality.run_answers FOLDER",
            *other_seeds.COMMANDS,
        ),
        figures.source(
            FILE,
            SMALL,
            common_things.FILE,
            elsewhere.FILE,
            kinds.FILE,
            by_picture.FILE,
            large_galleries.FILE,
            CURVES,
            DEPTHS,
            *how_many.FILES,
            FIRST,
            TRAINED,
            other_seeds.FILE,
        ),
    )


def policies(galleries: Document) -> list[str]:
    first = next(iter(galleries.values()))
    return [name for name in LABELS if name in first]


def refused(galleries: Document) -> str:
    head = ["gallery", "", "captions refused", "nouns refused", "all forms alike",
            "absent names refused", "P of nouns: stated", "true"]  # fmt: skip
    rows = [
        [
            f"{GALLERIES[key]}, {row['photographs']:,}",
            LABELS[name],
            percent(row[name]["captions_refused"], 1),
            percent(row[name]["nouns_refused"], 1),
            percent(row[name]["forms_alike"]),
            percent(row[name]["absent_refused"]),
            fraction(row[name]["nouns_stated"], 2),
            fraction(row[name]["nouns_true"], 2),
        ]
        for key, row in galleries.items()
        for name in policies(galleries)
    ]
    return figures.table(head, rows)


def absent(galleries: Document) -> str:
    shares = list(next(iter(galleries.values()))["now"]["absent_at"])
    rows = []
    for key, row in galleries.items():
        for name in policies(galleries):
            cells = [_pair(row[name]["absent_at"][share]) for share in shares]
            rows.append([GALLERIES[key], LABELS[name], *cells])
        cuts = row["single cuts"]
        best = [max(cuts, key=lambda one, share=share: cuts[one][share][0]) for share in shares]
        cells = [
            f"{_pair(cuts[one][share])} ({one})"
            for one, share in zip(best, shares, strict=True)
        ]
        rows.append([GALLERIES[key], "best single cut", *cells])
    heads = [f"at {percent(float(share))}" for share in shares]
    return figures.table(["gallery", "", *heads], rows)


def first_k(rows: Document) -> str:
    """Every rule for every k; the rules are those of the file."""
    one = next(iter(next(iter(rows.values()))["depths"].values()))
    rules = [rule for rule in one if rule != "found"]
    cells = [
        [
            f"{DEEP.get(name, name)}, {row['queries']:,}",
            k,
            fraction(depth["found"], 2),
            *(
                f"{fraction(depth[rule]['stated'], 2)} ({depth[rule]['log_loss']:.3f})"
                for rule in rules
            ),
        ]
        for name, row in rows.items()
        for k, depth in row["depths"].items()
    ]
    return figures.table(["queries", "k", "found", *rules], cells)


def _pair(value: list[float]) -> str:
    return f"{percent(value[0], 1)} ± {100 * value[1]:.1f}"


def small_galleries(kept: list[Document]) -> str:
    """Absent names of both kinds in small galleries, by the policy and the best single cut."""
    rows, shares = [], list(kept[0]["rare"]["at"]["policy"])
    for row in kept:
        for kind, names in (("rare", "rare"), ("common", "as common")):
            at = row[kind]["at"]
            cuts = [score for score in at if score != "policy"]
            best = [max(cuts, key=lambda score, to=share: at[score][to][0]) for share in shares]
            pairs = zip(shares, best, strict=True)
            rows.append([
                f"{GALLERIES[row['dataset']]}, {row['size']}",
                names,
                *(f"{with_error(at['policy'][share])}; {with_error(at[cut][share])} ({cut})"
                  for share, cut in pairs),
            ])  # fmt: skip
    head = ["photographs", "absent names", *(f"at {percent(float(one))}" for one in shares)]
    return (
        "The same in galleries drawn from test photographs; the shipped policy, then the best "
        "cut on a single score; ± is the standard error over redrawn names. *Rare*: names of "
        "ImageNet's classes that no caption of the dataset has. How common a word is in "
        "captions is one of the cuts here, and it tells most of these from what is there "
        "without a look at any picture. *As common*: nouns that the captions of other "
        "photographs say, and none of the gallery's; few of them are refused by anything that "
        "reads the model's similarities."
        f"\n\n{figures.table(head, rows)}"
    )


def with_error(value: list[float]) -> str:
    return f"{percent(value[0], 0)} ± {100 * value[1]:.0f}"


def curves(kept: Document) -> str:
    """Log loss of other curves of the labels."""
    plain = kept["rows"]["logistic"]["loss"]
    rows = [
        [name, f"{row['loss']:.1f} ± {row['spread']:.1f}", f"{row['loss'] / plain:.3f}"]
        for name, row in kept["rows"].items()
    ]
    head = ["curve of the labels", "log loss, held out", "to the logistic one"]
    return (
        f"Other curves from agreement to what experts say, over {kept['pairs']:,} pairs of the "
        f"half that may be fitted on ({kept['fitting']} fit), in ten folds of images; ± "
        "between ten dealings of folds. The last one reads the model's relative evidence as "
        f"well; no policy is fitted with it.\n\n{figures.table(head, rows)}"
    )


def experts(kept: Document) -> str:
    rows = [
        [
            LABELS[name],
            half,
            str(row["pairs"]),
            fraction(row["stated"], 3),
            fraction(row["judged"], 3),
            fraction(row["auroc"], 3),
            ", ".join(expert_bin(*each) for each in row["bins"]),
        ]
        for name, halves in kept.items()
        for half, row in halves.items()
    ]
    head = ["", "judged images", "pairs", "stated", "judged", "AUROC", "bins: stated/judged"]
    return figures.table(head, rows)


def expert_bin(hits: int, stated: float, judged: float, *interval: float) -> str:
    """Stated and judged; in brackets the interval, where the figures have one."""
    told = f"{fraction(stated, 2)}/{fraction(judged, 2)}"
    return f"{told} [{', '.join(fraction(end, 2) for end in interval)}]" if interval else told


def promises(galleries: Document) -> str:
    rows, risks = [], []
    for key, row in galleries.items():
        broken = row["now"]["risk_broken"]
        for kind, by_risk in broken.items():
            risks = [f"risk {percent(float(risk))}" for risk in by_risk]
            cells = [percent(share, 1) for share in by_risk.values()]
            rows.append([GALLERIES[key], kind, *cells])
    return figures.table(["gallery", "queries", *risks], rows)


def first_answers(rows: Document) -> str:
    head = ["captions of", "good is", "share", "P(relevant)", "P fitted on dev for it",
            "the best single measures", "u"]  # fmt: skip
    lines = []
    for name, row in rows.items():
        for event, measures in row["auroc"].items():
            fitted = f"P({event}), fitted on dev"
            single = {key: one for key, one in measures.items() if key not in (*_OURS, fitted)}
            best = sorted(single, key=lambda key: -single[key][0])[:_BEST]
            told = ", ".join(f"{key} {fraction(single[key][0])}" for key in best)
            ours, u = (measures[key] for key in _OURS)
            share = percent(row["good"][event])
            stated = [
                f"{fraction(one[0])} ± {fraction(one[1])}" for one in (ours, measures[fitted])
            ]
            lines.append([GALLERIES[name], event, share, *stated, told, fraction(u[0])])
    return figures.table(head, lines)


def trained_answers(runs: list[Document]) -> str:
    """First answers of networks trained by recipes, per recipe over its seeds."""
    head = ["recipe", "seeds", "relevant", "of the first five", "right", "good is", "P of it",
            "the best single measure", "u"]  # fmt: skip
    lines = []
    for recipe in dict.fromkeys(run["recipe"] for run in runs):
        seeds = [run for run in runs if run["recipe"] == recipe]
        shares = [
            figures.several_fractions([seed[key] for seed in seeds])
            for key in ("relevance", "relevance of five", "right")
        ]
        for event, measures in seeds[0]["auroc"].items():
            ours = f"P({event})"
            means = {
                key: statistics.fmean(seed["auroc"][event][key][0] for seed in seeds)
                for key in measures
            }
            best = max(set(means) - {ours, _OURS[1]}, key=lambda key: means[key])
            cells = [
                figures.several_fractions([seed["auroc"][event][key][0] for seed in seeds])
                for key in (ours, best, _OURS[1])
            ]
            told = [cells[0], f"{best} {cells[1]}", cells[2]]
            lines.append([f"`{recipe}`", str(len(seeds)), *shares, event, *told])
    return figures.table(head, lines)


_OURS, _BEST = ("P(relevant)", "u = K / S"), 3
