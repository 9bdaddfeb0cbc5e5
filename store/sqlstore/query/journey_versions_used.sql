SELECT journey, version, document, names, created, ended FROM journey_versions WHERE ended IS NULL ORDER BY journey, version
