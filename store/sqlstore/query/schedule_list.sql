SELECT id, state, revision, due, request, created, updated FROM schedules WHERE state = ? AND due >= ? AND due < ? AND (due > ? OR id > ?) ORDER BY due, id LIMIT ?
