SELECT a.attname::text, t.typcategory::text, a.attgenerated <> '' OR a.attidentity = 'a',
       NOT a.attnotnull, a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
