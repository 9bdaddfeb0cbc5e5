DELETE FROM journey_context WHERE part = ? AND number IN ($NAMES)
