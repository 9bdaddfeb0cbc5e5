DELETE FROM reactions WHERE bucket = ?
