# %% [markdown]
# # Find the captions that do not fit their pictures
#
# For somebody with a list of captioned pictures. Here four captions of the sample were put beside other pictures.

# %%
import csv
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import avow

said = Path(avow.__file__).parent / "data" / "readers" / "sample_captions.json"
captions = json.loads(said.read_text("utf-8"))
folder = Path(find_spec("skimage").submodule_search_locations[0]).parent
pairs = [(file, caption) for file, texts in captions.items() for caption in texts]
moved = [0, 21, 42, 63]
files = [file for file, _ in pairs]
for place, other in zip(moved, moved[1:] + moved[:1], strict=True):
    files[place] = pairs[other][0]
Path("pictures").mkdir(exist_ok=True)
for file in set(files):
    shutil.copy(folder / file, Path("pictures") / Path(file).name)
with open("mine.csv", "w", newline="") as stream:
    writer = csv.writer(stream)
    writer.writerow(["image", "caption"])
    for file, (_, caption) in zip(files, pairs, strict=True):
        writer.writerow([f"pictures/{Path(file).name}", caption])
print(len(pairs), "pairs of", len(set(files)), "pictures")

# %% [markdown]
# The model that comes with Avow reads the pictures and judges every pair, without training.

# %%
avow.index(["pictures"], "my-index")
audit = avow.audit_pairs("mine.csv", run=avow.open("my-index").encoder, out="audited")
print(f"{len(audit.findings)} pairs judged, estimated share of wrong ones {audit.share:.1%}")

# %%
import pandas

wrong = {pairs[place][1] for place in moved}
table = pandas.DataFrame(
    [
        {
            "p_wrong": finding.probability,
            "caption": finding.caption,
            "beside": finding.image,
            "better": finding.better_image,
            "was moved": finding.caption in wrong,
        }
        for finding in audit.findings[:8]
    ]
)
table

# %% [markdown]
# `audited/index.html` shows the same with pictures: decide with the keys `j`, `k`, `x` and `r`, save `decisions.csv`,
# and `avow audit mine.csv --apply decisions.csv --out cleaned` writes a new list.

# %%
sorted(path.name for path in Path("audited").iterdir())
