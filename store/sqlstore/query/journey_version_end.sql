UPDATE journey_versions SET ended = ? WHERE journey = ? AND version = ? AND ended IS NULL
