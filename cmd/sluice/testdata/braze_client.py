"""Makes all calls of the PyPI client braze-client that Sluice answers."""

import asyncio
import sys
import time

# tenacity 5, which the client asks for, wants what Python 3.11 took away.
if not hasattr(asyncio, "coroutine"):
    asyncio.coroutine = lambda f: f

from braze.client import BrazeClient, BrazeClientError  # noqa: E402
from requests.adapters import HTTPAdapter  # noqa: E402

PATIENCE = 240  # seconds; bounds a wait for what happens soon, on a machine that is busy


class Patient(HTTPAdapter):
    """The client waits 2 s for an answer, and comes three times: too little on a busy machine."""

    def send(self, request, **kwargs):
        end = time.monotonic() + PATIENCE
        while True:
            answer = super().send(request, **{**kwargs, "timeout": PATIENCE})
            if answer.status_code != 503 or time.monotonic() > end:
                return answer
            time.sleep(0.1)


def main(url, key):
    for in_header in (True, False):
        calls(patient(url, api_key=key, use_auth_header=in_header), "py-%s" % in_header)
    refused(patient(url, api_key="stranger"), "Invalid API key: stranger", external_ids=["u"])


def patient(url, **kwargs):
    client = BrazeClient(api_url=url, **kwargs)
    client.session.mount(url, Patient())
    return client


def calls(client, user):
    answer = client.user_track(
        attributes=[{"external_id": user, "plan": "gold", "email": user + "@example.com"}],
        events=[{"external_id": user, "name": "py", "time": "2026-11-20T10:00:00Z", "properties": {"a": 1}}],
        purchases=[{"external_id": user, "product_id": "sku", "currency": "EUR", "price": 1.5, "time": "2026-11-20T10:00:00Z"}],
    )
    assert answer["success"] and answer["status_code"] == 201, answer
    assert [answer[k + "_processed"] for k in ("attributes", "events", "purchases")] == [1, 1, 1], answer

    answer = client.user_track(attributes=[{"plan": "none"}, {"external_id": user, "a": 1}])
    assert answer["message"] == "success" and not answer["success"], answer
    assert answer["errors"][0]["index"] == 0 and answer["errors"][0]["input_array"] == "attributes", answer

    try:
        client.user_track(events=[{"name": "nobody's"}])
        raise AssertionError("taken")
    except BrazeClientError as e:
        assert e.args[0].startswith("Valid data must be provided"), e

    until(lambda: client.user_export(external_ids=[user])["users"])
    answer = client.user_export(email=user + "@example.com", fields_to_export=["external_id", "custom_events", "purchases"])
    assert answer["success"] and answer["users"] == [{
        "external_id": user,
        "custom_events": [{"name": "py", "first": "2026-11-20T10:00:00.000Z", "last": "2026-11-20T10:00:00.000Z", "count": 1}],
        "purchases": [{"name": "sku", "first": "2026-11-20T10:00:00.000Z", "last": "2026-11-20T10:00:00.000Z", "count": 1}],
    }], answer

    answer = client.user_delete(external_ids=[user, "none"])
    assert answer["success"] and answer["deleted"] == 2, answer
    until(lambda: client.user_export(external_ids=[user]).get("invalid_user_ids") == [user])


def refused(client, message, **call):
    try:
        client.user_export(**call)
    except BrazeClientError as e:
        assert e.args[0] == message, e
        return
    raise AssertionError("answered")


def until(holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


main(*sys.argv[1:])
print("done")
