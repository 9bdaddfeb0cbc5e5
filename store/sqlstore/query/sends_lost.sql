SELECT COUNT(*) FROM (SELECT 1 AS one FROM sends WHERE state = 'in_doubt' AND due IS NULL AND reason = ? LIMIT ?) AS lost
