UPDATE schedules SET state = ?, revision = revision + 1 WHERE state IN (?, ?) AND due < ?
