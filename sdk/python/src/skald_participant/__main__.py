"""python -m skald_participant postgres | sqlite: prints the migration that creates the table."""

import sys

from ._table import POSTGRES, SQLITE

MIGRATIONS = {"postgres": POSTGRES, "sqlite": SQLITE}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in MIGRATIONS:
        sys.exit("usage: python -m skald_participant postgres | sqlite")
    print(MIGRATIONS[sys.argv[1]], end="")


if __name__ == "__main__":
    main()
