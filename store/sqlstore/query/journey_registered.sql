SELECT p.number, v.names FROM journey_publish AS p LEFT JOIN journey_versions AS v ON v.ended IS NULL WHERE p.id = 1
