"""Files of policies: one format to write, and those of earlier versions to read.

    format 8    what `Policy.save` writes: conditions, probabilities, held-out answers
    format 7    the same without the number of words of held-out queries
    format 6    the same without levels for what is behind the hits
    format 5    the same without a policy for larger galleries
    format 4    the same without the sizes of the galleries of held-out queries
    format 3    the same without a level
    format 2    the same without a judgement of the first ten together
    format 1    with "held": a policy of `avow calibrate` or of the shipped model
                with "refuse_below": a trust file of `avow trust` or `avow.trust.fit`

All of them are JSON documents of plain numbers.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.errors import WrongTrust
from avow.core.seals import read_document, write_document
from avow.trust.coherence import ABOVE, BEHIND, log_odds
from avow.trust.held_out import HeldOut
from avow.trust.judgements import Conditions
from avow.trust.level import LEVEL, Level
from avow.trust.policy import SHOWN, Policy
from avow.trust.probability import Line, Probability
from avow.trust.risk_control import Promise

FORMAT = 8


def write(policy: Policy, path: Path) -> None:
    """Held-out probabilities are rounded: four decimals of hits, six of the first ten."""
    write_document(path, {"format": FORMAT, **_content(policy)})


def _content(policy: Policy) -> dict[str, Any]:
    held, promise = policy.held, policy.promise
    return {
        "conditions": asdict(policy.conditions),
        "probability": policy.probability.to_dict(),
        "present": policy.present.to_dict(),
        "refuse": policy.refuse,
        "answer": policy.answer,
        "lowest": policy.lowest,
        "highest": policy.highest,
        "promise": None if promise is None else asdict(promise),
        "among": policy.among,
        "ranking": policy.ranking,
        "tau": policy.tau,
        "kind": policy.kind,
        "anything": None if policy.anything is None else policy.anything.to_dict(),
        "anything_named": None
        if policy.anything_named is None
        else policy.anything_named.to_dict(),
        "level": None if policy.level is None else policy.level.to_dict(),
        "tail": None if policy.tail is None else policy.tail.to_dict(),
        "spread": policy.spread,
        "line": None if policy.line is None else asdict(policy.line),
        "held": None
        if held is None
        else {
            "probability": np.round(held.probability, 4).tolist(),
            "correct": held.correct.astype(int).tolist(),
            "groups": held.groups.tolist(),
            "anything": None if held.anything is None else np.round(held.anything, 6).tolist(),
            "sizes": None if held.sizes is None else held.sizes.tolist(),
            "words": None if held.words is None else held.words.tolist(),
        },
        "larger": None if policy.larger is None else _content(policy.larger),
    }


def read(path: Path) -> Policy:
    """The policy in a file; WrongTrust if there is none that can be read."""
    try:
        content = read_document(path)
        if content["format"] in range(2, FORMAT + 1):
            return _read(content)
        if content["format"] != 1:
            raise ValueError(f"format {content['format']!r}; this version reads 1 to {FORMAT}")
        return _read_trust_1(content) if "refuse_below" in content else _read_policy_1(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise WrongTrust(
            f"The policy {str(path)!r} cannot be read ({error}). Expected a file written by "
            "`Policy.save`; calibrate again with `avow calibrate`."
        ) from error


def _read(content: dict[str, Any]) -> Policy:
    promise, held = content["promise"], content["held"]
    return Policy(
        *_fitted(content),
        _numbers(content["refuse"]),
        None if held is None else _held(**held),
        _lines(content["answer"]),
        _numbers(content["lowest"]),
        _numbers(content["highest"]),
        None if promise is None else Promise(**promise),
        content["among"],
        content["ranking"],
        content["tau"],
        content["kind"],
        _probability(content.get("anything")),
        _probability(content.get("tail")),
        float(content.get("spread", 1.0)),
        _line(content.get("line")),
        *_of_names(content),
        None if content.get("larger") is None else _read(content["larger"]),
    )


def _of_names(content: dict[str, Any]) -> tuple[Probability | None, Level | None]:
    """What judges names alone, and the level that it reads."""
    named, level = _probability(content.get("anything_named")), content.get("level")
    if (level is not None) != (named is not None and LEVEL in named.names):
        raise ValueError("a level and what reads it do not go together")
    columns = (BEHIND, BEHIND if level is None else (*BEHIND, ABOVE))
    if (tail := content.get("tail")) is not None and tuple(tail["names"]) not in columns:
        raise ValueError("what is behind the hits is read from columns that are not known here")
    return named, None if level is None else Level.from_dict(level)


def _probability(content: dict[str, Any] | None) -> Probability | None:
    return None if content is None else Probability.from_dict(content)


def _line(content: dict[str, Any] | None) -> Line | None:
    return None if content is None else Line(**{key: float(content[key]) for key in content})


def _read_policy_1(content: dict[str, Any]) -> Policy:
    """A policy without tau: the default of all models of that version."""
    held = content["held"]
    return Policy(
        *_fitted(content),
        _numbers(content["refuse"]),
        _held(held["stated"], held["relevant"], held["groups"]),
        _lines(content["answer"]),
        _numbers(content["lowest"]),
        _numbers(content["highest"]),
    )


def _read_trust_1(content: dict[str, Any]) -> Policy:
    """A trust without held-out answers: one promise, and one refusal threshold for all."""
    threshold = float(log_odds(np.array([content["refuse_below"]], float))[0])
    return Policy(
        *_fitted(content),
        (threshold, 0.0, 0.0, 0.0),
        None,
        ((1.0, 0.0),) * max(SHOWN, content["among"]),
        (),
        (),
        Promise(**content["promise"]),
        content["among"],
        "similarity",
        content["tau"],
        content["kind"],
    )


def _fitted(content: dict[str, Any]) -> tuple[Conditions, Probability, Probability]:
    return (
        Conditions(**content["conditions"]),
        Probability.from_dict(content["probability"]),
        Probability.from_dict(content["present"]),
    )


def _held(
    probability: Any,
    correct: Any,
    groups: Any,
    anything: Any = None,
    sizes: Any = None,
    words: Any = None,
) -> HeldOut:
    held = HeldOut(
        np.array(probability, float),
        np.array(correct, bool),
        np.array(groups, int),
        None if anything is None else np.array(anything, float),
        None if sizes is None else np.array(sizes, int),
        None if words is None else np.array(words, int),
    )
    held.check()
    return held


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


def _lines(values: Any) -> tuple[tuple[float, float], ...]:
    return tuple((float(slope), float(offset)) for slope, offset in values)
