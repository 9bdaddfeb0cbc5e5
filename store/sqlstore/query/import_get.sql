SELECT id, name, options, size, account, state, next_offset, lines_read, taken, refused, removed, reader, claim, last_piece, created, updated, ended FROM imports WHERE id = ?
