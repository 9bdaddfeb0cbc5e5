SELECT VERSION(), @@local_infile, @@max_allowed_packet, COALESCE(DATABASE(), '')
