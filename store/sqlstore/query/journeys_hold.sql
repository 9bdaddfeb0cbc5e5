UPDATE journeys SET status = ?, revision = revision + 1, updated = ? WHERE number = ?
