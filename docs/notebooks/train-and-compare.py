# %% [markdown]
# # Train, and compare two losses
#
# For somebody who works on retrieval. Eighteen photographs with five captions each are a smoke test, no
# benchmark: they show that the parts fit. Every figure of the documentation comes from real datasets.

# %%
import subprocess

import avow

made = subprocess.run(
    ["python", "-m", "avow", "features", "sample", "--backbone", "efficientnet_lite0"]
    + ["--size", "224", "--grid", "3"],
    capture_output=True,
    text=True,
)
print((made.stdout or made.stderr).splitlines()[-1].partition(" in ")[0])

# %% [markdown]
# One recipe, two losses: trust-consistent learning and the hinge.

# %%
small = ["train.epochs=4", "features.backbone=efficientnet_lite0"]
small += ["features.size=224", "features.grid=3"]
runs = {
    loss: avow.train(
        "sample/vse_infty_tcl", out=f"runs/{loss}", loss=loss, changes=small, device="cpu"
    ).run
    for loss in ("tcl", "hinge")
}

# %%
import pandas

rows = {}
for loss, run in runs.items():
    recall = avow.evaluate(run, draws=0, device="cpu").best.recall
    text, image = recall.text_to_image, recall.image_to_text
    rows[loss] = {"t2i R@1": text.r1, "t2i R@5": text.r5, "i2t R@1": image.r1, "rSum": recall.rsum}
pandas.DataFrame(rows).T.round(1)

# %% [markdown]
# A model gives opinions: belief in each candidate, and how much mass is left for "I don't know".

# %%
from importlib.util import find_spec
from pathlib import Path

folder = Path(find_spec("skimage").submodule_search_locations[0]) / "data"
pictures = [folder / name for name in ("chelsea.png", "coffee.png", "rocket.jpg")]
model = avow.Model.from_pretrained(runs["tcl"])
opinion = model.opinion(pictures, ["a cat with long whiskers"], query="text")
print([round(float(one), 3) for one in opinion.belief[0]], round(float(opinion.uncertainty[0]), 3))

# %% [markdown]
# Any model's similarities can be judged: a policy is fitted on some, and says of others how far to trust them.

# %%
import numpy as np

rng = np.random.default_rng(0)
similarity = 0.1 * rng.standard_normal((120, 120), np.float32)
np.fill_diagonal(similarity, similarity.diagonal() + 0.3 * rng.random(120))
policy = avow.fit_policy(similarity.clip(-1, 1), np.arange(120))
judged = policy.judge(similarity.clip(-1, 1)[:5])
judged.verdicts
