"""What a schema cannot say about the requests of the API."""

import datetime
import itertools
import json
import re
import time

import schemathesis
from requests.adapters import HTTPAdapter

_requests = itertools.count()
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


_PATIENCE = 240  # seconds
_once = HTTPAdapter.send


def _again(self, request, **kwargs):
    """On a busy machine a key may not be read in time: a 503 that says when to come again is no error."""
    end = time.monotonic() + _PATIENCE
    while True:
        answer = _once(self, request, **kwargs)
        if answer.status_code != 503 or "Retry-After" not in answer.headers or time.monotonic() > end:
            return answer
        answer.close()
        time.sleep(0.1)


HTTPAdapter.send = _again


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    """A text is schema-valid; the event or counter in the line is made of it."""
    item = {"name": "fuzz " + value[:200]} if isinstance(value, str) else value
    return json.dumps(item).encode() + b"\n"


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Each request has an Idempotency-Key of its own, if it has a good one."""
    key = (case.headers or {}).get("Idempotency-Key")
    if key and key.strip() == key and len(key) < 200 and key.isascii() and key.isprintable() and " " not in key:
        case.headers["Idempotency-Key"] = f"{key}-{next(_requests)}"
    for event in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(event, dict) and "event_id" in event:
            event.setdefault("time", 0)  # without an Idempotency-Key it needs one
        if isinstance(event, dict) and "time" in event:
            event["time"] = _near(event["time"])


def _near(time):
    """Times have bounds that move on with the clock; a good one becomes now."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if isinstance(time, str) and _RFC3339.fullmatch(time):
        return now.isoformat()
    if isinstance(time, (int, float)) and not isinstance(time, bool) and time >= 0:
        return int(now.timestamp() * 1000)
    return time
