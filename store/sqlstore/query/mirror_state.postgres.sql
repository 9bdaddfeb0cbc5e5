SELECT pos_major, pos_minor FROM cursors WHERE follower = ? AND part = 0 AND pg_advisory_xact_lock_shared(hashtext('sluice.mirror'), hashtext(current_schema())) IS NOT NULL FOR SHARE
