"""Floor 3: recipe to objects to numbers."""

from avow.core.renamed import Moved, keep_old_paths

keep_old_paths(__name__, {"judge": Moved("avow.assembly.evaluate_runs")})
