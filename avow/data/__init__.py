"""Datasets: readers of file layouts (`readers`), captions as numbers, stored features."""

from avow.core.renamed import Moved, keep_old_paths

_READERS = ("coco", "compact", "flickr8k", "karpathy", "pairs", "precomp", "sample")
keep_old_paths(__name__, {name: Moved(f"avow.data.readers.{name}") for name in _READERS})
