SELECT set_config('idle_in_transaction_session_timeout', ?, false), set_config('lock_timeout', ?, false),
       set_config('tcp_user_timeout', ?, false), set_config('tcp_keepalives_idle', '1', false),
       set_config('tcp_keepalives_interval', '1', false), set_config('tcp_keepalives_count', '2', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
