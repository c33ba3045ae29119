"""The retrievers of the how-tos, run with the packages they are for."""

import re
from pathlib import Path

import pytest
from search_samples import index_with_a_cat

HOW_TO = Path(__file__).parent.parent / "docs" / "how-to"
ABSENT = "a submarine under the ice"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    return str(index_with_a_cat(tmp_path_factory.mktemp("retrievers")))


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
