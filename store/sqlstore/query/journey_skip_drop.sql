DELETE FROM journey_skips WHERE journey = ?
