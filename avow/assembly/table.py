"""An evaluation as people and papers print it: terminal, Markdown, LaTeX."""

from avow.assembly.evaluate import Evaluation, Row

_HEADS = ("R@1", "R@5", "R@10", "MedR", "R@1", "R@5", "R@10", "MedR", "rSum")


def as_text(evaluation: Evaluation) -> str:
    """Aligned columns for a terminal, with the interval of rSum where it is known."""
    width = max(len(row.name) for row in evaluation.rows)
    above = " " * width + "  | image to text".ljust(32) + "| text to image".ljust(32) + "|"
    lines = [above, " " * width + "  " + _spaced(_HEADS)]
    for row in evaluation.rows:
        line = row.name.ljust(width) + "  " + _spaced(_cells(row))
        if "rsum" in row.intervals:
            low, high = row.intervals["rsum"]
            line += f"  [{low:.1f}, {high:.1f}]"
        lines.append(line)
    return "\n".join(lines)


def as_markdown(evaluation: Evaluation) -> str:
    """A Markdown table; i2t and t2i stand for the two directions."""
    heads = [f"i2t {head}" for head in _HEADS[:4]] + [f"t2i {head}" for head in _HEADS[4:8]]
    lines = ["| | " + " | ".join([*heads, "rSum"]) + " |", "|---" * 10 + "|"]
    for row in evaluation.rows:
        lines.append(f"| {row.name} | " + " | ".join(_cells(row)) + " |")
    return "\n".join(lines)


def as_latex(evaluation: Evaluation) -> str:
    """Rows for a booktabs table."""
    lines = [
        r"\begin{tabular}{l rrrr rrrr r}",
        r"\toprule",
        r"& \multicolumn{4}{c}{Image $\to$ Text} & \multicolumn{4}{c}{Text $\to$ Image} \\",
        " & ".join(["", *_HEADS]) + r" \\",
        r"\midrule",
    ]
    lines += [" & ".join([row.name, *_cells(row)]) + r" \\" for row in evaluation.rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _cells(row: Row) -> list[str]:
    cells = []
    for side in (row.recall.image_to_text, row.recall.text_to_image):
        cells += [f"{value:.1f}" for value in (*side.recalls, side.median_rank)]
    return [*cells, f"{row.recall.rsum:.1f}"]


def _spaced(cells: tuple[str, ...] | list[str]) -> str:
    left, right, total = cells[:4], cells[4:8], cells[8]
    groups = ["".join(cell.rjust(7) for cell in side) for side in (left, right)]
    return "|" + "  |".join(groups) + "  |" + total.rjust(7)
