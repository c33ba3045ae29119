"""Work that is divided among threads of our own."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from avow.core import own_threads
from avow.core.own_threads import FEW, over_rows, products_alone
from avow.indexes.exact import Exact

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr(own_threads, "_cores", lambda: 3)
    monkeypatch.setattr(own_threads, "_FEWEST", 64)
    own_threads._pool.cache_clear()
    yield
    own_threads._pool.cache_clear()


@pytest.mark.parametrize(("rows", "whole"), [(0, 1), (64, 1), (65, 1), (1000, 1), (1000, 256)])
def test_every_row_is_in_one_part(rows, whole):
    parts, threads = [], set()

    def work(part):
        parts.append(part)
        threads.add(threading.current_thread().name)

    over_rows(work, rows, whole=whole)
    covered = sorted(row for part in parts for row in range(rows)[part])
    assert covered == list(range(rows))
    assert len(parts) == (1 if rows <= 64 else 2 if rows == 65 else 3)
    assert all(part.start % whole == 0 for part in parts)
    assert any(name.startswith("rows") for name in threads) == (rows > 64)


def test_an_error_of_a_part_is_raised():
    with pytest.raises(ZeroDivisionError):
        over_rows(lambda part: 1 // part.start, 1000)


class Counted(np.ndarray):
    """Queries that note how many multiplications each product asks for."""

    seen: list[int]

    def __matmul__(self, other):
        self.seen.append(self.size * other.shape[1])
        return np.asarray(self) @ other


@pytest.mark.parametrize("queries", [1, 2, FEW, FEW + 1])
def test_products_of_few_queries_are_small(monkeypatch, queries):
    monkeypatch.setattr(own_threads, "_ALONE", 4000)
    asked, rows = RNG.random((queries, 40), "f4"), RNG.random((300, 40), "f4")
    out, counted = np.empty((queries, 300), np.float32), asked.view(Counted)
    counted.seen = []
    products_alone(counted, rows, out)
    np.testing.assert_allclose(out, asked.astype("f8") @ rows.T, rtol=1e-5)
    sizes = {1: 0, 2: 4000, FEW: 3840, FEW + 1: 300 * 40 * (FEW + 1)}
    assert max(counted.seen, default=0) == sizes[queries]


@pytest.mark.parametrize("queries", [1, 3, FEW, FEW + 1])
def test_rows_of_half_precision_are_compared_whole_however_they_are_divided(
    monkeypatch, queries
):
    rows = RNG.standard_normal((2000, 24)).astype(np.float16)
    asked = RNG.standard_normal((queries, 24)).astype(np.float32)
    index = Exact.over(np.arange(2000), rows)
    found, scores = index.search(asked, 10)
    exact = asked.astype("f8") @ rows.astype("f8").T
    np.testing.assert_allclose(scores, -np.sort(-exact)[:, :10], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found, np.argsort(-exact)[:, :10])
    monkeypatch.setattr(own_threads, "_cores", lambda: 1)
    assert (index.search(asked, 10)[1] == scores).all(), "the same to the bit on one core"


FORKED = """
import os, threading, time
from avow.core import own_threads
own_threads._cores = lambda: 2
own_threads._FEWEST = 1
both = threading.Barrier(2)
own_threads.over_rows(lambda part: both.wait(), 10)
time.sleep(0.2)  # until both threads wait for more
child = os.fork()
if not child:
    done = []
    own_threads.over_rows(lambda part: done.append(part), 10)
    os._exit(len(done))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it forks")
def test_a_forked_process_has_threads_of_its_own():
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (told.stdout.strip(), told.returncode) == ("2", 0), told.stderr
