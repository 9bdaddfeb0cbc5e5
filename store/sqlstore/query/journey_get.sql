SELECT number, id, name, status, version, revision, draft, created, updated, COALESCE((SELECT reason FROM journey_holds WHERE journey = journeys.number), '') FROM journeys WHERE id = ?
