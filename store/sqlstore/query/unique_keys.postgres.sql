-- Not partial ones, nor those checked at COMMIT: they do not tell duplicates.
SELECT c.relname::text, COALESCE(a.attname::text, '')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, n)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND a.attnum > 0
WHERE i.indrelid = ?::oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND k.n <= i.indnkeyatts
ORDER BY i.indisprimary DESC, c.relname, k.n
