"""`vit-lightning data show`: a page of pictures, their labels, and what augmentation makes of them.

Each chosen kind of augmentation has a column of its own, and the last columns have all of them
together, as a model would see them, with the label that it would be given.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit_lightning.data.catalog import CATALOG, DIGIT_NAMES, Spec
from vit_lightning.data.fetch import fetch, find_spec

if TYPE_CHECKING:
    from torch import Tensor

KINDS = (
    "crop",
    "flip",
    "randaugment",
    "trivialaugment",
    "erasing",
    "cutout",
    "mixup",
    "cutmix",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `show` can be asked."""
    parser.add_argument("name", metavar="NAME", help=", ".join(CATALOG))
    parser.add_argument(
        "--count", type=int, default=8, help="how many pictures (default: %(default)s)"
    )
    parser.add_argument(
        "--augment",
        nargs="*",
        choices=KINDS,
        metavar="KIND",
        help=f"what to do to them, of {', '.join(KINDS)}; nothing after it for the pictures alone"
        " (default: crop, flip but for digits, trivialaugment, erasing, mixup, cutmix)",
    )
    parser.add_argument(
        "--variants",
        type=int,
        default=4,
        help="how many versions with all of it together (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="other pictures, other draws (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the picture to write (default: NAME.png here)"
    )
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Draw the page and say where it is."""
    spec = find_spec(args.name)
    for name, least, most in (("count", 1, 100), ("variants", 0, 20)):
        if not least <= getattr(args, name) <= most:
            raise ValueError(f"--{name} must be {least} to {most}, got {getattr(args, name)}")
    kinds = _default_kinds(spec) if args.augment is None else list(dict.fromkeys(args.augment))
    if {"randaugment", "trivialaugment"} <= set(kinds):
        raise ValueError("--augment must have one of randaugment and trivialaugment, not both")
    images = fetch(args.name, args.dir)

    # Imported late: the other data commands should not wait for torch.
    import torch

    from vit_lightning.viz.contact_sheet import contact_sheet
    from vit_lightning.viz.figure_file import save_figure

    chosen = _choose(images.train_labels.tolist(), args.count, args.seed)
    pictures = torch.from_numpy(images.train_images[chosen])
    labels = torch.from_numpy(images.train_labels[chosen])
    names = [spec.class_names[label] for label in labels.tolist()]
    title = f"{spec.title}: {len(chosen)} of {spec.num_train:,} training pictures"
    columns = [(kind, [kind]) for kind in kinds]
    if len(kinds) != 1:
        columns += [(f"together {k + 1}", kinds) for k in range(args.variants if kinds else 0)]
    else:  # one kind alone is already all of it
        columns *= max(1, args.variants)
    if columns:
        # Hidden parts take the mean colour of the set, as in training.
        mean = (images.train_images.mean(axis=(0, 2, 3)) / 255).tolist()
        versions = [
            _augmented(pictures, labels, spec, mean, applied, args.seed, k)
            for k, (_, applied) in enumerate(columns)
        ]
        variants = torch.stack([version for version, _ in versions])
        mixing = {"mixup", "cutmix"} & set(kinds)
        figure = contact_sheet(
            pictures,
            names,
            variants,
            title,
            headings=[heading for heading, _ in columns],
            captions=[captions for _, captions in versions] if mixing else None,
        )
    else:
        figure = contact_sheet(pictures, names, title=title)
    path = args.output or _unused(Path(f"{spec.name}.png"))
    verb = "replaced" if path.exists() else "wrote"
    save_figure(figure, path)
    print(f"{verb} {path}")
    return 0


def _default_kinds(spec: Spec) -> list[str]:
    flip = [] if spec.class_names == DIGIT_NAMES else ["flip"]  # a mirrored digit is none
    return ["crop", *flip, "trivialaugment", "erasing", "mixup", "cutmix"]


def _choose(labels: list[int], count: int, seed: int) -> list[int]:
    """Pick pictures at random, but one of each class before a second of any."""
    import torch

    from vit_lightning.data.keyed import keyed_generator

    seen: Counter[int] = Counter()
    places = []
    for i in torch.randperm(len(labels), generator=keyed_generator(seed, 0, 0)).tolist():
        places.append((seen[labels[i]], labels[i], i))
        seen[labels[i]] += 1
    return [i for _, _, i in sorted(places)[:count]]


def _augmented(
    pictures: "Tensor",
    labels: "Tensor",
    spec: Spec,
    mean: list[float],
    kinds: list[str],
    seed: int,
    step: int,
) -> tuple["Tensor", list[str]]:
    """Return the pictures after augmentation, and what their labels have become."""
    from vit_lightning.data.augment import Augment, denormalize
    from vit_lightning.data.keyed import keyed_generator

    side = spec.shape[1]
    settings: dict[str, dict[str, Any]] = {
        "crop": {"crop_padding": max(1, side // 8)},
        "flip": {"flip": True},
        "randaugment": {"policy": "randaugment"},
        "trivialaugment": {"policy": "trivialaugment"},
        "erasing": {"erasing": 1.0 if len(kinds) == 1 else 0.25},
        "cutout": {"cutout": max(1, side // 4)},
        "mixup": {"mixup": 1.0},
        "cutmix": {"cutmix": 1.0},
    }
    augment = Augment(**{name: value for k in kinds for name, value in settings[k].items()})
    std = [1.0] * len(mean)
    images, targets = augment(
        pictures,
        labels,
        num_classes=len(spec.class_names),
        mean=mean,
        std=std,
        generator=keyed_generator(seed, 1, step),
    )
    captions = [""] * len(labels)
    if augment.soft_targets:
        captions = [_mixture(row, spec.class_names) for row in targets.tolist()]
    return denormalize(images, mean, std), captions


def _mixture(weights: list[float], names: tuple[str, ...]) -> str:
    """Write a label of two classes on two lines, the heavier first."""
    parts = sorted(zip(weights, names, strict=True), reverse=True)[:2]
    return "\n".join(f"{100 * weight:.0f} % {name}" for weight, name in parts if weight >= 0.005)


def _unused(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, ... that does not exist yet."""
    free, number = path, 2
    while free.exists():
        free = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return free
