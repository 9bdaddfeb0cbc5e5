-- Readable from version 17
-- The sends in doubt that are attempted again, of each partition: few of all, and
-- looked for when the lanes are compared with the ledger.
CREATE INDEX IF NOT EXISTS send_again ON sends (part, message, number) WHERE state = 'in_doubt' AND due IS NOT NULL;
-- Those about which somebody has to decide, and why: they are counted again and again.
CREATE INDEX IF NOT EXISTS send_undecided ON sends (reason) WHERE state = 'in_doubt' AND due IS NULL;
