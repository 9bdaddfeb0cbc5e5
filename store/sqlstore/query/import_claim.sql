UPDATE imports SET claim = ?, updated = ? WHERE id = ? AND state = 'open' AND next_offset = ? AND (claim = '' OR claim = ?)
