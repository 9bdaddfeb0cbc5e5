SELECT number, entered, occurrence, body, ended FROM journey_context WHERE part = ? AND journey = ? AND number IN ($NAMES)
