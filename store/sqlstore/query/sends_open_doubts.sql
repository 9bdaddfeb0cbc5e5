SELECT COUNT(*) FROM sends WHERE state = 'in_doubt' AND due IS NULL
