#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks the library in many small ways, one at a time, and lists the breaks that no test notices.

    tests/mutants/run.py [--jobs N] [--only WORD]... [--keep FOLDER] [--result FILE]

The breaks are in tests/mutants/list, in paragraphs:

    file   the file to change, from the top of the source tree
    what   the break in words
    tests  programs that could see it, the likely ones first; .sh scripts too
    -      a line to be replaced: the whole line but for its indentation, once in the file.
           Several of them follow one another in the file
    +      what stands there instead; none: the line is deleted
    equal  why no test can see it, for a change that leaves the behaviour as it is

Each job has a copy of the tree of its own, configured once and built anew after each change, so that
a break costs the compilation of one file and one or two programs (ccache helps). Not a part of
`make check`: 80 breaks take about half an hour on two cores. Exit code 1 if a break survives that
has no `equal`, or if the list no longer fits the code.
"""
import argparse
import concurrent.futures
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
CONFIGURE = ["--disable-shared", "--enable-tests", "--disable-contenders", "CFLAGS=-O1"]
TEST_SECONDS = 240


class Mutant:
    """One paragraph of the list."""

    def __init__(self, fields):
        self.file, self.what = fields["file"][0], " ".join(fields["what"])
        self.tests = " ".join(fields["tests"]).split()
        self.old, self.new = fields["-"], fields.get("+", [])
        self.equal = " ".join(fields.get("equal", []))

    def changed(self, text):
        """The text with the break in it; ValueError if its lines are not there exactly once."""
        lines = text.split("\n")
        found = [i for i in range(len(lines)) if
                 [x.strip() for x in lines[i:i + len(self.old)]] == self.old]
        if len(found) != 1:
            raise ValueError(f"{self.file}: {len(found)} places for: {self.old[0]}")
        return "\n".join(lines[:found[0]] + self.new + lines[found[0] + len(self.old):])


def read_list(path):
    """The paragraphs of the list; lines that begin with # are comments."""
    mutants, fields = [], {}
    for line in path.read_text().split("\n") + [""]:
        if line.startswith("#"):
            continue
        if line.strip():
            key, _, value = line.partition(" ")
            fields.setdefault(key, []).append(value.strip())
        elif fields:
            mutants.append(Mutant(fields))
            fields = {}
    return mutants


class Tree:
    """A copy of the source tree with a build in it."""

    def __init__(self, folder):
        self.top = pathlib.Path(folder)
        self.build = self.top / "build"
        files = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True)
        for name in files.stdout.decode().split("\0"):
            if name and (TOP / name).is_file():
                (self.top / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / name, self.top / name)
        self.build.mkdir()
        self.environment = dict(os.environ, TSA_TEST_SOURCE=str(self.top), TSA_TEST_QUICK="1",
                                TSA_TEST_BUILD=str(self.build), TSA=str(self.build / "tsa"),
                                srcdir=str(self.top), NM="nm")
        self.run(["autoreconf", "-fi"], self.top)
        self.run(["../configure"] + CONFIGURE, self.build)
        isas = [line for line in (self.build / "Makefile").read_text().split("\n")
                if line.startswith("TSA_ISAS_BUILT = ")]
        self.environment["TSA_TEST_ISAS"] = isas[0].partition("= ")[2]
        self.make(["all"])

    def run(self, command, folder):
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=self.environment)

    def make(self, targets):
        self.run(["make"] + targets, self.build)

    def passes(self, test):
        """Does the test pass? What does not end is stopped, and has failed."""
        if test.endswith(".sh"):
            command = ["sh", str(self.top / "tests" / test)]
        else:
            command = [f"tests/{test}"]
        try:
            done = subprocess.run(command, cwd=self.build, env=self.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=TEST_SECONDS, check=False)
            return done.returncode in (0, 77)
        except subprocess.TimeoutExpired:
            return False

    def seen_by(self, mutant):
        """The test that fails with the break in place, or None."""
        path = self.top / mutant.file
        good = path.read_text()
        path.write_text(mutant.changed(good))
        try:
            for test in mutant.tests:
                try:
                    self.make(["all"] if test.endswith(".sh") else [f"tests/{test}"])
                except subprocess.CalledProcessError:
                    return "the compiler"
                if not self.passes(test):
                    return test
            return None
        finally:
            path.write_text(good)


def run_all(mutants, jobs, keep):
    """(mutant, test or None) for each, in the order of the list."""
    trees = queue.Queue()
    with tempfile.TemporaryDirectory() as temporary:
        base = pathlib.Path(keep or temporary)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for tree in pool.map(lambda i: Tree(base / f"tree{i}"), range(jobs)):
                trees.put(tree)

            def one(mutant):
                tree = trees.get()
                try:
                    seen = tree.seen_by(mutant)
                finally:
                    trees.put(tree)
                print(f"{seen or 'SURVIVED':28} {mutant.file}: {mutant.what}", flush=True)
                return mutant, seen

            return list(pool.map(one, mutants))


def table(results):
    """The result as a page for doc/."""
    lines = ["| file | break | noticed by |", "| --- | --- | --- |"]
    for mutant, seen in results:
        found = f"`{seen}`" if seen else f"nothing: {mutant.equal or '**unexplained**'}"
        lines.append(f"| {mutant.file} | {mutant.what} | {found} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="List breaks of the library that no test notices.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="copies of the tree")
    parser.add_argument("--only", action="append", help="breaks whose file or words contain this")
    parser.add_argument("--keep", help="folder for the copies, which then stay")
    parser.add_argument("--result", help="write the table of results to this file")
    parser.add_argument("--list", action="store_true", help="only check that the list fits the code")
    arguments = parser.parse_args()
    mutants = [m for m in read_list(TOP / "tests/mutants/list") if
               not arguments.only or any(word in m.file + m.what for word in arguments.only)]
    stale = []
    for mutant in mutants:
        try:
            mutant.changed((TOP / mutant.file).read_text())
        except (OSError, ValueError) as error:
            stale.append(str(error))
    print("".join(f"{line}\n" for line in stale), end="")
    if stale or arguments.list:
        print(f"{len(mutants)} breaks, {len(stale)} do not fit the code")
        return 1 if stale else 0
    results = run_all(mutants, arguments.jobs, arguments.keep)
    survivors = [m for m, seen in results if not seen and not m.equal]
    print(f"{len(results)} breaks, {sum(1 for _, seen in results if seen)} noticed, "
          f"{len(results) - sum(1 for _, seen in results if seen) - len(survivors)} equivalent, "
          f"{len(survivors)} unexplained")
    if arguments.result:
        pathlib.Path(arguments.result).write_text(table(results))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
