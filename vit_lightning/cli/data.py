"""`vit-lightning data`: fetch the image sets, see which are there, and look at them."""

import argparse
import logging
import sys
import time
from pathlib import Path

from vit_lightning.cli import data_show
from vit_lightning.data.catalog import CATALOG, Spec
from vit_lightning.data.fetch import data_dir, fetch, find_spec, store_path
from vit_lightning.data.store import DamagedStoreError, open_store, read_manifest

EXAMPLES = """examples:
  vit-lightning data list                        what is there, from where, verified when
  vit-lightning data fetch cifar10               get one set, from wherever it can be had
  vit-lightning data fetch all --dir ~/data      get all of them, into a folder of your choice
  vit-lightning data show cifar10                draw pictures, and what augmentation makes of them

The data folder is --dir, else $VIT_LIGHTNING_DATA, else a per-user cache. If you already have
the files, in torchvision's layout or as the official archives, put them there: they are used first.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments after `vit-lightning data`; those of the process by default.

    Returns:
        The exit code: 0, or 2 if something asked for cannot be had.
    """
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO if args.debug else logging.WARNING, format="%(message)s")
    try:
        return int(args.run(args))
    except ValueError as error:
        if args.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; nothing incomplete is left in the store.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", type=Path, metavar="FOLDER", help="the data folder")
    common.add_argument(
        "--debug", action="store_true", help="show each step, and the traceback of an error"
    )
    parser = argparse.ArgumentParser(
        prog="vit-lightning data",
        description="Fetch the image sets, verify them, see which are there, and look at them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "fetch",
        parents=[common],
        help="get sets and verify them",
        description="Get image sets from the first source that works, verify every picture, and"
        " keep them in a store that opens at once. What is already there is only checked.",
    )
    command.add_argument("names", nargs="+", metavar="NAME", help=f"{', '.join(CATALOG)}, or all")
    command.set_defaults(run=_fetch)

    command = commands.add_parser(
        "list",
        parents=[common],
        help="show what is there and how to get the rest",
        description="Show each image set: whether it is there and intact, where it came from, when"
        " it was verified, its size and place; and for the others how to get them.",
    )
    command.set_defaults(run=_list)

    command = commands.add_parser(
        "show",
        parents=[common],
        help="draw pictures with their labels, and what augmentation makes of them",
        description="Draw a page of training pictures: each with its label, then what each kind of"
        " augmentation alone makes of it, then all kinds together with the label that results."
        " Fetches the set first if need be.",
    )
    data_show.add_arguments(command)
    return parser


def _fetch(args: argparse.Namespace) -> int:
    failed = False
    for name in CATALOG if "all" in args.names else args.names:
        start = time.perf_counter()
        try:
            spec = find_spec(name)
            images = fetch(name, args.dir)
        except ValueError as error:
            if args.debug:
                raise
            print(f"error: {error}", file=sys.stderr)
            failed = True
            continue
        print(
            f"{name}: {_contents(spec)}, verified, from {images.source},"
            f" in {store_path(name, args.dir)} ({time.perf_counter() - start:.1f} s)"
        )
    return 2 if failed else 0


def _list(args: argparse.Namespace) -> int:
    print(f"Data folder: {data_dir(args.dir)}")
    for name, spec in CATALOG.items():
        print(f"\n{name}: {_contents(spec)}, {spec.num_bytes / 1e6:,.1f} MB")
        for line in _state(spec, args.dir):
            print(f"  {line}")
    return 0


def _contents(spec: Spec) -> str:
    channels, height, width = spec.shape
    kind = "colour" if channels == 3 else "grey"
    return (
        f"{spec.num_train:,} + {spec.num_test:,} {kind} pictures of {height}x{width}"
        f" in {len(spec.class_names)} classes"
    )


def _state(spec: Spec, dir: Path | None) -> list[str]:
    """Describe the store of a set, or how to get it."""
    path = store_path(spec.name, dir)
    try:
        manifest = read_manifest(path)
        open_store(path, spec.checksums)
    except FileNotFoundError:
        return [
            f"not here; get it with: vit-lightning data fetch {spec.name}",
            f"tries, in order: {', '.join(source.label for source in spec.sources)}",
        ]
    except DamagedStoreError as damage:
        return [
            f"damaged, and will not be used: {damage}; in {path}",
            f"repair it with: vit-lightning data fetch {spec.name}",
        ]
    return [
        f"intact; from {manifest['source']}, verified {manifest['verified']}",
        f"in {path}",
    ]
