SELECT l.name, COALESCE(i.name, '') FROM pragma_index_list(?) l, pragma_index_info(l.name) i
WHERE l."unique" = 1 AND l.partial = 0 ORDER BY l.seq, i.seqno
