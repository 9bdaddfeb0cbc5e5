SELECT journey, version, document, names, created, ended FROM journey_versions WHERE journey = ? AND version = ?
