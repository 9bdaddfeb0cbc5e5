SELECT pg_try_advisory_lock(hashtext('sluice.keep.' || 'events'::regclass::oid::text))
