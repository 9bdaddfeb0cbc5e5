SELECT id, name, options, size, account, state, next_offset, lines_read, taken, refused, removed, '', claim, '', created, updated, ended FROM imports WHERE id < ? ORDER BY id DESC LIMIT ?
