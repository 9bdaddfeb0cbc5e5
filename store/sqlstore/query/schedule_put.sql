UPDATE schedules SET state = ?, revision = ?, due = ?, request = ?, updated = ? WHERE id = ? AND revision = ?
