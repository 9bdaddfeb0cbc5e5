SELECT current_setting('transaction_read_only') = 'off', pg_postmaster_start_time()::text,
EXISTS (SELECT 1 FROM pg_stat_wal_receiver),
CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
ELSE COALESCE(EXTRACT(EPOCH FROM now() - pg_last_xact_replay_timestamp()), 0) END::bigint
