"""How a metric's value is written; it needs nothing, so that no command has to wait for it."""


def format_value(metric: str, value: float) -> str:
    """Write a value the way it is read: accuracies in per cent, the rest as numbers."""
    return f"{100 * value:.2f} %" if "acc" in metric else f"{value:.4f}"
