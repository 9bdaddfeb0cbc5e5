-- The sends that wait, of each partition: few of all, and looked for when the
-- lanes are compared with the ledger, or purged.
CREATE INDEX IF NOT EXISTS send_waiting ON sends (part, message, number) WHERE state = 'waiting';
