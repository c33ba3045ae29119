"""Examples of a study carry the u and the similarities that their cards show."""

import numpy as np
from test_trust import world

from avow.assembly.pairs import FeaturedSplit
from avow.core.datasets import Split
from avow.data.features import NpyRows
from avow.study.examples import extremes
from avow.trust.gallery_sampling import collect_hits, fit_hits


def test_an_example_has_u_of_its_own_view_and_the_similarities_it_is_ranked_by(tmp_path):
    scored = world(images=40)
    queries, candidates = scored.match.shape
    captions = tuple(f"caption {number}" for number in range(queries))
    ids = tuple(str(number) for number in range(candidates))
    np.save(tmp_path / "features.npy", np.zeros((candidates, 1, 2), np.float32))
    rows, image_of = np.arange(candidates), scored.match.argmax(1)
    found = Split(
        ids, captions, image_of, features=tmp_path / "features.npy", feature_rows=rows
    )
    split = FeaturedSplit(NpyRows(found), ids, rows, captions, image_of, None)
    probability = fit_hits("right", collect_hits(scored))
    shown = extremes(scored, probability, split, "text")
    for example in (*shown["most"], *shown["least"]):
        row = captions.index(example["query"])
        evidence = np.exp(scored.similarity[scored.own, row].astype(float) / scored.tau)
        expected = candidates / (candidates + evidence.sum())
        assert np.isclose(example["u"], expected, rtol=1e-4)
        averaged = scored.similarity[:, row].mean(0)
        ranked = [answer["similarity"] for answer in example["answers"]]
        assert np.allclose(ranked, np.sort(averaged)[::-1][:5], atol=1e-6)
        best = example["answers"][0]
        assert np.isclose(best["similarity"], averaged[int(best["id"])], atol=1e-6)
