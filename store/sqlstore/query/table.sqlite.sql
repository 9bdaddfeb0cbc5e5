SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE
