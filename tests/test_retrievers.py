"""The retrievers of the how-tos, run with the packages they are for."""

import re
from pathlib import Path

import pytest
from PIL import Image
from search_samples import save_pictures

from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders

HOW_TO = Path(__file__).parent.parent / "docs" / "how-to"
ABSENT = "a submarine under the ice"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    data = pytest.importorskip("skimage.data")
    home = tmp_path_factory.mktemp("retrievers")
    save_pictures(home / "pictures", 10)
    Image.fromarray(data.chelsea()).save(home / "pictures" / "cat.jpg")
    index_folders([home / "pictures"], index=home / "index", encoder=open_encoder())
    return str(home / "index")


def retriever_of(page: str) -> type:
    """The class that the first block of a page defines."""
    code = re.findall(r"```python\n(.*?)```", (HOW_TO / page).read_text("utf-8"), re.DOTALL)[0]
    names: dict = {"__name__": "how_to"}
    exec(compile(code, page, "exec"), names)
    return names["AvowRetriever"]


@pytest.mark.filterwarnings("ignore")  # of the other package, about itself
def test_langchain(index):
    pytest.importorskip("langchain_core")
    retriever = retriever_of("langchain.md")(index=index, k=3)
    first = retriever.invoke("a cat")[0]
    assert first.page_content.endswith("cat.jpg") and first.metadata["p_relevant"] > 0.5
    assert first.metadata["verdict"] in ("answer", "check")
    assert retriever.invoke(ABSENT) == []


@pytest.mark.filterwarnings("ignore")
def test_llama_index(index):
    pytest.importorskip("llama_index.core")
    retriever = retriever_of("llama-index.md")(index, k=3)
    first = retriever.retrieve("a cat")[0]
    assert first.node.image_path.endswith("cat.jpg") and first.score > 0.5
    assert retriever.retrieve(ABSENT) == []
