UPDATE imports SET state = ?, claim = '', updated = ?, ended = ? WHERE id = ? AND state = ? AND next_offset = ? AND claim = ? AND updated = ?
