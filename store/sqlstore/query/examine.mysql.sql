SELECT VERSION(), @@max_allowed_packet, @@GLOBAL.local_infile, @@sql_mode, @@GLOBAL.read_only, @@datadir, TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())
