UPDATE journeys SET name = ?, status = ?, version = ?, revision = revision + 1, draft = ?, updated = ? WHERE id = ? AND revision = ? AND version = ?
