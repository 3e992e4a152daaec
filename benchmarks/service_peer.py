"""sentence-transformers behind a plain endpoint, as people write it.

python -m benchmarks.service_peer MODEL
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import CrossEncoder

app = FastAPI()


class Body(BaseModel):
    """What is asked."""

    query: str
    texts: list[str]


@app.post("/rerank")
def rerank(body: Body) -> list[dict[str, Any]]:
    """Runs in FastAPI's pool of threads."""
    scores = app.state.model.predict([(body.query, text) for text in body.texts])
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [{"index": number, "score": float(scores[number])} for number in order]


class _Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        place = self.servers[0].sockets[0].getsockname()
        print(f"serving at http://127.0.0.1:{place[1]}", flush=True)


if __name__ == "__main__":
    app.state.model = CrossEncoder(sys.argv[1])
    app.state.model.predict([("warm", "up")])
    _Server(uvicorn.Config(app, port=0, log_level="warning")).run()
