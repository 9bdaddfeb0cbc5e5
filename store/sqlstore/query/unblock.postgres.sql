-- xmax of a row being changed is the transaction that changes it.
SELECT COUNT(*) FROM (
  SELECT pg_terminate_backend(l.pid)
  FROM cursors c
  JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = c.xmax AND l.mode = 'ExclusiveLock' AND l.granted
  JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE c.follower = ? AND c.part = ? AND a.wait_event = 'ClientRead' AND a.xact_start < clock_timestamp() - ? * interval '1 second'
) AS ended
