# %% [markdown]
# # Search pictures, and fit the trust to them
#
# For somebody with a folder of pictures. The ones here come with scikit-image and scikit-learn.

# %%
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import avow

photos = Path("photos")
photos.mkdir(exist_ok=True)
for package, inside in {"skimage": "data", "sklearn": "datasets/images"}.items():
    folder = Path(find_spec(package).submodule_search_locations[0]) / inside
    for file in folder.glob("*.jpg"):
        shutil.copy(file, photos)
    for name in ("chelsea.png", "coffee.png", "astronaut.png", "motorcycle_left.png"):
        if (folder / name).is_file():
            shutil.copy(folder / name, photos)
report = avow.index([photos], "my-index")
print(report.new, "pictures, skipped:", report.skipped)

# %% [markdown]
# An answer shows its verdict, its pictures, and how probably each fits.

# %%
retriever = avow.open("my-index")
retriever.search("a cup of coffee", k=3)

# %% [markdown]
# What is not there is not found. What came nearest is shown as such, and is no answer.

# %%
retriever.search("an elephant drinking from a river", k=3)

# %% [markdown]
# Many questions are read in batches; results are tables.

# %%
queries = ["a cat", "a rocket", "a motorcycle", "a violin"]
found = retriever.search_many(queries, k=3)
for query, result in zip(queries, found, strict=True):
    print(f"{query:14} {result.verdict:14} {0 if result.trust is None else result.trust:.2f}")

# %%
found[0].to_pandas()[["rank", "p_relevant", "similarity", "verdict"]]

# %% [markdown]
# Say what was right and what was not, and let the probabilities learn from it.

# %%
for query, result in zip(queries, found, strict=True):
    for hit in (*result.hits, *result.near_misses)[:2]:
        expected = {"a cat": "chelsea", "a rocket": "rocket", "a motorcycle": "motorcycle"}
        retriever.feedback(query, hit.id, expected.get(query, "nothing") in hit.path)
done = subprocess.run(
    ["python", "-m", "avow", "calibrate", "--index", "my-index"], capture_output=True, text=True
)
print(done.stdout or done.stderr)

# %%
for query in queries:
    result = retriever.search(query, k=3)
    print(f"{query:14} {result.verdict:14} {0 if result.trust is None else result.trust:.2f}")
