#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Causal prefill in NumPy beside `tsa bench`: the truncated kernel of three terms in a loop over
chunks, and softmax in blocks of rows and as a whole. One head, head_dim 16, value_dim 64,
temperature 2, f32, one thread of NumPy's BLAS. Prints one JSON line per method and length; see
doc/bench.md. Needs Python 3.7 or newer and NumPy (Debian, Ubuntu: python3-numpy).
"""
import argparse
import json
import math
import os
import statistics
import time

# Before NumPy is imported, as its BLAS reads them then.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS",
                 "VECLIB_MAXIMUM_THREADS"):
    os.environ[variable] = "1"

try:
    import numpy as np  # noqa: E402
except ImportError:
    np = None  # --help works without it

HEAD_DIM = 16
VALUE_DIM = 64
TEMPERATURE = 2
CHUNK = 256
FEATURES = 1 + HEAD_DIM + HEAD_DIM * (HEAD_DIM + 1) // 2
SCALE = 1 / TEMPERATURE
MOST_WHOLE = 8192  # tokens of an N x N softmax: 256 MB per array
BOUND = 256 * 2.0 ** -24  # the error bound of `tsa bench` for f32


def make_inputs(tokens):
    """Rows of q and k on the unit sphere, v uniform in [-1/2, 1/2]."""
    random = np.random.default_rng(1)
    rows = []
    for _ in range(2):
        x = random.uniform(-0.5, 0.5, (tokens, HEAD_DIM))
        rows.append((x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32))
    v = random.uniform(-0.5, 0.5, (tokens, VALUE_DIM)).astype(np.float32)
    return rows[0], rows[1], v


def query_weights():
    """Coefficient of each feature on the query's side: c_m a^-m m!/alpha! of its monomial."""
    first, second = np.triu_indices(HEAD_DIM)
    squares = np.where(first == second, 0.5, 1.0) / TEMPERATURE**2
    parts = [np.ones(1), np.full(HEAD_DIM, 1 / TEMPERATURE), squares]
    return np.concatenate(parts).astype(np.float32)


def fill_features(x, out):
    """Monomials of degree 0, 1 and 2 of the rows of x, feature by feature: out[FEATURES][rows]."""
    transposed = np.ascontiguousarray(x.T)
    out[0] = 1
    out[1:1 + HEAD_DIM] = transposed
    at = 1 + HEAD_DIM
    for i in range(HEAD_DIM):
        end = at + HEAD_DIM - i
        np.multiply(transposed[i], transposed[i:], out=out[at:end])
        at = end


class Taylor:
    """Query the state, add the triangle of the chunk, fold the chunk into the state."""

    name = "numpy_taylor_c256"

    def __init__(self):
        self.weights = query_weights()[:, None]
        self.triangle = np.tril(np.ones((CHUNK, CHUNK), np.float32))
        self.psi = np.empty((FEATURES, CHUNK), np.float32)
        self.phi = np.empty((FEATURES, CHUNK), np.float32)

    def __call__(self, q, k, v):
        tokens = len(q)
        v1 = np.ones((tokens, VALUE_DIM + 1), np.float32)
        v1[:, :VALUE_DIM] = v
        o = np.empty((tokens, VALUE_DIM + 1), np.float32)
        state = np.zeros((FEATURES, VALUE_DIM + 1), np.float32)
        scaled = q * SCALE
        for start in range(0, tokens, CHUNK):
            part = slice(start, min(start + CHUNK, tokens))
            rows = part.stop - start
            psi, phi = self.psi[:, :rows], self.phi[:, :rows]
            fill_features(q[part], psi)
            o[part] = psi.T @ (state * self.weights)
            scores = scaled[part] @ k[part].T
            kernel = scores * np.float32(0.5)
            kernel += 1
            kernel *= scores
            kernel += 1
            kernel *= self.triangle[:rows, :rows]
            o[part] += kernel @ v1[part]
            fill_features(k[part], phi)
            state += phi @ v1[part]
        return o[:, :VALUE_DIM] / o[:, VALUE_DIM:]

    @staticmethod
    def weigh(x):
        return 1 + x + x * x / 2


class Softmax:
    """Each block of rows against the keys up to its end."""

    name = "numpy_softmax_rowblock256"

    def __init__(self):
        self.hidden = np.triu(np.ones((CHUNK, CHUNK), bool), 1)

    def __call__(self, q, k, v):
        tokens = len(q)
        o = np.empty((tokens, VALUE_DIM), np.float32)
        scaled = q * SCALE
        for start in range(0, tokens, CHUNK):
            end = min(start + CHUNK, tokens)
            rows = end - start
            scores = scaled[start:end] @ k[:end].T
            np.copyto(scores[:, start:], -np.inf, where=self.hidden[:rows, :rows])
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            o[start:end] = scores @ v[:end]
            o[start:end] /= scores.sum(axis=1, keepdims=True)
        return o

    @staticmethod
    def weigh(x):
        return np.exp(x)


class WholeSoftmax:
    """All scores at once, N x N, as the paper's baseline has it."""

    name = "numpy_softmax_whole"

    def __init__(self):
        self.hidden = np.empty((0, 0), bool)

    def __call__(self, q, k, v):
        tokens = len(q)
        if len(self.hidden) != tokens:
            self.hidden = np.triu(np.ones((tokens, tokens), bool), 1)
        scores = (q * SCALE) @ k.T
        scores[self.hidden] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores @ v

    @staticmethod
    def weigh(x):
        return np.exp(x)


def largest_error(method, q, k, v):
    """On sampled rows, against an explicit evaluation in f64."""
    tokens = len(q)
    o = method(q, k, v)
    rows = sorted(set(range(0, tokens, tokens // 11 + 1)) | {tokens - 1})
    worst = 0.0
    for t in rows:
        x = k[:t + 1].astype(np.float64) @ q[t].astype(np.float64) / TEMPERATURE
        weights = method.weigh(x)
        exact = weights @ v[:t + 1].astype(np.float64) / weights.sum()
        error = float(np.abs(o[t] - exact).max())
        if math.isnan(error) or error > worst:  # no comparison with a NaN holds, so it stays
            worst = error
    return worst


def measure(tokens, repeats):
    """The methods in turn; the smaller of wall and processor time, as `tsa bench` has it."""
    q, k, v = make_inputs(tokens)
    methods = [Taylor(), Softmax()] + ([WholeSoftmax()] if tokens <= MOST_WHOLE else [])
    errors = [largest_error(method, q, k, v) for method in methods]
    times = [[] for _ in methods]
    for _ in range(repeats):
        for method, taken in zip(methods, times):
            wall, processor = time.perf_counter(), time.process_time()
            method(q, k, v)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            taken.append(min(wall, processor))
    for method, taken, error in zip(methods, times, errors):
        shortest, median = min(taken), statistics.median(taken)
        print(json.dumps({
            "problem": f"prefill:b1:h1:n{tokens}:d{HEAD_DIM}:dv{VALUE_DIM}:t3"
                       if isinstance(method, Taylor) else
                       f"softmax:b1:h1:n{tokens}:d{HEAD_DIM}:dv{VALUE_DIM}:t3",
            "contender": method.name,
            "numpy": np.__version__,
            "compute": "f32",
            "threads": 1,
            "chunk": CHUNK,
            "tokens": tokens,
            "repeats": repeats,
            "seconds_min": shortest,
            "seconds_median": median,
            "us_per_token": shortest * 1e6 / tokens,
            "max_error": error,
        }), flush=True)
    return all(error <= BOUND for error in errors)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}': a whole number of 1 or more is wanted")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens", type=positive, nargs="*", default=[1024, 2048, 4096, 8192],
                        help="lengths N (1024 2048 4096 8192)")
    parser.add_argument("--repeats", type=positive, default=15, help="of each method (15)")
    arguments = parser.parse_args()
    if np is None:
        parser.error("NumPy is missing (Debian, Ubuntu: apt-get install python3-numpy)")
    right = [measure(tokens, arguments.repeats) for tokens in arguments.tokens]
    return 0 if all(right) else 1


if __name__ == "__main__":
    raise SystemExit(main())
