SELECT j.id, h.reason FROM journey_holds h JOIN journeys j ON j.number = h.journey ORDER BY j.id LIMIT ?
