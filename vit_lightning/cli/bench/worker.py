"""One contender in a process of its own: `python -m vit_lightning.cli.bench.worker JOB`."""

import json
import os
import sys
import warnings

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.parts import Job, find_part


def main(argument: str) -> int:
    """Prepare the contender and measure it whenever it is its turn."""
    gate = Gate(os.dup(0), os.dup(1))
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    return serve(Job(**json.loads(argument)), gate)


def serve(job: Job, gate: Gate) -> int:
    """Measure until there are no more turns; an error goes to the one who asked."""
    import torch

    warnings.filterwarnings("ignore")  # what libraries have to say about each other
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    try:
        find_part(job.part).measure(job, gate)
    except (SystemExit, KeyboardInterrupt):
        return 0  # no more turns; a Trainer turns the one into the other
    except Exception as error:
        gate.fail(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
