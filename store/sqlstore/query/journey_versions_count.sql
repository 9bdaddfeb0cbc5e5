SELECT COUNT(*) FROM journey_versions WHERE journey = ? AND ended IS NULL
