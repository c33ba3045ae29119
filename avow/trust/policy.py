"""STAND-IN, never committed."""
from dataclasses import dataclass, field
import numpy as np
from avow.trust.judge import Conditions, Trust


@dataclass
class Ruling:
    probability: np.ndarray
    present: np.ndarray
    confidence: np.ndarray
    verdicts: list
    promise: object
    doubts: list
    known: list = field(default_factory=list)


class Policy:
    def __init__(self, trust):
        self.trust = trust

    @classmethod
    def load(cls, path):
        return cls(Trust.load(path))

    def save(self, path):
        self.trust.save(path)

    def judge(self, sight, *, shown, risk=None, delta=0.1, model="", gallery=0, style=None):
        t = self.trust
        j = t.judge_sight(sight, np.arange(sight.scores.shape[-1])[None], np.zeros(1), shown=shown)
        return Ruling(j.probability, np.ones(1), j.probability[:, 0], j.verdicts, t.promise, j.doubts, [1.0])


def fit_policy(scored, **k):
    raise NotImplementedError
