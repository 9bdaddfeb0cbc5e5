SELECT VERSION(), @@max_allowed_packet, @@GLOBAL.local_infile, @@sql_mode, CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF'), @@datadir, TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())
