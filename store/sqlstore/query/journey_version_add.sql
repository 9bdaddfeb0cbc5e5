INSERT INTO journey_versions (journey, version, document, names, created, ended) VALUES (?, ?, ?, ?, ?, NULL)
