"""What a person can do about a run that failed, in one sentence."""

import errno

import torch

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explain(error: BaseException, latest: str | None, resume: str, batch_size: int) -> str | None:
    """Say what happened and what to do.

    Args:
        error: what ended the run.
        latest: the latest checkpoint, in words, if there is one.
        resume: the command that goes on from it.
        batch_size: samples a batch.

    Returns:
        None for what is no known trouble, but a defect.
    """
    if isinstance(error, FloatingPointError):
        good = f"the last good checkpoint is {latest}; " if latest else ""
        return (
            f"{error}; {good}start a new run with a smaller --model.lr, a longer --model.warmup or "
            "--trainer.precision 32-true"
        )
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = f" {error.filename}" if error.filename else ""
        what = f"cannot write{where}: {error.strerror}; "
        if latest is None:
            return f"{what}nothing was saved yet; make room and start again"
        return f"{what}{latest} is still there, and whole; make room, then go on with: {resume}"
    if is_out_of_memory(error):
        half = max(1, batch_size // 2)
        return (
            f"out of memory with --data.batch_size {batch_size}; start a new run with "
            f"--data.batch_size {half} --trainer.accumulate_grad_batches 2, which takes the same "
            "steps in half the memory"
        )
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Recognise the ways in which memory can run out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)
