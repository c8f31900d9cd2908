"""The ``vadd`` command: answers Ctrl-C from its first moment on, and then ends at once."""

import os
import sys


def run() -> None:
    try:
        from vadd.cli import main  # takes a while

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except SystemExit as end:
        if end.code != 130:
            raise
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)  # with torch imported, Python would clean up for half a second


if __name__ == "__main__":
    run()
