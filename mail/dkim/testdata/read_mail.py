"""Reads mails as Python's email package does, and has dkimpy verify them.

    read_mail.py RECORDS.json MAIL ...  ->  a JSON object a mail, one a line
"""

import email
import email.policy
import hashlib
import json
import sys

import dkim

records = json.load(open(sys.argv[1]))


def txt(name, timeout=5):
    name = name.decode() if isinstance(name, bytes) else name
    record = records.get(name.rstrip("."))
    return record.encode() if record else None


def addresses(message, name):
    header = message[name]
    return [[a.display_name, a.addr_spec] for a in header.addresses] if header is not None else []


for path in sys.argv[2:]:
    with open(path, "rb") as f:
        raw = f.read()
    message = email.message_from_bytes(raw, policy=email.policy.default)
    parts, defects = [], [repr(d) for d in message.defects]
    for part in message.walk():
        defects += [repr(d) for d in part.defects]
        for name, header in part.items():
            # Encoded words in the parameter "name" are against RFC 2047, 5, and
            # there for old readers: "filename" has the name by RFC 2231.
            if name.lower() != "content-type":
                defects += [repr(d) for d in getattr(header, "defects", [])]
        if part.is_multipart():
            continue
        content = part.get_payload(decode=True)
        parts.append({
            "type": part.get_content_type(),
            "disposition": part.get_content_disposition() or "",
            "name": part.get_filename() or "",
            "id": part["content-id"] or "",
            "text": part.get_content() if part.get_content_maintype() == "text" else "",
            "sha256": hashlib.sha256(content).hexdigest(),
        })
    signatures = raw.count(b"DKIM-Signature:")
    print(json.dumps({
        "subject": str(message["subject"]), "from": addresses(message, "from"), "to": addresses(message, "to"),
        "parts": parts, "defects": defects, "signatures": signatures,
        "valid": [bool(dkim.DKIM(raw).verify(idx=i, dnsfunc=txt)) for i in range(signatures)],
    }))
