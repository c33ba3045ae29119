"""Search over an index of photographs and texts, with how far to trust its answers."""

from avow.core.renamed import Moved, keep_old_paths

keep_old_paths(
    __name__,
    {
        "deferred": Moved("avow.retrieval.encoders.lazy"),
        "encoder": Moved(
            "avow.retrieval.encoders.run",
            {"open_encoder": "avow.retrieval.encoders.opening.open_encoder"},
        ),
        "hub": Moved("avow.retrieval.encoders.hub"),
    },
)
