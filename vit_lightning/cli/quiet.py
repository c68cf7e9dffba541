"""Which of Lightning's messages a person is spared."""

import logging
import warnings


def be_quiet(fitting: bool) -> None:
    """Keep Lightning's hints, which are not about the person's run, off the screen."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # About how Lightning itself uses torch, the callbacks that only fit has, short epochs
    # (their figures are logged at their end) and a size in the model's summary that is that of
    # float32.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    if not fitting:
        warnings.filterwarnings("ignore", message="Be aware that when using `ckpt_path`")
    warnings.filterwarnings("ignore", message="The number of training batches .* is smaller")
    warnings.filterwarnings("ignore", message="Precision .* is not supported by the model summary")
