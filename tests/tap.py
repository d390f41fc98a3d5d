# SPDX-License-Identifier: MIT
"""The few lines of TAP that the test scripts share: one test per name, what is wrong with it on stderr."""

import sys


def run(tests):
    """Print one result per (name, complaints), `complaints` being the lines that say what is wrong, none if all is well.
    Ends the program, with status 1 if anything was wrong."""
    failed = 0
    number = 0
    for number, (name, complaints) in enumerate(tests, 1):
        complaints = list(complaints)
        if complaints:
            failed += 1
            print(f"{name}:", *complaints, sep="\n  ", file=sys.stderr, flush=True)
        print(f"{'not ok' if complaints else 'ok'} {number} {name}", flush=True)
    print(f"1..{number}", flush=True)
    sys.exit(1 if failed else 0)
