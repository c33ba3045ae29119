"""How many threads one product of numpy may take, in a process that only searches."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from avow.retrieval.open_index import OpenIndex

_SMALL = 2**25
"""Numbers in an index that one thread compares with a query in some milliseconds."""


def limit_threads(library: "OpenIndex") -> None:
    """One thread for products over a small index, as the text network has one.

    Other threads of OpenBLAS keep a core busy for 25 ms after each product, waiting for more:
    longer than the whole search takes.
    """
    if len(library) * library.dim <= _SMALL:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1, user_api="blas")
