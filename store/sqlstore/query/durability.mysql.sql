SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED), CAST(@@GLOBAL.log_bin AS SIGNED), CAST(@@GLOBAL.sync_binlog AS SIGNED)
