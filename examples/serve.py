"""Serve a model over HTTP with NumPy and onnxruntime; `application` also runs under gunicorn and the like.

vadd export runs/digits served --onnx --steps 1
python serve.py served            # http://127.0.0.1:8000/?n=4&seed=1 answers {"samples": [...]}
"""

import json
import runpy
import sys
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

folder = sys.argv[1]
sampler = runpy.run_path(f"{folder}/sample.py")["Sampler"](folder)


def application(environ, start_response):
    query = parse_qs(environ["QUERY_STRING"])
    try:
        n, seed = (int(query.get(name, [default])[0]) for name, default in (("n", 1), ("seed", 0)))
        if not 1 <= n <= 256 or seed < 0:
            raise ValueError("n is 1 to 256, seed at least 0")
        status, answer = "200 OK", {"samples": sampler(n, seed).tolist()}
    except ValueError as error:
        status, answer = "400 Bad Request", {"error": str(error)}
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8000, application).serve_forever()
