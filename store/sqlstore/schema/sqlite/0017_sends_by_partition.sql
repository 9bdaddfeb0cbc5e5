-- send_waiting has the partition first already.
SELECT 1;
