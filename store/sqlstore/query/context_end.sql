UPDATE journey_context SET ended = ? WHERE part = ? AND journey = ? AND number IN ($NAMES)
